#include "demo/wire.h"

#include <cstring>

namespace interlock::demo {

void append_frame(std::string& to, std::string_view bytes) {
    const auto length = static_cast<std::uint32_t>(bytes.size());
    char head[sizeof length];
    std::memcpy(head, &length, sizeof length);
    to.append(head, sizeof length).append(bytes);
}

void Frames::add(std::string_view bytes) {
    bytes_.erase(0, read_);
    read_ = 0;
    bytes_.append(bytes);
}

std::optional<std::string_view> Frames::next() {
    std::uint32_t length = 0;
    if (bytes_.size() - read_ < sizeof length) return std::nullopt;
    std::memcpy(&length, bytes_.data() + read_, sizeof length);
    if (bytes_.size() - read_ - sizeof length < length) return std::nullopt;
    const std::string_view frame = std::string_view(bytes_).substr(read_ + sizeof length, length);
    read_ += sizeof length + length;
    return frame;
}

}  // namespace interlock::demo
