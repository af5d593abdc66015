// Who is calling: the keys in force, and what each allows.
//
//   (1) A key's secret is never kept; its SHA-256 is, and is compared in constant time.
//   (2) After revoke() has returned, no request is let in by that key.
//
// A key is written ilk_<id>_<secret>: the id finds it, the secret proves it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "base/by_text.h"
#include "core/rows.h"

namespace interlock::api {

// What a route lets its caller do. `open` is for those who have no key at all.
enum class Access { open, read, act, operate, administer };

// What a key is bound to, from the widest to the narrowest.
enum class Bound { nothing, agent, run, budget };

struct Principal {
    core::OrgId org;
    std::string key_id;
    Access most = Access::open;  // The most it may do.
    std::string agent;           // Bound to this agent, run or budget; empty: to none.
    core::RunId run;
    core::SessionId session = {};  // Of its run. A run's key reaches this one and its forks.
    std::string budget;
    Instant until = far_future;  // When the login of a browser ends.
    bool by_cookie = false;      // Sent by a browser that logged in with the key; other sites may have made it do so.

    bool may(Access access) const { return access <= most; }
    bool is_local() const;  // A user of this machine, without a key.
    Bound bound() const {
        return !budget.empty()      ? Bound::budget
               : !run.value.empty() ? Bound::run
               : !agent.empty()     ? Bound::agent
                                    : Bound::nothing;
    }
    bool may_see_agent(std::string_view name) const { return agent.empty() || agent == name; }
};

struct NewKey {
    std::string id;
    std::string text;  // The whole key. The only time it is there.
    std::string hash;
};
NewKey make_key();
// 32 bytes of the machine's randomness, as hex.
std::string make_secret();
// Id and hash of a key's text; nothing when the text is not a key's.
std::optional<NewKey> parse_key(std::string_view text);

// "local:1000": stands for a user of this machine where the id of a key is asked for. No key's text has it.
std::string local_id(std::uint32_t user);

// "user-1000-8f…": the id of a grant, which is kept as a key without a secret. No key that is made has such an id.
std::string new_grant_id(std::uint32_t user);
std::optional<std::uint32_t> user_of_grant(std::string_view id);

class KeyRing {
 public:
    // From now on programs of this user of the machine are admins of the org, by the socket that shows whose they are.
    void admit_user(core::OrgId org, std::uint32_t user);
    void put(core::OrgId org, const core::ApiKey& key);  // In force unless it says revoked.
    void revoke(std::string_view id);
    void remove(std::string_view id);  // For keys that no store knows.
    bool in_force(std::string_view id) const;
    // Empty unless the text is a key in force.
    std::optional<Principal> find(std::string_view text) const;
    // The same, for those who have shown otherwise that they hold the key of this id.
    std::optional<Principal> holder_of(std::string_view id) const;
    // What a user of this machine may do: as an admin, or as the widest of its grants says.
    std::optional<Principal> user(std::uint32_t user) const;

 private:
    struct Entry {
        Principal caller;
        std::string hash;
    };
    mutable std::shared_mutex mutex_;
    ByText<Entry> keys_;
    std::unordered_map<std::uint32_t, TextSet> grants_;  // Ids, by user.
    TextSet revoked_;  // For good: an older reading of the store must not bring one back.
};

}  // namespace interlock::api
