#include "gateway/flight.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/describe/enum_to_string.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "base/shell.h"
#include "base/text.h"
#include "core/limits.h"
#include "gateway/budget_words.h"
#include "gateway/forwarding.h"

namespace interlock::gateway {
namespace {

// More would leave the range of what can be counted.
constexpr std::int64_t choices_max = 128;
constexpr std::int64_t rounds_max = 1'000;
// Uses of tools in one call, beyond which a report cannot be.
constexpr std::int64_t paid_tools_most = 10'000;
// What a provider may state beyond the most that we know of, for what has no price here: images, searches, films.
constexpr Money stated_cost_free = Money::nanos(100'000'000'000);

// A provider can claim more than a message may state; the message is kept all the same.
std::int64_t message_tokens(std::initializer_list<std::int64_t> counts) {
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) {
        sum += std::clamp<std::int64_t>(count, 0, core::limits::tokens_per_message_max);
    }
    return std::min(sum, core::limits::tokens_per_message_max);
}

}  // namespace

Flight::Flight(Shared& its_shared, net::Request its_request, Route its_route)
    : shared(its_shared),
      request(std::move(its_request)),
      route(std::move(its_route)),
      began(std::chrono::steady_clock::now()) {
    ++shared.under_way;
    row.id = core::CallId(shared.fresh_id());
    row.at = shared.now();
    row.operation = fmt::format("{}.{}", boost::describe::enum_to_string(route.dialect, ""),
                                boost::describe::enum_to_string(route.operation, ""));
}

Flight::~Flight() {
    if (is_held()) settle_unknown({});
    if (!recorded_ && config) finish(row.status, "cut off");
    --shared.under_way;
}

RateLimits::Who Flight::rate_who() const {
    return {caller.org, caller.key_id, row.who.agent, ask.model, row.who.provider};
}

// ---- before it is sent ----------------------------------------------------------------------------------------------

net::Task<std::optional<No>> Flight::hold(const Upstream& its_upstream) {
    upstream = &its_upstream;
    row.upstream = upstream->name;
    row.who.provider = upstream->provider;
    if (auto no = bound()) co_return no;

    const Headroom::Ticket ticket = shared.headroom.draw();
    const net::SteadyTime deadline = began + std::chrono::seconds(settings().wait_s);
    while (true) {
        core::Reserve command = reserve_command();
        const core::HoldId id = command.hold;
        engine::SubmitResult answer = co_await shared.ledger.ask(caller.org, std::move(command));
        core::ReserveReply* reply = answer ? std::get_if<core::ReserveReply>(&answer->reply) : nullptr;
        if (reply == nullptr) {
            // It may be there all the same. Whatever was not sent is not owed.
            const bool unknown = !answer && answer.error() == engine::SubmitError::outcome_unknown;
            if (unknown) shared.ledger.end(caller.org, id, core::ReleaseHold{id, by_gateway});
            co_return No{Refused::busy, "unavailable", "the ledger cannot be reached at present; nothing was sent", 1};
        }
        if (!may_fit_later(*reply) || now() >= deadline) {
            // Where one has fitted, or never will, the next in line may find out as much.
            if (has_waited) shared.headroom.released(caller.org);
            co_return take(std::move(*reply));
        }
        const std::string line = reply->budget ? reply->budget->budget : "provider " + upstream->provider;
        has_waited = true;
        const bool woken = co_await shared.headroom.wait(caller.org, line, ticket, deadline);
        if (!woken) co_return take(std::move(*reply));
    }
}

std::optional<No> Flight::bound() {
    const GatewaySettings& set = settings();
    price = price_at(*config, *upstream, ask.model, row.at);

    if (ask.background) {
        return No{Refused::bad_request, "not_metered",
                  "background answers cannot be metered; send it without background"};
    }
    const auto tools = static_cast<std::int64_t>(ask.unbounded_tools_at.size());
    if (ask.choices > choices_max || ask.rounds + tools * set.tool_rounds_max > rounds_max + set.tool_rounds_max) {
        return No{
            Refused::bad_request, "invalid_request",
            fmt::format("at most {} choices and {} rounds of tools are metered in one call", choices_max, rounds_max)};
    }
    if (ask.rounds_unbounded && set.tool_rounds_max == 0) {
        return No{Refused::bad_request, "unbounded_tools",
                  fmt::format("this call has tools that run at the provider as often as the model likes; bound them "
                              "(max_uses, max_tool_calls), or {}",
                              advice("allow some", "interlock gateway set tool_rounds_max=8"))};
    }
    std::optional<KnownBeginning> known;
    anchors_.clear();
    if (!beginnings.empty()) {
        const std::string prompt = prompt_name().bytes();
        for (const Hash128& beginning : beginnings) anchors_.push_back(keyed_hash_128(prompt + beginning.bytes()));
        if (const auto found = shared.anchors.find(anchors_)) {
            known = {.counted = ask.counted[found->boundary], .prompt_tokens = found->prompt_tokens};
        }
    }
    bound_ = bound_of(route.operation, ask, price, set, known);
    worst = bound_.worst;
    output_max = bound_.output_max;
    output_changed = output_max > 0 && !ask.output_max;
    if (price && !cost_at_most(*price, worst)) {
        return No{
            Refused::not_found, "unknown_price",
            fmt::format("what '{}' costs at service tier '{}' is not known, or is more than an amount can be; ask "
                        "for the default tier, or {}",
                        ask.model, ask.service_tier, advice("set a price", "interlock prices set"))};
    }
    return std::nullopt;
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
Hash128 Flight::prompt_name() const {
    std::string text;
    const auto add = [&](std::string_view part) {
        text.append(std::to_string(part.size())).push_back(':');
        text.append(part);
    };
    add(std::to_string(caller.org.value));
    add(row.who.agent.empty() ? "key " + caller.key_id : "agent " + row.who.agent);
    add(row.operation);
    for (const std::string& part :
         {upstream->name, upstream->url, upstream->provider, upstream->model_there(ask.model)})
        add(part);
    add(route.target.substr(std::min(route.target.find('?'), route.target.size())));
    for (const auto& [name, value] : upstream->headers) add(name), add(value);
    for (const net::Header& header : request.headers) {
        if (is_about_the_client(header.name) || !goes_on(header, request, *upstream)) continue;
        add(header.name);
        add(header.value);
    }
    add(prompt_members.bytes());
    return keyed_hash_128(text);
}

core::Reserve Flight::reserve_command() const {
    Worst least = worst;
    const std::int64_t floor = std::min(output_max, settings().floor_tokens);
    least.output = floor * bound_.multiple + ask.prediction_bytes;
    const auto cost = [&](const Worst& of) {
        return price ? cost_at_most(*price, of).value_or(Money::max()).nanos() : 0;
    };
    return {.hold = core::HoldId(shared.fresh_id()),
            .who = row.who,
            .fence = {},
            .bound = {.usd = cost(worst), .tokens = worst.input + worst.output, .calls = 1, .runs = 0},
            .ttl_s = settings().hold_lease_s,
            .dispatched = true,
            .floor = {.usd = cost(least), .tokens = least.input + least.output, .calls = 1, .runs = 0},
            .share = settings().share_percent,
            .by_gateway = true};
}

std::string Flight::advice(std::string_view what, std::string_view command) const {
    if (!caller.is_operator) return fmt::format("a person can {}", what);
    return fmt::format("{}: {}", what, command);
}

// What the core said.
std::optional<No> Flight::take(core::ReserveReply reply) {
    if (reply.status != core::ReserveStatus::held) return no_of(reply, row.who, *upstream, reader());
    held = std::move(reply);
    hold_ = held.hold;
    row.who.agent = held.agent;
    row.who.session = held.session;
    row.hold = hold_;
    row.bound = held.bound.usd;
    shared.ledger.keep(caller.org, hold_, settings().hold_lease_s);

    if (!price && settings().unknown_model != UnknownModel::unpriced && held.left >= 0) {
        release();
        return No{Refused::not_found, "unknown_model",
                  fmt::format("model '{}' of provider '{}' has no price, and a hard budget covers this call; {}",
                              ask.model, upstream->provider,
                              advice("set one",
                                     shell_command({"interlock", "prices", "set", upstream->provider + "/" + ask.model,
                                                    "--input", "DOLLARS", "--output", "DOLLARS"}) +
                                         " (per million tokens)"))};
    }
    const bool is_hard = held.left >= 0;
    if (const auto why = why_unbounded(route.operation, ask, price, upstream->provider);
        why && is_hard && settings().unbounded_cost == UnboundedCost::deny) {
        release();
        return No{
            Refused::bad_request, "unbounded_cost",
            fmt::format("this call can cost more than can be held for it, and a hard budget covers it: {}; leave "
                        "it out, or {}",
                        *why, advice("set a price or allow such calls", "interlock gateway set unbounded_cost=allow"))};
    }
    if (output_max == 0 || held.bound.tokens == 0) return std::nullopt;
    // The budgets had less than was wanted, and at least the floor: that much output fits.
    std::int64_t output = held.bound.tokens - worst.input;
    if (price) output = std::min(output, output_within(*price, worst, Money::nanos(held.bound.usd)).value_or(0));
    const std::int64_t each = (output - ask.prediction_bytes) / bound_.multiple;
    if (each < output_max) {
        output_max = std::max<std::int64_t>(1, each);
        output_changed = true;
    }
    worst.output = output_max * bound_.multiple + ask.prediction_bytes;
    return std::nullopt;
}

Edits Flight::edits() const {
    Edits edits;
    // A limit that was stated goes out under the name that the upstream knows, so that it is a limit there too.
    if (output_max > 0) edits.output_max = output_max;
    edits.limit_name = upstream->limit_name;
    if (ask.rounds_unbounded) edits.tool_calls_max = edits.tool_uses_max = settings().tool_rounds_max;
    edits.include_usage = route.operation == Operation::chat && ask.stream && !ask.wants_usage;
    const std::string there = upstream->model_there(ask.model);
    if (there != ask.model) edits.model = there;
    return edits;
}

// ---- after it was sent ----------------------------------------------------------------------------------------------

void Flight::settle(const Metered& metered) {
    if (!metered.reported || !can_be(metered)) return settle_unknown(metered);
    Metered said = metered;
    // Asked for by other names, and not reported as a tier.
    if (ask.service_tier == "fast" || ask.service_tier == "us") said.service_tier = ask.service_tier;
    if (said.inference_geo == "us" && (said.service_tier.empty() || said.service_tier == "standard"))
        said.service_tier = "us";
    if (!anchors_.empty() && metered.prompt_tokens > 0) shared.anchors.put(anchors_.back(), metered.prompt_tokens);
    if (!price) return end(said.stated_cost.value_or(Money()), said, false);
    if (const auto cost = cost_of(*price, said)) return end(*cost, said, false);
    // A service tier without a price: by the dearest that is known.
    const Usage& usage = said.usage;
    const std::int64_t output = usage.output_tokens + usage.reasoning_tokens;
    const Worst at_most{.input = tokens_of(usage).value_or(0) - output,
                        .output = output,
                        .prompt = said.prompt_tokens,
                        .cache_write = ask.cache_write,
                        .audio = said.audio_input_tokens + said.audio_output_tokens > 0,
                        .image_output = said.image_output_tokens > 0,
                        .paid_tools = said.paid_tools,
                        .images_made = said.images_made};
    const auto cost = cost_at_most(*price, at_most);
    cost ? end(std::max(*cost, said.stated_cost.value_or(Money())), said, true) : settle_unknown(said);
}

// The provider has not said what was used. What it has said of the input counts; the rest is the most that it can be.
// What came by of the output says little: a model thinks before it speaks, and what was cut off is billed as well.
void Flight::settle_unknown(const Metered& reported) {
    // A report that cannot be is none. A person decides what it should have been.
    doubted_ = !can_be(reported);
    const Metered so_far = doubted_ ? Metered() : reported;
    Metered most = so_far;
    most.stated_cost.reset();
    Worst bound = worst;
    if (!so_far.input_reported) {
        most.usage = {};
        most.usage.input_tokens = bound.input;
    } else if (ask.rounds == 1 && !ask.rounds_unbounded) {
        bound.input = std::min(bound.input, so_far.prompt_tokens);
    }
    most.usage.output_tokens = bound.output;
    most.usage.reasoning_tokens = 0;
    const auto cost = price ? cost_at_most(*price, bound) : Money();
    const Money limit = Money::nanos(held.bound.usd);
    end(cost ? std::min(*cost, limit) : limit, most, true);
}

// Whether the model can have taken and made what is reported.
bool Flight::can_be(const Metered& metered) const {
    if (metered.impossible) return false;
    const Usage& usage = metered.usage;
    const std::int64_t output = usage.output_tokens + usage.reasoning_tokens;
    const std::int64_t input = tokens_of(usage).value_or(INT64_MAX) - output;
    if (input > bound_.input_most || output > bound_.output_most) return false;
    if (metered.paid_tools + metered.images_made > paid_tools_most) return false;
    if (!metered.stated_cost) return true;
    const auto most = price ? cost_at_most(*price, {.input = bound_.input_most,
                                                    .output = bound_.output_most,
                                                    .cache_write = CacheWrite::one_hour,
                                                    .audio = true,
                                                    .image_output = true,
                                                    .paid_tools = worst.paid_tools,
                                                    .images_made = worst.images_made})
                            : std::nullopt;
    return *metered.stated_cost <= checked_sum(most.value_or(Money()), stated_cost_free).value_or(Money::max());
}

void Flight::end(Money cost, const Metered& metered, bool estimated) {
    row.cost += cost.nanos();
    row.usage = metered.usage;
    row.price = price ? receipt_of(*price, metered) : std::string();
    row.estimated = row.estimated || estimated;
    row.unpriced = !price;
    shared.ledger.end(caller.org, hold_,
                      core::SettleHold{.hold = hold_,
                                       .cost = cost,
                                       .usage = metered.usage,
                                       .calls = 1,
                                       .price = row.price,
                                       .estimated = estimated,
                                       .unpriced = !price,
                                       .by = by_gateway});
    hold_ = {};
    if (!config->limits.empty()) {
        shared.rates.used(config->limits, rate_who(), tokens_of(metered.usage).value_or(0), now());
    }
}

void Flight::release() {
    if (is_held()) shared.ledger.end(caller.org, hold_, core::ReleaseHold{hold_, by_gateway});
    hold_ = {};
}

// ---- the end --------------------------------------------------------------------------------------------------------

void Flight::finish(int status, std::string detail) {
    if (std::exchange(recorded_, true)) return;
    row.status = status;
    if (doubted_ && row.refusal.empty()) row.refusal = "implausible_usage";
    row.detail = cut_text(as_line(detail), core::limits::text_bytes_max);
    row.duration_us = elapsed_us();
    if (shared.on_call) shared.on_call({caller.org, row, request.header("traceparent")});
    if (config) shared.ledger.record(caller.org, row);  // Otherwise nobody knows whose it was.
}

void Flight::finish(const No& no) {
    row.refusal = no.code;
    finish(status_of(no.why), no.message);
}

void Flight::keep_turn(const Metered& metered) {
    if (row.who.session.value.empty() || held.capture == core::Capture::off) return;
    const boost::json::value facts = {{"call", call_id()},          {"model", ask.model},
                                      {"upstream", row.upstream},   {"cost", to_text(Money::nanos(row.cost))},
                                      {"estimated", row.estimated}, {"finish", as_line(metered.finish)}};
    core::Append turn;
    turn.session = row.who.session;
    turn.run = row.who.run;
    const auto add = [&](std::string role, std::string content, std::string metadata) {
        turn.messages.push_back({.id = core::MessageId(shared.fresh_id()),
                                 .role = std::move(role),
                                 .content = cut_text(as_utf8(content), core::limits::message_bytes_max),
                                 .metadata = std::move(metadata)});
    };
    if (held.capture == core::Capture::full) {
        for (Said& one : new_words) add(std::move(one.role), std::move(one.content), {});
    }
    add("assistant", metered.text, boost::json::serialize(facts));
    const Usage& usage = metered.usage;
    turn.messages.back().input_tokens = message_tokens(
        {usage.input_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens, usage.cache_write_1h_tokens});
    turn.messages.back().output_tokens = message_tokens({usage.output_tokens, usage.reasoning_tokens});
    shared.ledger.append(caller.org, std::move(turn));
}

}  // namespace interlock::gateway
