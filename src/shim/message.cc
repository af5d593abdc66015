#include "shim/message.h"

#include <cstdint>

namespace interlock::shim {
namespace {

constexpr std::size_t length_bytes = 4;

void add_length(std::string& out, std::size_t length) {
    for (std::size_t i = 0; i < length_bytes; ++i) out += static_cast<char>((length >> (8 * i)) & 0xff);
}

std::size_t length_at(std::string_view bytes) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < length_bytes; ++i) {
        length |= std::size_t{static_cast<std::uint8_t>(bytes[i])} << (8 * i);
    }
    return length;
}

// Empty when the lengths do not add up.
std::optional<ShimMessage> decode(std::string_view body) {
    ShimMessage message;
    while (!body.empty()) {
        if (body.size() < length_bytes) return std::nullopt;
        const std::size_t length = length_at(body);
        body.remove_prefix(length_bytes);
        if (length > body.size()) return std::nullopt;
        message.emplace_back(body.substr(0, length));
        body.remove_prefix(length);
    }
    if (message.empty()) return std::nullopt;
    return message;
}

}  // namespace

std::string encode(const ShimMessage& message) {
    std::size_t size = 0;
    for (const std::string& text : message) size += length_bytes + text.size();
    std::string out;
    out.reserve(length_bytes + size);
    add_length(out, size);
    for (const std::string& text : message) {
        add_length(out, text.size());
        out += text;
    }
    return out;
}

void MessageReader::add(std::string_view bytes) {
    if (broken_) return;
    // Only now, not with every message: many small ones in one buffer would otherwise be moved again and again.
    buffer_.erase(0, taken_);
    taken_ = 0;
    buffer_ += bytes;
}

std::optional<ShimMessage> MessageReader::next() {
    const std::string_view rest = std::string_view(buffer_).substr(taken_);
    if (broken_ || rest.size() < length_bytes) return std::nullopt;
    const std::size_t length = length_at(rest);
    std::optional<ShimMessage> message;
    if (length <= bytes_max_) {
        if (rest.size() - length_bytes < length) return std::nullopt;
        message = decode(rest.substr(length_bytes, length));
    }
    broken_ = !message;
    taken_ += length_bytes + length;
    // One that was large leaves nothing behind in a process that lives long.
    if (broken_ || taken_ == buffer_.size()) {
        std::string().swap(buffer_);
        taken_ = 0;
    }
    return message;
}

}  // namespace interlock::shim
