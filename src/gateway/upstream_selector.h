// The upstreams as they do: which are to be tried for a model, in which order, and which are left alone for a while.
//
//   (1) Lower priorities first; among equals by weight, drawn anew for each call.
//   (2) An upstream that has failed so often in a row is asked last for its time of cooling down, not never: when all
//       fail, one of them has to be asked.
//   (3) At most `watched_max` upstreams have their last hour kept: those that were asked last.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/rows.h"
#include "gateway/config.h"
#include "gateway/last_hour.h"
#include "net/task.h"

namespace interlock::gateway {

class UpstreamSelector {
 public:
    // Of this dialect and for this model, the one to begin with first. An empty model asks for any of the dialect's.
    std::vector<const Upstream*> order(core::OrgId org, const Config& config, ApiFormat format, std::string_view model,
                                       net::SteadyTime now);

    static constexpr std::size_t watched_max = 256;

    // The end of one request.
    void succeeded(core::OrgId org, const Upstream& upstream, Instant at, CallLatency took);
    void failed(core::OrgId org, const Upstream& upstream, std::string why, net::SteadyTime now, Instant at);

    struct Health {
        std::int32_t failures_in_a_row = 0;
        std::int64_t requests = 0;
        std::int64_t failures = 0;
        net::SteadyTime cooling_until = {};
        std::string last_failure = {};
        Instant failing_since = far_past;  // The first failure since the last success.
    };
    // By name.
    std::map<std::string, Health> health(core::OrgId org) const;
    std::map<std::string, LastHour::Sums> last_hour(core::OrgId org, Instant now) const;

 private:
    using Name = std::pair<core::OrgId, std::string>;
    LastHour& hour_of(const Name& name);
    std::uint64_t draw();

    mutable std::mutex mutex_;
    std::map<Name, Health> health_;
    std::map<Name, std::unique_ptr<LastHour>> hours_;
    std::uint64_t state_ = 0x9E3779B97F4A7C15ull;
};

}  // namespace interlock::gateway
