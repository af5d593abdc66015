#include "server/secrets.h"

#include <openssl/evp.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "api/key_ring.h"
#include "api/secret_hosts.h"
#include "base/ensure.h"
#include "base/sha256.h"
#include "server/data_dir.h"
#include "server/keyed_hash.h"

namespace interlock::server {
namespace {

constexpr char version_byte = 1;
constexpr std::size_t nonce_bytes = 12;
constexpr std::size_t tag_bytes = 16;
constexpr std::size_t around_bytes = 1 + nonce_bytes + tag_bytes;

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
int size_of(std::string_view text) { return static_cast<int>(text.size()); }

// What is authenticated besides the secret. Names and hosts have no line breaks.
std::string place_of(core::OrgId org, std::string_view name, const std::vector<std::string>& hosts) {
    std::string place = fmt::format("{}/{}", org.value, name);
    for (const std::string& host : hosts) place.append("\n").append(host);
    return place;
}

std::string nonce_of(std::string_view key, std::string_view place, std::string_view secret) {
    const std::string all = fmt::format("{}:{}:{}", place.size(), place, secret);
    return keyed_hash(key, all).substr(0, nonce_bytes);
}

std::string to_base64(std::string_view bytes) {
    std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // It ends with a NUL.
    text.resize(static_cast<std::size_t>(EVP_EncodeBlock(bytes_of(text), bytes_of(bytes), size_of(bytes))));
    return text;
}

// Empty when it is not base64.
std::string from_base64(std::string_view text) {
    if (text.empty() || text.size() % 4 != 0) return {};
    std::string bytes(text.size() / 4 * 3, '\0');
    if (EVP_DecodeBlock(bytes_of(bytes), bytes_of(text), size_of(text)) < 0) return {};
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
    bytes.resize(bytes.size() - padding);
    return bytes;
}

}  // namespace

Result<std::string, std::string> SecretBox::seal(core::OrgId org, std::string_view name, std::string_view secret,
                                                 std::vector<std::string> hosts) {
    const auto with = key(WithoutKey::make_one);
    if (!with) return fail(with.error());
    const std::string place = place_of(org, name, hosts);
    const std::string nonce = nonce_of(*with, place, secret);
    const Cipher cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
    std::string hidden(secret.size(), '\0');
    std::string tag(tag_bytes, '\0');
    int size = 0;
    const bool done =
        cipher != nullptr &&
        EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, bytes_of(std::string_view(*with)),
                           bytes_of(std::string_view(nonce))) == 1 &&
        EVP_EncryptUpdate(cipher.get(), nullptr, &size, bytes_of(std::string_view(place)), size_of(place)) == 1 &&
        EVP_EncryptUpdate(cipher.get(), bytes_of(hidden), &size, bytes_of(secret), size_of(secret)) == 1 &&
        EVP_EncryptFinal_ex(cipher.get(), bytes_of(hidden) + size, &size) == 1 &&
        EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(tag_bytes), tag.data()) == 1;
    ensure(done, "what is in memory can be encrypted");
    return to_text(
        api::SecretDocument{std::move(hosts), to_base64(std::string(1, version_byte) + nonce + hidden + tag)});
}

Result<std::string, std::string> SecretBox::open(core::OrgId org, std::string_view name, std::string_view stored,
                                                 std::string_view host, const std::vector<std::string>& bound) {
    if (std::ranges::find(bound, host) == bound.end()) {
        return fail(
            fmt::format("secret '{0}' may not be sent to {1}; set it again for that host: interlock secrets set "
                        "{0} --host {1}",
                        name, host));
    }
    const auto with = key(WithoutKey::fail);
    if (!with) return fail(with.error());
    const api::SecretDocument document = api::secret_document_from(stored);
    const std::string all = from_base64(document.sealed);
    if (all.size() < around_bytes || all.front() != version_byte) {
        return fail(fmt::format("secret '{0}' is corrupt; set it again: interlock secrets set {0}", name));
    }
    const std::string_view nonce = std::string_view(all).substr(1, nonce_bytes);
    const std::string_view hidden = std::string_view(all).substr(1 + nonce_bytes, all.size() - around_bytes);
    std::string tag = all.substr(all.size() - tag_bytes);
    const std::string place = place_of(org, name, document.hosts);
    const Cipher cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
    std::string secret(hidden.size(), '\0');
    int size = 0;
    const bool done =
        cipher != nullptr &&
        EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, bytes_of(std::string_view(*with)),
                           bytes_of(nonce)) == 1 &&
        EVP_DecryptUpdate(cipher.get(), nullptr, &size, bytes_of(std::string_view(place)), size_of(place)) == 1 &&
        EVP_DecryptUpdate(cipher.get(), bytes_of(secret), &size, bytes_of(hidden), size_of(hidden)) == 1 &&
        EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(tag_bytes), tag.data()) == 1 &&
        EVP_DecryptFinal_ex(cipher.get(), bytes_of(secret) + size, &size) == 1;
    if (!done) {
        return fail(
            fmt::format("secret '{}' was encrypted with another key than that in {}; restore the file, or set the "
                        "secret again",
                        name, secrets_key_path(data_dir_)));
    }
    return secret;
}

Result<std::string, std::string> SecretBox::key(WithoutKey otherwise) {
    const std::lock_guard lock(mutex_);
    if (!key_.empty()) return key_;
    if (otherwise == WithoutKey::fail && !std::filesystem::exists(secrets_key_path(data_dir_))) {
        return fail(fmt::format("{} is missing, which has the key of the secrets; restore it, or set the secrets again",
                                secrets_key_path(data_dir_)));
    }
    const auto text = secrets_key(data_dir_, api::make_secret());
    if (!text) return fail(text.error());
    // The file has hex digits; whatever they are, their hash has the right size.
    const Sha256 hash = sha256(*text);
    key_.assign(hash.begin(), hash.end());
    return key_;
}

}  // namespace interlock::server
