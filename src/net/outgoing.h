// What is to be sent, in up to three places, and how much of it is left.
#pragma once

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <string_view>

namespace interlock::net {

class Outgoing {
 public:
    // What these refer to stays where it is until it is sent.
    explicit Outgoing(std::string_view first, std::string_view second = {}, std::string_view third = {})
        : buffers_{boost::asio::buffer(first), boost::asio::buffer(second), boost::asio::buffer(third)},
          bytes_left_(first.size() + second.size() + third.size()) {}

    const std::array<boost::asio::const_buffer, 3>& buffers() const { return buffers_; }
    boost::asio::const_buffer front() const {
        return *std::ranges::find_if(buffers_, [](const auto& buffer) { return buffer.size() > 0; });
    }
    std::size_t bytes_left() const { return bytes_left_; }

    void sent(std::size_t count) {
        bytes_left_ -= count;
        for (auto& buffer : buffers_) {
            const std::size_t here = std::min(count, buffer.size());
            buffer += here;
            count -= here;
        }
    }

 private:
    std::array<boost::asio::const_buffer, 3> buffers_;
    std::size_t bytes_left_;
};

}  // namespace interlock::net
