#include "base/sha256.h"

// Functions that OpenSSL 3 calls deprecated, because those in place of them allocate memory for each hash and look
// their algorithm up in tables (docs/adr/0030-what-a-commit-costs.md).
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <type_traits>

#include "base/ensure.h"

namespace interlock {

namespace {

constexpr std::size_t block_bytes = SHA256_CBLOCK;

std::string_view text_of(const Sha256& hash) { return {reinterpret_cast<const char*>(hash.data()), hash.size()}; }

// The first block of a keyed hash.
std::array<char, block_bytes> padded(std::string_view key, char pad) {
    std::array<char, block_bytes> block{};
    key.copy(block.data(), block.size());
    for (char& byte : block) byte = static_cast<char>(byte ^ pad);
    return block;
}

}  // namespace

Sha256Hasher::Sha256Hasher() {
    static_assert(sizeof state_ == sizeof(SHA256_CTX) && alignof(SHA256_CTX) <= alignof(std::uint64_t));
    static_assert(std::is_trivially_copyable_v<SHA256_CTX>);
    ensure(SHA256_Init(reinterpret_cast<SHA256_CTX*>(state_.data())) == 1, "a digest can begin");
}

Sha256Hasher& Sha256Hasher::add(std::string_view bytes) {
    ensure(SHA256_Update(reinterpret_cast<SHA256_CTX*>(state_.data()), bytes.data(), bytes.size()) == 1,
           "hashing memory cannot fail");
    return *this;
}

Sha256 Sha256Hasher::finish() {
    Sha256 digest{};
    ensure(SHA256_Final(digest.data(), reinterpret_cast<SHA256_CTX*>(state_.data())) == 1,
           "hashing memory cannot fail");
    return digest;
}

Sha256 sha256(std::string_view bytes) { return Sha256Hasher().add(bytes).finish(); }

HmacSha256::HmacSha256(std::string_view key) {
    const Sha256 short_key = sha256(key);
    if (key.size() > block_bytes) key = text_of(short_key);
    const auto inner = padded(key, '\x36');
    const auto outer = padded(key, '\x5c');
    inner_.add({inner.data(), inner.size()});
    outer_.add({outer.data(), outer.size()});
}

Sha256 HmacSha256::finish(Sha256Hasher& message) const {
    return Sha256Hasher(outer_).add(text_of(message.finish())).finish();
}

Sha256 HmacSha256::of(std::string_view message) const {
    Sha256Hasher inner = begin();
    return finish(inner.add(message));
}

std::string to_hex(const Sha256& hash) { return to_hex(text_of(hash)); }

std::string to_hex(std::string_view bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text(bytes.size() * 2, '\0');
    char* at = text.data();
    for (const char byte : bytes) {
        *at++ = digits[static_cast<std::uint8_t>(byte) >> 4];
        *at++ = digits[static_cast<std::uint8_t>(byte) & 15];
    }
    return text;
}

}  // namespace interlock
