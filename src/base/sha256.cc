#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/ensure.h"

namespace interlock {

namespace {

// Looked up once: OpenSSL 3 searches its providers for what EVP_sha256() only names, each time it is used.
const EVP_MD* algorithm() {
    static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    ensure(found != nullptr, "OpenSSL knows SHA-256");
    return found;
}

}  // namespace

struct Sha256Hasher::Context {
    EVP_MD_CTX* md = EVP_MD_CTX_new();
    ~Context() { EVP_MD_CTX_free(md); }
};

Sha256Hasher::Sha256Hasher() : context_(std::make_unique<Context>()) {
    ensure(context_->md != nullptr, "OpenSSL gives a context");
    ensure(EVP_DigestInit_ex(context_->md, algorithm(), nullptr) == 1, "a digest can begin");
}

Sha256Hasher::~Sha256Hasher() = default;

Sha256Hasher& Sha256Hasher::add(std::string_view bytes) {
    ensure(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) == 1, "hashing memory cannot fail");
    return *this;
}

Sha256 Sha256Hasher::finish() {
    Sha256 digest{};
    unsigned int length = 0;
    ensure(EVP_DigestFinal_ex(context_->md, digest.data(), &length) == 1, "hashing memory cannot fail");
    ensure(length == digest.size(), "a SHA-256 digest has 32 bytes");
    return digest;
}

Sha256 sha256(std::string_view bytes) { return Sha256Hasher().add(bytes).finish(); }

std::string to_hex(const Sha256& hash) {
    return to_hex(std::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
}

std::string to_hex(std::string_view bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const char byte : bytes) {
        text += digits[static_cast<std::uint8_t>(byte) >> 4];
        text += digits[static_cast<std::uint8_t>(byte) & 15];
    }
    return text;
}

}  // namespace interlock
