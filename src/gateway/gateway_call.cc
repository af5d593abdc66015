#include "gateway/gateway_call.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/describe/enum_to_string.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "base/ensure.h"
#include "base/shell.h"
#include "base/text.h"
#include "core/limits.h"
#include "gateway/budget_refusal.h"
#include "gateway/dialect.h"
#include "gateway/forwarding.h"

namespace interlock::gateway {
namespace {

// More would leave the range of what can be counted.
constexpr std::int64_t choices_max = 128;
constexpr std::int64_t rounds_max = 1'000;

// A provider can claim more than a message may state; the message is kept all the same.
std::int64_t message_tokens(std::initializer_list<std::int64_t> counts) {
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) {
        sum += std::clamp<std::int64_t>(count, 0, core::limits::tokens_per_message_max);
    }
    return std::min(sum, core::limits::tokens_per_message_max);
}

}  // namespace

GatewayCall::GatewayCall(Shared& shared, net::Request http, ModelRoute route)
    : shared_(shared), http_(std::move(http)), route_(std::move(route)), began_(std::chrono::steady_clock::now()) {
    ++shared_.under_way;
    row_.id = core::CallId(shared_.fresh_id());
    row_.at = shared_.now();
    row_.operation = fmt::format("{}.{}", boost::describe::enum_to_string(route_.format, ""),
                                 boost::describe::enum_to_string(route_.operation, ""));
}

GatewayCall::~GatewayCall() {
    if (hold_.is_open()) settle_at_bound({});
    if (state_ != CallState::ended && asked_.config) finish(row_.status, "cut off", CallEnd::broken_off);
    --shared_.under_way;
}

void GatewayCall::move_to(CallState next) {
    ensure(can_follow(state_, next), "a call goes from state to state as can_follow() says");
    state_ = next;
}

RateLimits::Who GatewayCall::rate_who() const {
    return {org(), asked_.caller.key_id, row_.who.agent, asked_.request.model, row_.who.provider};
}

std::string GatewayCall::advice(std::string_view what, std::string_view command) const {
    if (!asked_.caller.is_operator) return fmt::format("a person can {}", what);
    return fmt::format("{}: {}", what, command);
}

CallLatency GatewayCall::latency() const {
    return {std::chrono::duration_cast<Duration>(attempt_.first_byte_at - attempt_.sent_at),
            std::chrono::duration_cast<Duration>(now() - attempt_.sent_at)};
}

// ---- asked ----------------------------------------------------------------------------------------------------------

AskedCall& GatewayCall::admit() {
    ensure(state_ == CallState::asked, "what is asked does not change once an attempt has begun");
    return asked_;
}

core::Attribution& GatewayCall::attribution() {
    ensure(state_ == CallState::asked, "what is asked does not change once an attempt has begun");
    return row_.who;
}

void GatewayCall::expect(const Upstream& upstream) {
    attempt_.upstream = &upstream;
    row_.who.provider = upstream.provider;
}

// ---- before it is sent ----------------------------------------------------------------------------------------------

net::Task<std::optional<CallRefusal>> GatewayCall::hold(const Upstream& upstream) {
    if (auto refusal = bound(upstream)) co_return refusal;

    const BudgetWaitQueue::Ticket ticket = shared_.budget_waits.draw();
    const net::SteadyTime deadline = began_ + std::chrono::seconds(settings().wait_s);
    while (true) {
        core::Reserve command = reserve_command();
        const core::HoldId id = command.hold;
        engine::SubmitResult answer = co_await shared_.ledger.submit(org(), std::move(command));
        core::ReserveReply* reply = answer ? std::get_if<core::ReserveReply>(&answer->reply) : nullptr;
        if (reply == nullptr) {
            // The hold may exist all the same. A call that was not sent owes nothing.
            const bool unknown = !answer && answer.error() == engine::SubmitError::outcome_unknown;
            if (unknown) shared_.ledger.release(org(), id);
            co_return CallRefusal{RefusalKind::busy, RefusalCode::unavailable,
                                  "the ledger cannot be reached at present; nothing was sent", 1};
        }
        if (!may_fit_later(*reply) || now() >= deadline) {
            // Where one has fitted, or never will, the next in line may find out as much.
            if (has_waited_) shared_.budget_waits.released(org());
            co_return take(std::move(*reply));
        }
        const std::string line = reply->budget ? reply->budget->budget : "provider " + upstream.provider;
        has_waited_ = true;
        const bool woken = co_await shared_.budget_waits.wait(org(), line, ticket, deadline);
        if (!woken) co_return take(std::move(*reply));
    }
}

std::optional<CallRefusal> GatewayCall::bound(const Upstream& upstream) {
    const GatewaySettings& set = settings();
    const CallRequest& request = asked_.request;
    expect(upstream);
    row_.upstream = upstream.name;
    const ModelPrice* price = price_at(*asked_.config, upstream, request.model, row_.at);
    attempt_.price = price != nullptr ? std::shared_ptr<const ModelPrice>(asked_.config, price) : nullptr;

    if (request.background) {
        return CallRefusal{RefusalKind::bad_request, RefusalCode::not_metered,
                           "background answers cannot be metered; send it without background"};
    }
    const auto tools = static_cast<std::int64_t>(request.unbounded_tools_at.size());
    if (request.choices > choices_max ||
        request.rounds + tools * set.tool_rounds_max > rounds_max + set.tool_rounds_max) {
        return CallRefusal{
            RefusalKind::bad_request, RefusalCode::invalid_request,
            fmt::format("at most {} choices and {} rounds of tools are metered in one call", choices_max, rounds_max)};
    }
    if (request.rounds_unbounded && set.tool_rounds_max == 0) {
        return CallRefusal{RefusalKind::bad_request, RefusalCode::unbounded_tools,
                           fmt::format("this call has tools that run at the provider as often as the model likes; "
                                       "bound them (max_uses, max_tool_calls), or {}",
                                       advice("allow some", "interlock gateway set tool_rounds_max=8"))};
    }
    attempt_.bound = bound_of(request, price, set, known_prefix());
    attempt_.output_changed = attempt_.bound.output_max > 0 && !request.output_max;
    if (price != nullptr && !cost_at_most(*price, attempt_.bound.at_most)) {
        return CallRefusal{
            RefusalKind::not_found, RefusalCode::unknown_price,
            fmt::format("what '{}' costs at service tier '{}' is not known, or is more than an amount "
                        "can be; ask for the default tier, or {}",
                        request.model, request.service_tier, advice("set a price", "interlock prices set"))};
    }
    move_to(CallState::bounded);
    return std::nullopt;
}

std::optional<KnownPrefix> GatewayCall::known_prefix() {
    attempt_.prefix_names.clear();
    if (asked_.prefixes.empty()) return std::nullopt;
    const std::string prompt = prompt_name().bytes();
    for (const Hash128& prefix : asked_.prefixes)
        attempt_.prefix_names.push_back(keyed_hash_128(prompt + prefix.bytes()));
    const auto found = shared_.prefix_tokens.find(attempt_.prefix_names);
    if (!found) return std::nullopt;
    return KnownPrefix{.counted = asked_.request.counted[found->boundary], .prompt_tokens = found->prompt_tokens};
}

namespace {

// Headers that say who asks and by which program, and nothing that a provider counts by.
bool is_about_the_client(std::string_view name) {
    for (const std::string_view known :
         {"accept", "accept-language", "baggage", "content-type", "content-length", "idempotency-key", "sec-fetch-mode",
          "traceparent", "tracestate", "user-agent", "x-app", "x-client-request-id", "x-request-id"}) {
        if (name == known) return true;
    }
    return name.starts_with("x-stainless-");
}

}  // namespace

// What decides how the prompt is counted, besides its messages: whose it is, where it goes, and what is said about it.
Hash128 GatewayCall::prompt_name() const {
    std::string text;
    const auto add = [&](std::string_view part) {
        text.append(std::to_string(part.size())).push_back(':');
        text.append(part);
    };
    const Upstream& upstream = *attempt_.upstream;
    add(std::to_string(org().value));
    add(row_.who.agent.empty() ? "key " + asked_.caller.key_id : "agent " + row_.who.agent);
    add(row_.operation);
    for (const std::string& part :
         {upstream.name, upstream.url, upstream.provider, upstream.model_there(asked_.request.model)})
        add(part);
    add(route_.target.substr(std::min(route_.target.find('?'), route_.target.size())));
    for (const auto& [name, value] : upstream.headers) add(name), add(value);
    for (const net::Header& header : http_.headers) {
        if (is_about_the_client(header.name) || !goes_on(header, http_, upstream)) continue;
        add(header.name);
        add(header.value);
    }
    add(asked_.prompt_members.bytes());
    return keyed_hash_128(text);
}

core::Reserve GatewayCall::reserve_command() const {
    const CallBound& bound = attempt_.bound;
    UsageBound least = bound.at_most;
    const std::int64_t floor = std::min(bound.output_max, settings().floor_tokens);
    least.output = floor * bound.multiple + asked_.request.prediction_bytes;
    const auto cost = [&](const UsageBound& of) {
        return attempt_.price ? cost_at_most(*attempt_.price, of).value_or(Money::max()).nanos() : 0;
    };
    const auto amounts = [&](const UsageBound& of) {
        return core::Amounts{.usd = cost(of), .tokens = of.input + of.output, .calls = 1, .runs = 0};
    };
    return {.hold = core::HoldId(shared_.fresh_id()),
            .who = row_.who,
            .fence = {},
            .bound = amounts(bound.at_most),
            .ttl_s = settings().hold_lease_s,
            .dispatched = true,
            .floor = amounts(least),
            .share = settings().share_percent,
            .by_gateway = true};
}

// What the core said.
std::optional<CallRefusal> GatewayCall::take(core::ReserveReply reply) {
    if (reply.status != core::ReserveStatus::held) {
        return call_refusal(reply, row_.who, *attempt_.upstream, reader());
    }
    attempt_.held = std::move(reply);
    fit_output();
    const CallRequest& request = asked_.request;
    hold_ = OpenHold(shared_.ledger, org(), attempt_.held.hold, settings().hold_lease_s,
                     {.price = attempt_.price,
                      .bound = attempt_.bound,
                      .held = Money::nanos(attempt_.held.bound.usd),
                      .service_tier = request.service_tier,
                      .is_one_round = request.rounds == 1 && !request.rounds_unbounded});
    move_to(CallState::held);
    row_.who.agent = attempt_.held.agent;
    row_.who.session = attempt_.held.session;
    row_.hold = attempt_.held.hold;
    row_.bound = attempt_.held.bound.usd;
    auto refusal = refuse_unpriced();
    if (refusal) release();
    return refusal;
}

// What cannot be bounded in dollars does not go on where a hard dollar budget covers it.
std::optional<CallRefusal> GatewayCall::refuse_unpriced() const {
    if (attempt_.held.left < 0) return std::nullopt;
    const CallRequest& request = asked_.request;
    const std::string& provider = attempt_.upstream->provider;
    if (!attempt_.price && settings().unknown_model != UnknownModel::unpriced) {
        return CallRefusal{
            RefusalKind::not_found, RefusalCode::unknown_model,
            fmt::format("model '{}' of provider '{}' has no price, and a hard budget covers this call; {}",
                        request.model, provider,
                        advice("set one", shell_command({"interlock", "prices", "set", provider + "/" + request.model,
                                                         "--input", "DOLLARS", "--output", "DOLLARS"}) +
                                              " (per million tokens)"))};
    }
    const auto why = why_unbounded(route_.dialect(), request, attempt_.price.get(), provider);
    if (!why || settings().unbounded_cost != UnboundedCost::deny) return std::nullopt;
    return CallRefusal{
        RefusalKind::bad_request, RefusalCode::unbounded_cost,
        fmt::format("this call can cost more than can be held for it, and a hard budget covers it: {}; leave it out, "
                    "or {}",
                    *why, advice("set a price or allow such calls", "interlock gateway set unbounded_cost=allow"))};
}

// The budgets may have had less than was wanted, and at least the floor: that much output fits.
void GatewayCall::fit_output() {
    CallBound& bound = attempt_.bound;
    const core::Amounts& held = attempt_.held.bound;
    if (bound.output_max == 0 || held.tokens == 0) return;
    const std::int64_t prediction = asked_.request.prediction_bytes;
    std::int64_t output = held.tokens - bound.at_most.input;
    if (attempt_.price) {
        const auto within = output_within(*attempt_.price, bound.at_most, Money::nanos(held.usd));
        output = std::min(output, within.value_or(0));
    }
    const std::int64_t each = (output - prediction) / bound.multiple;
    if (each < bound.output_max) {
        bound.output_max = std::max<std::int64_t>(1, each);
        attempt_.output_changed = true;
    }
    bound.at_most.output = bound.output_max * bound.multiple + prediction;
}

void GatewayCall::go_to(const Upstream& upstream) {
    attempt_.upstream = &upstream;
    row_.upstream = upstream.name;
}

Edits GatewayCall::edits() const {
    const CallRequest& request = asked_.request;
    Edits edits;
    // A limit that was stated goes out under the name that the upstream knows, so that it is a limit there too.
    if (attempt_.bound.output_max > 0) edits.output_max = attempt_.bound.output_max;
    edits.limit_name = attempt_.upstream->limit_name;
    if (request.rounds_unbounded) edits.tool_calls_max = edits.tool_uses_max = settings().tool_rounds_max;
    edits.include_usage = route_.dialect().hides_usage(route_, request);
    const std::string there = attempt_.upstream->model_there(request.model);
    if (there != request.model) edits.model = there;
    return edits;
}

void GatewayCall::send() {
    ensure(hold_.is_open() || is_free(route_.operation), "invariant (1)");
    move_to(CallState::sent);
    attempt_.sent_at = now();
}

// ---- after it was sent ----------------------------------------------------------------------------------------------

bool GatewayCall::wants_words() const {
    return !row_.who.session.value.empty() && attempt_.held.capture == core::Capture::full;
}

void GatewayCall::first_byte(bool streamed) {
    row_.first_byte_us = elapsed_us();
    row_.streamed = streamed;
}

void GatewayCall::drop_body() { std::string().swap(http_.body); }

void GatewayCall::settle(const Metered& metered) {
    if (!hold_.is_open()) return;
    const Settlement settlement = hold_.settle(metered);
    const bool counted = metered.reported && !settlement.doubted && metered.prompt_tokens > 0;
    if (counted && !attempt_.prefix_names.empty()) {
        shared_.prefix_tokens.put(attempt_.prefix_names.back(), metered.prompt_tokens);
    }
    book(settlement);
}

void GatewayCall::settle_at_bound(const Metered& reported) {
    if (hold_.is_open()) book(hold_.settle_at_bound(reported));
}

void GatewayCall::release() {
    if (hold_.is_open()) hold_.release();
}

void GatewayCall::book(const Settlement& settlement) {
    row_.cost += settlement.cost.nanos();
    row_.usage = settlement.usage;
    row_.price = settlement.receipt;
    row_.estimated = row_.estimated || settlement.estimated;
    row_.unpriced = settlement.unpriced;
    doubted_ = settlement.doubted;
    const auto& limits = asked_.config->limits;
    if (!limits.empty()) shared_.rates.used(limits, rate_who(), tokens_of(settlement.usage).value_or(0), now());
}

// ---- the end --------------------------------------------------------------------------------------------------------

void GatewayCall::finish(int status, std::string detail, CallEnd end) {
    if (state_ == CallState::ended) return;
    move_to(CallState::ended);
    row_.status = status;
    if (doubted_ && row_.refusal.empty()) row_.refusal = "implausible_usage";
    row_.detail = cut_text(as_line(detail), core::limits::text_bytes_max);
    row_.duration_us = elapsed_us();
    if (shared_.on_call) shared_.on_call({org(), row_, http_.header("traceparent"), end});
    if (asked_.config) shared_.ledger.record(org(), row_);  // Otherwise it is not known whose it was.
}

void GatewayCall::finish(const CallRefusal& refusal) {
    row_.refusal = to_text(refusal.code);
    finish(status_of(refusal.kind), refusal.message);
}

void GatewayCall::finish_from_cache(bool streamed) {
    row_.cached = true;
    first_byte(streamed);
    finish(200, "from the cache");
}

void GatewayCall::finish_refused_by_all(int status) {
    row_.refusal = "upstream_refused";
    finish(status, "every upstream refused");
}

void GatewayCall::keep_turn(const Metered& metered) {
    if (row_.who.session.value.empty() || attempt_.held.capture == core::Capture::off) return;
    const boost::json::value facts = {{"call", call_id()},           {"model", asked_.request.model},
                                      {"upstream", row_.upstream},   {"cost", to_text(Money::nanos(row_.cost))},
                                      {"estimated", row_.estimated}, {"finish", as_line(metered.finish)}};
    core::Append turn;
    turn.session = row_.who.session;
    turn.run = row_.who.run;
    const auto add = [&](std::string role, std::string content, std::string metadata) {
        turn.messages.push_back({.id = core::MessageId(shared_.fresh_id()),
                                 .role = std::move(role),
                                 .content = cut_text(as_utf8(content), core::limits::message_bytes_max),
                                 .metadata = std::move(metadata)});
    };
    if (attempt_.held.capture == core::Capture::full) {
        for (ChatMessage& one : new_words_) add(std::move(one.role), std::move(one.content), {});
    }
    add("assistant", metered.text, boost::json::serialize(facts));
    const Usage& usage = metered.usage;
    turn.messages.back().input_tokens = message_tokens(
        {usage.input_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens, usage.cache_write_1h_tokens});
    turn.messages.back().output_tokens = message_tokens({usage.output_tokens, usage.reasoning_tokens});
    shared_.ledger.append(org(), std::move(turn));
}

}  // namespace interlock::gateway
