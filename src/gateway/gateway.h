// The gateway: requests to models, held, forwarded, metered and settled.
//
//   (1) A request goes on only when what it may cost at most is held, under every budget that covers it
//       (gateway_call.h).
//   (2) Bodies, headers and streams pass through as they came, but for what metering needs (call_request.h,
//       forwarding.h).
//   (3) A retry or another upstream is tried only before the client has got a byte.
//   (4) A stream is passed on piece by piece; at most one piece of it is in memory. When its client leaves, the rest is
//       read all the same, within bounds, because it is paid for.
//
// No rule about money is here: the core decides each hold. No file is read and no environment: the configuration is
// handed in.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>

#include "base/log.h"
#include "gateway/gateway_call.h"
#include "net/body_reads.h"
#include "net/http.h"
#include "net/http_client.h"

namespace interlock::gateway {

class Gateway {
 public:
    // Within what a bound key acts.
    struct Bounds {
        std::string agent = {};                 // The stated one, or the run's.
        std::optional<core::Scope> scope = {};  // What its budget covers.
        bool run_is_live = true;                // The stated run, if one is.
    };
    struct Parts {
        std::function<void(std::vector<engine::Submission>)> submit;
        std::function<Instant()> now;
        std::function<Id()> fresh_id;
        // The owner of a key; nothing: no key in force is equal to it.
        std::function<std::optional<CallPrincipal>(std::string_view key)> caller;
        // What only the store knows of a caller that is bound to something; the error says what is not its own.
        std::function<net::Task<Result<Bounds, std::string>>(CallPrincipal caller, core::Attribution who)> bounds;
        // Why no request can be answered at present, or nothing.
        std::function<std::optional<std::string>()> block_reason;
        // Why the program that sends a request may not act as operator, or nothing. Not set: any may.
        std::function<net::Task<std::optional<CallRefusal>>(const net::Request& request)> refuse_operator = {};
        OnCall on_call = {};  // Every call that has ended.
    };
    Gateway(Parts parts, Log& log);
    ~Gateway();

    // From now on. From any thread.
    void configure(core::OrgId org, std::shared_ptr<const Config> config);
    std::shared_ptr<const Config> config_of(core::OrgId org) const;

    // Nothing: the request is not for the gateway, and is left as it is.
    std::optional<net::Task<net::Response>> answer(net::Request& request);

    std::map<std::string, UpstreamSelector::Health> health(core::OrgId org) const { return selector_.health(org); }
    std::map<std::string, LastHour::Sums> last_hour(core::OrgId org) const {
        return selector_.last_hour(org, parts_.now());
    }
    std::int64_t under_way() const { return shared_.under_way; }
    // Bytes of bodies and answers that were read on the threads of connections, and by workers.
    std::uint64_t bytes_read_on_io() const { return shared_.reads.on_io(); }
    std::uint64_t bytes_read_on_workers() const { return shared_.reads.on_workers(); }

    void close();  // Flushes pending commands. No request may come afterwards.

 private:
    net::Task<net::Response> serve(net::Request request, ModelRoute route);
    net::Task<std::optional<CallRefusal>> admit(std::shared_ptr<GatewayCall> call);
    std::optional<CallRefusal> identify(GatewayCall& call) const;
    net::Task<std::optional<CallRefusal>> read(std::shared_ptr<GatewayCall> call);
    net::Task<net::Response> forward(std::shared_ptr<GatewayCall> call);

    // What one request to one upstream came to.
    struct Attempt {
        // Who may be asked next.
        enum class Next { no_upstream, same, another } next = Next::another;
        std::optional<net::Response> response = {};
        CallRefusal refused = {};  // Without a response.
        std::int64_t retry_after_ms = 0;
    };
    net::Task<Attempt> try_once(std::shared_ptr<GatewayCall> call, const Upstream& upstream);
    net::Task<Attempt> judge(std::shared_ptr<GatewayCall> call, const Upstream& upstream,
                             std::unique_ptr<net::HttpExchange> answer);
    Attempt failed(GatewayCall& call, const net::ClientError& failure);

    const Parts parts_;
    BudgetWaitQueue budget_waits_;
    LedgerClient ledger_;
    PrefixTokenCache prefix_tokens_;
    UpstreamSelector selector_;
    RateLimits rates_;
    ResponseCache cache_;
    Shared shared_;

    mutable std::shared_mutex mutex_;
    std::map<core::OrgId, std::shared_ptr<const Config>> configs_;
    net::WorkerPool bodies_{net::body_workers};  // Last: what it does uses all of the above.
};

}  // namespace interlock::gateway
