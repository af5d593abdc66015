// How much goes to models in a minute: buckets that fill with time.
//
//   (1) Over any minute no more than twice a limit's number gets through, and in the long run never more than
//       the limit.
//   (2) Tokens are counted when they are known, after the call: a bucket may go below nothing, and then lets
//       nobody through until time has filled it.
//
// On this node only: several nodes have a bucket each.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/rows.h"
#include "gateway/settings.h"
#include "net/http.h"
#include "net/task.h"

namespace interlock::gateway {

// Of the tightest limit that applies.
struct RateState {
    std::int64_t limit = 0;
    std::int64_t remaining = 0;
    std::int64_t reset_s = 0;  // Until the bucket is full.
};

struct RateVerdict {
    std::optional<std::string> refused_by = {};  // A limit's name.
    std::int64_t retry_after_s = 0;
    std::optional<RateState> requests = {};
    std::optional<RateState> tokens = {};
};
// x-ratelimit-…, where there is something to say.
void add_rate_headers(std::vector<net::Header>& headers, const RateVerdict& verdict);

class RateLimits {
 public:
    struct Who {
        core::OrgId org;
        std::string_view key;
        std::string_view agent;
        std::string_view model;
        std::string_view provider;
    };
    // Counts one request against every limit that applies, or none of them.
    RateVerdict ask(const std::vector<RateLimit>& limits, const Who& who, net::SteadyTime now);
    void used(const std::vector<RateLimit>& limits, const Who& who, std::int64_t tokens, net::SteadyTime now);

 private:
    struct Bucket {
        double level = 0;
        net::SteadyTime filled_at = {};
        bool begun = false;
    };
    // As it stands now.
    Bucket& bucket(core::OrgId org, const std::string& name, std::string_view what, std::int64_t per_minute,
                   net::SteadyTime now);

    std::mutex mutex_;
    std::map<std::pair<core::OrgId, std::string>, Bucket> buckets_;
};

}  // namespace interlock::gateway
