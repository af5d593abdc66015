// One call on its way through the gateway: what it may cost, what is held for it, and what becomes of that.
//
//   (1) Nothing is sent without a hold that covers it, unless it is free of cost.
//   (2) Every hold that was given is ended: settled by what was reported, settled by the most that it can have been and
//       marked as estimated, or released where no byte of the request has left or the provider says that it did
//       nothing. A call that is dropped ends its hold when it is destroyed.
//   (3) Each attempt has a hold of its own: one that timed out may be billed too.
//   (4) A call is recorded once, when it has ended.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/reply.h"
#include "gateway/budget_wait_queue.h"
#include "gateway/call_bound.h"
#include "gateway/config.h"
#include "gateway/ended_call.h"
#include "gateway/ledger_client.h"
#include "gateway/prefix_token_cache.h"
#include "gateway/rate_limits.h"
#include "gateway/refusal.h"
#include "gateway/response_cache.h"
#include "gateway/upstream_selector.h"
#include "net/body_reads.h"
#include "net/worker_pool.h"

namespace interlock::gateway {

// Who sends a request, by its key.
struct CallPrincipal {
    core::OrgId org;
    std::string key_id = {};
    bool may_act = false;
    std::string agent = {};  // Bound to this agent, run or budget; empty: to none.
    core::RunId run = {};
    std::string budget = {};
    bool is_operator = false;  // Or admin.
};

// What all calls share.
struct Shared {
    LedgerClient& ledger;
    BudgetWaitQueue& budget_waits;
    PrefixTokenCache& prefix_tokens;
    UpstreamSelector& selector;
    RateLimits& rates;
    ResponseCache& cache;
    std::function<Instant()> now;
    std::function<Id()> fresh_id;
    OnCall on_call = {};
    net::WorkerPool& bodies;  // Reads what is too large to be read while connections wait.
    std::atomic<std::int64_t> under_way = 0;
    net::BodyReads reads = {};  // Of bodies and answers.
};

template <class Work>
net::Task<std::invoke_result_t<Work&>> read_off_io(Shared& shared, std::size_t bytes, Work work) {
    return net::read_off_io(shared.bodies, shared.reads, bytes, std::move(work));
}

// Commands are shown to operators only: an agent that reads one would run it.
enum class Reader { agent, operator_ };

struct GatewayCall {
    GatewayCall(Shared& its_shared, net::Request its_http, ModelRoute its_route);
    ~GatewayCall();
    GatewayCall(const GatewayCall&) = delete;
    GatewayCall& operator=(const GatewayCall&) = delete;

    Shared& shared;
    net::Request http;
    ModelRoute route;
    net::SteadyTime began;
    CallPrincipal caller = {};
    std::shared_ptr<const Config> config = {};
    CallRequest request = {};
    std::vector<Hash128> prefixes = {};  // One per boundary of the request; empty: none may be looked up.
    Hash128 prompt_members = {};         // Of the body's members besides the messages; with beginnings only.
    RateVerdict rates = {};
    std::string cache_name = {};  // Under which the answer is kept; empty: it is not.
    std::int64_t cache_ttl_s = 0;
    core::ModelCall row = {};
    bool has_waited = false;                // For budget, or before a retry.
    std::optional<core::Scope> scope = {};  // Of the budget that the caller's key is bound to.

    // Of the attempt under way.
    const Upstream* upstream = nullptr;
    const ModelPrice* price = nullptr;  // The configuration's; nothing: the model has none.
    UsageBound at_most = {};
    std::int64_t output_max = 0;  // Per choice, as it goes on; 0: there is none.
    bool output_changed = false;  // The client said otherwise, or nothing.
    core::ReserveReply held = {};
    net::SteadyTime sent_at = {};        // When its request went out,
    net::SteadyTime first_byte_at = {};  // and when the answer began.

    // What can be done about a refusal. An operator gets the command; an agent would run it, so it is told who can.
    std::string advice(std::string_view what, std::string_view command) const;
    Reader reader() const { return caller.is_operator ? Reader::operator_ : Reader::agent; }
    bool is_held() const { return !hold_.value.empty(); }
    std::string call_id() const { return to_text("call", row.id.value); }
    net::SteadyTime now() const { return std::chrono::steady_clock::now(); }
    CallLatency took() const {
        return {std::chrono::duration_cast<Duration>(first_byte_at - sent_at),
                std::chrono::duration_cast<Duration>(now() - sent_at)};
    }
    std::int64_t elapsed_us() const { return std::chrono::duration_cast<Duration>(now() - began).count(); }
    const GatewaySettings& settings() const { return config->settings; }
    RateLimits::Who rate_who() const;

    // Says what the attempt may cost, and holds it; waits, for a time, where others hold what is missing.
    net::Task<std::optional<CallRefusal>> hold(const Upstream& its_upstream);
    Edits edits() const;

    // The three ends of a hold.
    void settle(const Metered& metered);
    void settle_unknown(const Metered& reported);
    void release();

    // The end of the call.
    void finish(int status, std::string detail);
    void finish(const CallRefusal& no);
    void keep_turn(const Metered& metered);   // In the session, as its agent wants it.
    std::vector<ChatMessage> new_words = {};  // What is new in the request, for an agent that wants all of it kept.
    bool wants_words() const { return !row.who.session.value.empty() && held.capture == core::Capture::full; }

 private:
    std::optional<CallRefusal> bound();
    core::Reserve reserve_command() const;
    std::optional<CallRefusal> take(core::ReserveReply reply);
    void end(Money cost, const Metered& metered, bool estimated);

    Hash128 prompt_name() const;
    bool can_be(const Metered& metered) const;

    core::HoldId hold_ = {};
    std::vector<Hash128> prefix_names_ = {};  // Of the prompt's beginnings, in the cache; empty: none.
    CallBound bound_ = {};
    bool doubted_ = false;  // What was reported cannot be, and was not believed.
    bool recorded_ = false;
};

}  // namespace interlock::gateway
