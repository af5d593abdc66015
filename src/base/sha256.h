// SHA-256, for the feed's chain and for ids made from text.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace interlock {

using Sha256 = std::array<std::uint8_t, 32>;

Sha256 sha256(std::string_view bytes);
std::string to_hex(const Sha256& hash);  // Lower case.
std::string to_hex(std::string_view bytes);

// For input that comes in pieces. finish() ends it; a hasher is used once.
class Sha256Hasher {
 public:
    Sha256Hasher();
    ~Sha256Hasher();
    Sha256Hasher(const Sha256Hasher&) = delete;
    Sha256Hasher& operator=(const Sha256Hasher&) = delete;

    Sha256Hasher& add(std::string_view bytes);
    Sha256 finish();

 private:
    struct Context;
    std::unique_ptr<Context> context_;
};

}  // namespace interlock
