// The gateway: requests to models, held, forwarded, metered and settled.
//
//   (1) A request goes on only when what it may cost at most is held, under every budget that covers it (flight.h).
//   (2) Bodies, headers and streams pass through as they came, but for what metering needs (ask.h, forwarding.h).
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
#include "gateway/flight.h"
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
        // Whose key it is; nothing: nobody's that is in force.
        std::function<std::optional<Caller>(std::string_view key)> caller;
        // What only the store knows of a caller that is bound to something; the error says what is not its own.
        std::function<net::Task<Result<Bounds, std::string>>(Caller caller, core::Attribution who)> bounds;
        // Why no request can be answered at present, or nothing.
        std::function<std::optional<std::string>()> block_reason;
        // Why the program that sends a request may not act as operator, or nothing. Not set: any may.
        std::function<net::Task<std::optional<No>>(const net::Request& request)> refuse_operator = {};
        OnCall on_call = {};  // Every call that has ended.
    };
    Gateway(Parts parts, Log& log);
    ~Gateway();

    // From now on. From any thread.
    void configure(core::OrgId org, std::shared_ptr<const Config> config);
    std::shared_ptr<const Config> config_of(core::OrgId org) const;

    // Nothing: the request is not for the gateway, and is left as it is.
    std::optional<net::Task<net::Response>> answer(net::Request& request);

    std::map<std::string, Fleet::Health> health(core::OrgId org) const { return fleet_.health(org); }
    std::map<std::string, LastHour::Sums> last_hour(core::OrgId org) const {
        return fleet_.last_hour(org, parts_.now());
    }
    std::int64_t under_way() const { return shared_.under_way; }
    // Bytes of bodies and answers that were read on the threads of connections, and by workers.
    std::uint64_t bytes_read_on_io() const { return shared_.reads.on_io(); }
    std::uint64_t bytes_read_on_workers() const { return shared_.reads.on_workers(); }

    void close();  // Nobody asks any more; what is left to be said is said.

 private:
    net::Task<net::Response> serve(net::Request request, Route route);
    net::Task<std::optional<No>> admit(std::shared_ptr<Flight> flight);
    std::optional<No> identify(Flight& flight) const;
    net::Task<std::optional<No>> read(std::shared_ptr<Flight> flight);
    net::Task<net::Response> forward(std::shared_ptr<Flight> flight);

    // What one request to one upstream came to.
    struct Attempt {
        // Who may be asked next.
        enum class Next { nobody, same, another } next = Next::another;
        std::optional<net::Response> response = {};
        No no = {};  // Without a response.
        std::int64_t retry_after_ms = 0;
    };
    net::Task<Attempt> try_once(std::shared_ptr<Flight> flight, const Upstream& upstream);
    Attempt failed(Flight& flight, const net::ClientError& failure);

    const Parts parts_;
    Headroom headroom_;
    LedgerLink ledger_;
    Anchors anchors_;
    Fleet fleet_;
    RateLimits rates_;
    ResponseCache cache_;
    Shared shared_;

    mutable std::shared_mutex mutex_;
    std::map<core::OrgId, std::shared_ptr<const Config>> configs_;
    net::WorkerPool bodies_{{.threads = 2, .queue_max = 256}};  // Last: what it does uses all of the above.
};

}  // namespace interlock::gateway
