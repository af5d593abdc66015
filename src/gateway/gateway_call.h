// One call on its way through the gateway: what it may cost, what is held for it, and what becomes of that.
//
//   (1) Nothing is sent without a hold that covers it, unless it is free of cost.
//   (2) Every hold that was given is ended: settled by what was reported, settled by the most that it can have been and
//       marked as estimated, or released where no byte of the request has left or the provider says that it did
//       nothing. A call that is dropped drops its hold, which is then settled at its bound (open_hold.h).
//   (3) Each attempt has a hold of its own: one that timed out may be billed too.
//   (4) A call is recorded once, when it has ended.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/reply.h"
#include "gateway/call_bound.h"
#include "gateway/config.h"
#include "gateway/ended_call.h"
#include "gateway/ledger_client.h"
#include "gateway/open_hold.h"
#include "gateway/prefix_token_cache.h"
#include "gateway/rate_limits.h"
#include "gateway/refusal.h"
#include "gateway/response_cache.h"
#include "gateway/upstream_selector.h"
#include "net/body_reads.h"
#include "net/worker_pool.h"

namespace interlock::gateway {

// The key that a request comes with, and what it may do.
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

enum class CallState {
    asked,    // Its request is read and checked.
    bounded,  // An attempt: it is known what it may cost.
    held,     // That is held.
    sent,     // The provider has it, or a part of it.
    ended,    // The call is recorded.
};
// Whether a call in one state can come to the other. After an attempt that has failed the next one is bounded, and what
// is free of cost is sent without a hold.
constexpr bool can_follow(CallState from, CallState to) {
    switch (to) {
        case CallState::asked:
            return false;
        case CallState::bounded:
            return from != CallState::ended;
        case CallState::held:
            return from == CallState::bounded;
        case CallState::sent:
            return from == CallState::asked || from == CallState::held || from == CallState::sent;
        case CallState::ended:
            return from != CallState::ended;
    }
    return false;
}

// What is known of a call before its first attempt.
struct AskedCall {
    CallPrincipal caller = {};
    std::shared_ptr<const Config> config = {};
    std::optional<core::Scope> scope = {};  // Of the budget that the caller's key is bound to.
    CallRequest request = {};
    std::vector<Hash128> prefixes = {};  // One per boundary of the request; empty: none may be looked up.
    Hash128 prompt_members = {};         // Of the body's members besides the messages; with prefixes only.
    RateVerdict rates = {};
    std::string cache_name = {};  // Under which the answer is kept; empty: it is not.
    std::int64_t cache_ttl_s = 0;

    bool is_cached() const { return !cache_name.empty(); }
};

// The attempt under way, or the last one.
struct CallAttempt {
    const Upstream* upstream = nullptr;
    std::shared_ptr<const ModelPrice> price = {};  // Empty: the model has none.
    CallBound bound = {};                          // Its output_max is what goes on.
    bool output_changed = false;                   // The client said otherwise, or did not say.
    core::ReserveReply held = {};
    net::SteadyTime sent_at = {};            // When its request went out,
    net::SteadyTime first_byte_at = {};      // and when the answer began.
    std::vector<Hash128> prefix_names = {};  // Of the prompt's beginnings, in the cache; empty: none.
};

class GatewayCall {
 public:
    GatewayCall(Shared& shared, net::Request http, ModelRoute route);
    ~GatewayCall();
    GatewayCall(const GatewayCall&) = delete;
    GatewayCall& operator=(const GatewayCall&) = delete;

    CallState state() const { return state_; }
    const ModelRoute& route() const { return route_; }
    const net::Request& http() const { return http_; }
    const AskedCall& asked() const { return asked_; }
    const CallAttempt& attempt() const { return attempt_; }
    const core::ModelCall& row() const { return row_; }
    Shared& shared() const { return shared_; }

    core::OrgId org() const { return asked_.caller.org; }
    const GatewaySettings& settings() const { return asked_.config->settings; }
    std::string call_id() const { return to_text("call", row_.id.value); }
    bool is_held() const { return hold_.is_open(); }
    RateLimits::Who rate_who() const;
    // What can be done about a refusal. An operator gets the command; an agent would run it, so it is told who can.
    std::string advice(std::string_view what, std::string_view command) const;
    Reader reader() const { return asked_.caller.is_operator ? Reader::operator_ : Reader::agent; }
    // Whether what is said is kept word by word.
    bool wants_words() const;
    // Whether the answer is shorter than the client wanted, because a budget was nearly used up.
    bool is_cut_short() const { return attempt_.output_changed && asked_.request.output_max.has_value(); }

    net::SteadyTime now() const { return std::chrono::steady_clock::now(); }
    net::SteadyTime began() const { return began_; }
    std::int64_t elapsed_us() const { return std::chrono::duration_cast<Duration>(now() - began_).count(); }
    CallLatency latency() const;

    // ---- asked ------------------------------------------------------------------------------------------------------

    // For Gateway, which admits the call, before its first attempt.
    AskedCall& admit();
    core::Attribution& attribution();
    // The upstream that is likely to get the call, for rate limits and for what is recorded if it goes nowhere.
    void expect(const Upstream& upstream);

    // ---- an attempt -------------------------------------------------------------------------------------------------

    // Says what the attempt may cost, and holds it. Waits, for a time, where others hold what is missing.
    net::Task<std::optional<CallRefusal>> hold(const Upstream& upstream);
    // The upstream of an attempt that is held or free of cost.
    void go_to(const Upstream& upstream);
    void count_attempt() { ++row_.attempts; }
    Edits edits() const;
    void send();
    // The provider has begun to answer the attempt.
    void answered() { attempt_.first_byte_at = now(); }
    // The client gets its first byte now.
    void first_byte(bool streamed);
    void pause() { has_waited_ = true; }
    // The client has left while the call waited, so that it would pay for what no program reads.
    bool was_left() const { return has_waited_ && http_.gone && http_.gone(); }
    // The request's words are not needed any more; a slow stream need not keep them in memory.
    void drop_body();

    // The three ends of an attempt's hold. None of them does anything where there is none.
    void settle(const Metered& metered);
    void settle_at_bound(const Metered& reported);
    void release();

    // ---- the end ----------------------------------------------------------------------------------------------------

    void finish(int status, std::string detail, CallEnd end = CallEnd::whole);
    void finish(const CallRefusal& refusal);
    // What the cache has is the answer.
    void finish_from_cache(bool streamed);
    void finish_refused_by_all(int status);

    // In the session, as its agent wants it: first what is new in the request, then the answer.
    void set_new_words(std::vector<ChatMessage> words) { new_words_ = std::move(words); }
    void keep_turn(const Metered& metered);

 private:
    void move_to(CallState next);
    std::optional<CallRefusal> bound(const Upstream& upstream);
    std::optional<KnownPrefix> known_prefix();
    Hash128 prompt_name() const;
    core::Reserve reserve_command() const;
    std::optional<CallRefusal> take(core::ReserveReply reply);
    std::optional<CallRefusal> refuse_unpriced() const;
    void fit_output();
    void book(const Settlement& settlement);

    Shared& shared_;
    net::Request http_;
    const ModelRoute route_;
    const net::SteadyTime began_;
    CallState state_ = CallState::asked;
    AskedCall asked_ = {};
    CallAttempt attempt_ = {};
    core::ModelCall row_ = {};
    bool has_waited_ = false;  // For budget, or before a retry.
    bool doubted_ = false;     // What was reported cannot be true, and was not believed.
    std::vector<ChatMessage> new_words_ = {};
    OpenHold hold_;  // Last, so that it ends first.
};

}  // namespace interlock::gateway
