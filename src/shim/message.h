// What a shim and the server say to each other: lists of texts, the first of which is the verb.
//
//   (1) On the wire a message is the number of bytes that follow, then for each text its length and its bytes. Lengths
//       are 32 bits, little end first.
//   (2) A message of more than message_bytes_max, or one whose lengths do not add up, breaks the stream for good: there
//       is no telling where the next one begins.
//
// The meaning of the verbs is in protocol.h.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace interlock::shim {

using ShimMessage = std::vector<std::string>;

constexpr std::size_t message_bytes_max = std::size_t{4} << 20;

std::string encode(const ShimMessage& message);

// Takes bytes as they arrive, gives messages as they become whole.
class MessageReader {
 public:
    void add(std::string_view bytes);
    // Longer messages break the stream. A peer that is not known yet is allowed less.
    void limit(std::size_t bytes_max) { bytes_max_ = bytes_max; }
    // Empty when the next message is not whole yet, or never will be: see broken(). A message has at least its verb.
    std::optional<ShimMessage> next();
    bool broken() const { return broken_; }

 private:
    std::string buffer_;
    std::size_t taken_ = 0;  // The part of the buffer that was given out already.
    bool broken_ = false;
    std::size_t bytes_max_ = message_bytes_max;
};

}  // namespace interlock::shim
