#include "gateway/flight.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/describe/enum_to_string.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "core/limits.h"
#include "gateway/budget_words.h"

namespace interlock::gateway {
namespace {

// A model of which nobody says how much it takes, and input that nobody shows us.
constexpr std::int64_t input_max_unknown = 2'000'000;
// More would leave the range of what can be counted.
constexpr std::int64_t choices_max = 128;
constexpr std::int64_t rounds_max = 1'000;
// Looking for a known beginning costs more than it brings below this.
constexpr std::size_t anchored_bytes_min = 2'048;

std::string cut(std::string text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) return text;
    std::size_t end = bytes_max;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // Not inside a character.
    text.resize(end);
    return text;
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
        engine::Answer answer = co_await shared.ledger.ask(caller.org, std::move(command));
        core::ReserveReply* reply = answer ? std::get_if<core::ReserveReply>(&answer->reply) : nullptr;
        if (reply == nullptr) {
            // It may be there all the same. Whatever was not sent is not owed.
            const bool unknown = !answer && answer.error() == engine::SubmitError::outcome_unknown;
            if (unknown) shared.ledger.end(caller.org, id, core::ReleaseHold{id});
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
    if (ask.choices > choices_max || ask.rounds > rounds_max) {
        return No{
            Refused::bad_request, "invalid_request",
            fmt::format("at most {} choices and {} rounds of tools are metered in one call", choices_max, rounds_max)};
    }
    std::int64_t rounds = ask.rounds;
    if (ask.rounds_unbounded) {
        if (set.tool_rounds_max == 0) {
            return No{Refused::bad_request, "unbounded_tools",
                      "this call has tools that run at the provider as often as the model likes; bound them "
                      "(max_uses, max_tool_calls) or allow some: interlock gateway set tool_rounds_max=8"};
        }
        rounds = std::max(rounds, 1 + set.tool_rounds_max);
    }

    const std::int64_t most = price && price->input_max > 0 ? price->input_max : input_max_unknown;
    const auto counted = [&](const Counted& before) {
        return ask.input_bytes - before.input_bytes + (ask.images - before.images) * set.image_tokens_max +
               std::max((ask.files - before.files) * set.file_tokens_max, ask.file_bytes - before.file_bytes);
    };
    std::int64_t input = counted({}) + set.hidden_input_tokens;
    if (!ask.boundaries.empty() && request.body.size() >= anchored_bytes_min) {
        const std::uint64_t seed =
            std::hash<std::string>{}(fmt::format("{} {} {}", caller.org.value, upstream->provider, ask.model));
        prefixes_ = prefix_hashes(seed, request.body, ask.boundaries);
        if (const auto known = shared.anchors.find(prefixes_)) {
            // Tools behind the messages change what the provider hides in the prompt.
            const std::int64_t rest = counted(ask.counted[known->boundary]) + set.hidden_input_tokens;
            input = std::min(input, known->prompt_tokens + rest);
        }
    }
    // What tools bring in is not in the body, and each round reads all of it again.
    if (ask.input_elsewhere || rounds > 1) input = most;
    // A request has one input, but for embeddings: there the model's bound is that of each.
    if (route.operation != Operation::embeddings) input = std::min(input, most);

    output_max = 0;
    multiple_ = ask.choices * rounds;
    if (route.operation != Operation::embeddings) {
        const std::int64_t otherwise = price && price->output_max > 0
                                           ? std::min(set.default_output_tokens, price->output_max)
                                           : set.default_output_tokens;
        output_max = ask.output_max.value_or(otherwise);
    }
    output_changed = output_max > 0 && !ask.output_max;
    worst = {.input = input * rounds,
             .output = output_max * multiple_ + ask.prediction_bytes,
             .prompt = input * rounds,  // A provider may report the sum of all rounds.
             .cache_write = ask.cache_write,
             .audio = ask.audio_output || ask.files > 0,
             .paid_tools = std::max(ask.paid_tools_max, ask.rounds_unbounded ? set.tool_rounds_max : 0),
             .service_tier = ask.service_tier};
    if (price && !cost_at_most(*price, worst)) {
        return No{
            Refused::not_found, "unknown_price",
            fmt::format("what '{}' costs at service tier '{}' is not known, or is more than an amount can be; ask "
                        "for the default tier or set a price: interlock prices set",
                        ask.model, ask.service_tier)};
    }
    return std::nullopt;
}

core::Reserve Flight::reserve_command() const {
    Worst least = worst;
    const std::int64_t floor = std::min(output_max, settings().floor_tokens);
    least.output = floor * multiple_ + ask.prediction_bytes;
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
            .share = settings().share_percent};
}

// What the core said.
std::optional<No> Flight::take(core::ReserveReply reply) {
    if (reply.status != core::ReserveStatus::held) return no_of(reply, row.who, *upstream);
    held = std::move(reply);
    hold_ = held.hold;
    row.who.agent = held.agent;
    row.who.session = held.session;
    row.hold = hold_;
    row.bound = held.bound.usd;
    shared.ledger.keep(caller.org, hold_, settings().hold_lease_s);

    if (!price && settings().unknown_model != UnknownModel::unpriced && held.left >= 0) {
        release();
        return No{
            Refused::not_found, "unknown_model",
            fmt::format("model '{0}' of provider '{1}' has no price, and a hard budget covers this call; set one: "
                        "interlock prices set {1}/{0} --input DOLLARS --output DOLLARS (per million tokens)",
                        ask.model, upstream->provider)};
    }
    if (output_max == 0 || held.bound.tokens == 0) return std::nullopt;
    // The budgets had less than was wanted, and at least the floor: that much output fits.
    std::int64_t output = held.bound.tokens - worst.input;
    if (price) output = std::min(output, output_within(*price, worst, Money::nanos(held.bound.usd)).value_or(0));
    const std::int64_t each = (output - ask.prediction_bytes) / multiple_;
    if (each < output_max) {
        output_max = std::max<std::int64_t>(1, each);
        output_changed = true;
    }
    worst.output = output_max * multiple_ + ask.prediction_bytes;
    return std::nullopt;
}

Edits Flight::edits() const {
    Edits edits;
    if (output_changed) edits.output_max = output_max;
    edits.include_usage = route.operation == Operation::chat && ask.stream && !ask.wants_usage;
    const std::string there = upstream->model_there(ask.model);
    if (there != ask.model) edits.model = there;
    return edits;
}

// ---- after it was sent ----------------------------------------------------------------------------------------------

void Flight::settle(const Metered& metered) {
    if (!metered.reported) return settle_unknown(metered);
    Metered said = metered;
    if (ask.service_tier == "fast")
        said.service_tier = "fast";  // Asked for by another name, and not reported as a tier.
    if (!prefixes_.empty() && metered.prompt_tokens > 0 && ask.rounds == 1 && !ask.input_elsewhere) {
        shared.anchors.put(prefixes_.back(), metered.prompt_tokens);
    }
    if (!price) return end(Money(), said, false);
    if (const auto cost = cost_of(*price, said)) return end(*cost, said, false);
    // A service tier without a price: by the dearest that is known.
    const Usage& usage = said.usage;
    const std::int64_t output = usage.output_tokens + usage.reasoning_tokens;
    const Worst at_most{.input = tokens_of(usage).value_or(0) - output,
                        .output = output,
                        .prompt = said.prompt_tokens,
                        .cache_write = ask.cache_write,
                        .audio = said.audio_input_tokens + said.audio_output_tokens > 0,
                        .paid_tools = said.paid_tools};
    const auto cost = cost_at_most(*price, at_most);
    cost ? end(*cost, said, true) : settle_unknown(said);
}

// The provider has not said what was used. What it has said of the input counts; the rest is the most that it can be.
// What came by of the output says little: a model thinks before it speaks, and what was cut off is billed as well.
void Flight::settle_unknown(const Metered& so_far) {
    Metered most = so_far;
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
                                       .unpriced = !price});
    hold_ = {};
    if (!config->limits.empty()) {
        shared.rates.used(config->limits, rate_who(), tokens_of(metered.usage).value_or(0), now());
    }
}

void Flight::release() {
    if (is_held()) shared.ledger.end(caller.org, hold_, core::ReleaseHold{hold_});
    hold_ = {};
}

// ---- the end --------------------------------------------------------------------------------------------------------

void Flight::finish(int status, std::string detail) {
    if (std::exchange(recorded_, true)) return;
    row.status = status;
    row.detail = cut(std::move(detail), core::limits::text_bytes_max);
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
                                      {"estimated", row.estimated}, {"finish", metered.finish}};
    core::Append turn;
    turn.session = row.who.session;
    turn.run = row.who.run;
    const auto add = [&](std::string role, std::string content, std::string metadata) {
        turn.messages.push_back({.id = core::MessageId(shared.fresh_id()),
                                 .role = std::move(role),
                                 .content = cut(std::move(content), core::limits::message_bytes_max),
                                 .metadata = std::move(metadata)});
    };
    if (held.capture == core::Capture::full) {
        for (Said& said : new_messages(route, request.body, kept_text_bytes_max)) {
            add(std::move(said.role), std::move(said.content), {});
        }
    }
    add("assistant", metered.text, boost::json::serialize(facts));
    turn.messages.back().input_tokens = metered.usage.input_tokens + metered.usage.cache_read_tokens +
                                        metered.usage.cache_write_5m_tokens + metered.usage.cache_write_1h_tokens;
    turn.messages.back().output_tokens = metered.usage.output_tokens + metered.usage.reasoning_tokens;
    shared.ledger.append(caller.org, std::move(turn));
}

}  // namespace interlock::gateway
