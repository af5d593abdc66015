#include "api/key_ring.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/ensure.h"
#include "base/sha256.h"

namespace interlock::api {
namespace {

constexpr std::string_view prefix = "ilk_";
constexpr std::size_t id_chars = 12;
constexpr std::string_view local_prefix = "local:";
constexpr std::string_view grant_prefix = "user-";

template <std::size_t Bytes>
std::string random_hex() {
    std::array<unsigned char, Bytes> bytes;
    ensure(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "the machine has randomness");
    return to_hex(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Access most_of(const core::ApiKey& key) {
    Access most = Access::open;
    for (const std::string& scope : key.scopes) {
        most = std::max(most, scope == "admin"      ? Access::administer
                              : scope == "operator" ? Access::operate
                              : scope == "agent"    ? Access::act
                                                    : Access::read);
    }
    return most;
}

}  // namespace

NewKey make_key() {
    const std::string id = random_hex<id_chars / 2>();
    return *parse_key(std::string(prefix) + id + "_" + make_secret());
}

std::string make_secret() { return random_hex<32>(); }

std::optional<NewKey> parse_key(std::string_view text) {
    if (!text.starts_with(prefix)) return std::nullopt;
    const std::string_view rest = text.substr(prefix.size());
    const std::size_t end = rest.find('_');
    if (end == 0 || end == std::string_view::npos) return std::nullopt;
    return NewKey{std::string(rest.substr(0, end)), std::string(text), to_hex(sha256(rest.substr(end + 1)))};
}

std::string local_id(std::uint32_t user) { return std::string(local_prefix) + std::to_string(user); }

std::string new_grant_id(std::uint32_t user) {
    return std::string(grant_prefix) + std::to_string(user) + "-" + random_hex<id_chars / 2>();
}

std::optional<std::uint32_t> user_of_grant(std::string_view id) {
    if (!id.starts_with(grant_prefix)) return std::nullopt;
    id.remove_prefix(grant_prefix.size());
    std::uint32_t user = 0;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), user);
    const bool whole = error == std::errc() && end != id.data() + id.size() && *end == '-';
    return whole ? std::optional(user) : std::nullopt;
}

bool Principal::is_local() const { return key_id.starts_with(local_prefix) || user_of_grant(key_id); }

void KeyRing::admit_user(core::OrgId org, std::uint32_t user) {
    Principal caller{
        .org = org, .key_id = local_id(user), .most = Access::administer, .agent = {}, .run = {}, .budget = {}};
    const std::unique_lock lock(mutex_);
    keys_[local_id(user)] = {std::move(caller), ""};  // No text has this hash.
}

void KeyRing::put(core::OrgId org, const core::ApiKey& key) {
    if (key.revoked_at != far_past) return revoke(key.id);
    Principal caller{
        .org = org, .key_id = key.id, .most = most_of(key), .agent = key.agent, .run = key.run, .budget = key.budget};
    const std::unique_lock lock(mutex_);
    if (revoked_.contains(key.id)) return;
    keys_[key.id] = {std::move(caller), key.hash};
    if (const auto user = user_of_grant(key.id)) grants_[*user].insert(key.id);
}

void KeyRing::revoke(std::string_view id) {
    const std::unique_lock lock(mutex_);
    keys_.erase(std::string(id));
    if (const auto user = user_of_grant(id)) grants_[*user].erase(std::string(id));
    revoked_.emplace(id);
}

void KeyRing::remove(std::string_view id) {
    const std::unique_lock lock(mutex_);
    keys_.erase(std::string(id));
}

bool KeyRing::in_force(std::string_view id) const {
    const std::shared_lock lock(mutex_);
    return keys_.contains(std::string(id));
}

std::optional<Principal> KeyRing::find(std::string_view text) const {
    const auto key = parse_key(text);
    if (!key) return std::nullopt;
    const std::shared_lock lock(mutex_);
    const auto found = keys_.find(key->id);
    if (found == keys_.end() || found->second.hash.size() != key->hash.size()) return std::nullopt;
    if (CRYPTO_memcmp(found->second.hash.data(), key->hash.data(), key->hash.size()) != 0) return std::nullopt;
    return found->second.caller;
}

std::optional<Principal> KeyRing::user(std::uint32_t user) const {
    const std::shared_lock lock(mutex_);
    if (const auto admin = keys_.find(local_id(user)); admin != keys_.end()) return admin->second.caller;
    const auto granted = grants_.find(user);
    if (granted == grants_.end()) return std::nullopt;
    std::optional<Principal> widest;
    for (const std::string& id : granted->second) {
        const auto found = keys_.find(id);
        if (found != keys_.end() && (!widest || found->second.caller.most > widest->most)) {
            widest = found->second.caller;
        }
    }
    return widest;
}

std::optional<Principal> KeyRing::holder_of(std::string_view id) const {
    const std::shared_lock lock(mutex_);
    const auto found = keys_.find(std::string(id));
    return found == keys_.end() ? std::nullopt : std::optional(found->second.caller);
}

}  // namespace interlock::api
