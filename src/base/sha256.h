// SHA-256, for the feed's chain and for ids made from text; HMAC-SHA-256, for what only those can compute who have a
// key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace interlock {

using Sha256 = std::array<std::uint8_t, 32>;

Sha256 sha256(std::string_view bytes);
std::string to_hex(const Sha256& hash);  // Lower case.
std::string to_hex(std::string_view bytes);

// For input that comes in pieces. finish() ends it; a hasher is used once. A copy goes on from the same point.
class Sha256Hasher {
 public:
    Sha256Hasher();

    Sha256Hasher& add(std::string_view bytes);
    Sha256 finish();

 private:
    alignas(std::uint64_t) std::array<std::byte, 112> state_;  // OpenSSL's SHA256_CTX.
};

// The hashes under one key. The key itself is hashed once, here, and not again for each message.
class HmacSha256 {
 public:
    explicit HmacSha256(std::string_view key);

    // For a message that comes in pieces: they are added to what begin() returns, and finish() ends it.
    Sha256Hasher begin() const { return inner_; }
    Sha256 finish(Sha256Hasher& message) const;
    Sha256 of(std::string_view message) const;

 private:
    Sha256Hasher inner_;
    Sha256Hasher outer_;
};

}  // namespace interlock
