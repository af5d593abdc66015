#include "gateway/gateway.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>

#include <fmt/format.h>
#include <boost/describe/enum_to_string.hpp>

#include "base/text.h"
#include "core/check.h"
#include "core/limits.h"
#include "core/org_state.h"
#include "gateway/forwarding.h"
#include "gateway/relay.h"
#include "net/http_pool.h"

namespace interlock::gateway {
namespace {

// A provider that asks for more patience than this is not waited for: another is asked, or the client is told.
constexpr std::int64_t retry_wait_ms_max = 5'000;
constexpr std::int64_t retry_after_s_max = 24 * 3600;
constexpr std::size_t tags_max = 16;
constexpr std::int64_t cache_ttl_s_max = 7 * 24 * 3600;

net::Task<void> sleep(std::chrono::milliseconds time) {
    boost::asio::basic_waitable_timer<std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>,
                                      net::Executor>
        timer(co_await boost::asio::this_coro::executor, time);
    boost::system::error_code ignored;
    co_await timer.async_wait(boost::asio::redirect_error(net::use_task, ignored));
}

net::Task<net::Response> at_once(net::Response response) { co_return response; }

std::optional<std::int64_t> number_in(std::string_view text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
    return number;
}

bool may_be_tried_again(int status) { return status == 429 || status >= 500; }

net::Response response_of(Flight& flight, const No& no) {
    flight.finish(no);
    net::Response response =
        refusal(flight.route.dialect, no.why, no.code, no.message, flight.call_id(), no.retry_after_s);
    add_rate_headers(response.headers, flight.rates);
    // What was charged would be charged again.
    if (flight.row.cost > 0 && net::find_header(response.headers, "x-should-retry").empty()) {
        response.headers.push_back({"x-should-retry", "false"});
    }
    return response;
}

// "team=blue,task=42"
Result<core::Tags, std::string> tags_in(std::string_view text) {
    core::Tags tags;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        const std::string_view one = text.substr(0, end);
        const std::size_t equals = one.find('=');
        if (equals == std::string_view::npos || equals == 0 || tags.size() == tags_max) {
            return fail(fmt::format("x-interlock-tags has at most {} tags, written name=value,name=value", tags_max));
        }
        const auto [tag, is_new] = tags.try_emplace(std::string(one.substr(0, equals)), one.substr(equals + 1));
        if (!is_new) return fail(fmt::format("x-interlock-tags has the tag '{}' twice", as_line(tag->first)));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return tags;
}

No no_upstream(const Flight& flight) {
    const std::string dialect = boost::describe::enum_to_string(flight.route.dialect, "");
    return {Refused::not_found, "no_upstream",
            fmt::format("no upstream of dialect {} takes model '{}'; {}", dialect, flight.ask.model,
                        flight.advice("add one", fmt::format("interlock upstreams add NAME --dialect {} --key-env "
                                                             "VARIABLE",
                                                             dialect)))};
}

No rate_limited(const RateVerdict& verdict) {
    return {Refused::rate_limited, "rate_limited",
            fmt::format("rate limit '{}' is used up; try again in {} s", *verdict.refused_by, verdict.retry_after_s),
            static_cast<int>(verdict.retry_after_s)};
}

// A key that is bound to a budget spends only what the budget covers.
bool within_scope(const Flight& flight, const Upstream& upstream) {
    if (!flight.scope) return true;
    core::Attribution who = flight.row.who;
    who.provider = upstream.provider;
    return core::covers(*flight.scope, who);
}

// Who asks for the cache, and for how long.
std::int64_t cache_ttl_s(const Flight& flight) {
    const std::string_view asked = flight.request.header("x-interlock-cache");
    if (!asked.empty()) return std::min(number_in(asked).value_or(0), cache_ttl_s_max);
    const auto& keys = flight.settings().cache_keys;
    const bool by_key = std::ranges::find(keys, flight.caller.key_id) != keys.end();
    return by_key ? flight.settings().cache_ttl_s : 0;
}

net::Task<void> write_all(std::shared_ptr<const CachedAnswer> answer, net::StreamWriter& writer) {
    co_await writer.write(answer->body);
}

net::Response again(Flight& flight, std::shared_ptr<const CachedAnswer> answer) {
    flight.row.cached = true;
    flight.row.streamed = answer->streamed;
    flight.row.first_byte_us = flight.elapsed_us();
    net::Response response{.status = 200, .content_type = answer->content_type, .inert = true};
    add_own_headers(flight, response);
    response.headers.push_back({"x-interlock-cache", "hit"});
    response.headers.push_back({"x-interlock-cost", "0.00"});
    if (answer->streamed) {
        response.stream = [answer](net::StreamWriter& writer) { return write_all(answer, writer); };
    } else {
        response.body = answer->body;
    }
    flight.finish(200, "from the cache");
    return response;
}

}  // namespace

Gateway::Gateway(Parts parts, Log& log)
    : parts_(std::move(parts)),
      ledger_({.submit = parts_.submit, .now = parts_.now, .fresh_id = parts_.fresh_id}, headroom_, log),
      shared_{ledger_, headroom_,  anchors_,        fleet_,         rates_,
              cache_,  parts_.now, parts_.fresh_id, parts_.on_call, bodies_} {}
Gateway::~Gateway() = default;

void Gateway::close() { ledger_.close(); }

void Gateway::configure(core::OrgId org, std::shared_ptr<const Config> config) {
    const std::unique_lock lock(mutex_);
    configs_[org] = std::move(config);
}

std::shared_ptr<const Config> Gateway::config_of(core::OrgId org) const {
    const std::shared_lock lock(mutex_);
    const auto found = configs_.find(org);
    return found == configs_.end() ? nullptr : found->second;
}

std::optional<net::Task<net::Response>> Gateway::answer(net::Request& request) {
    auto routed = route_of(request);
    if (!routed) return std::nullopt;
    if (!routed->route) {
        return at_once(refusal(routed->why_not, to_text("call", parts_.fresh_id())));
    }
    return serve(std::move(request), std::move(*routed->route));
}

net::Task<net::Response> Gateway::serve(net::Request request, Route route) {
    auto flight = std::make_shared<Flight>(shared_, std::move(request), std::move(route));

    // 1. Who asks, and what for. Keys that are bound to a budget wait for a look at it.
    const auto no = co_await admit(flight);
    if (no) co_return response_of(*flight, *no);

    // 2. What was answered before, word for word, is answered again.
    flight->cache_ttl_s = is_free(flight->route.operation) ? 0 : cache_ttl_s(*flight);
    if (flight->cache_ttl_s > 0) {
        const std::string& agent = flight->row.who.agent;
        const std::string whose = fmt::format("{} {} {}", flight->caller.org.value, agent.empty() ? "key" : "agent",
                                              agent.empty() ? flight->caller.key_id : agent);
        flight->cache_name = co_await read_off_io(shared_, flight->request.body.size(), [flight, whose] {
            return ResponseCache::name_of(whose, flight->route.target, what_goes_on(*flight->config, flight->request),
                                          flight->request.body);
        });
        if (const auto known = cache_.find(flight->cache_name, flight->now())) co_return again(*flight, known);
    }

    // 3. The providers, one after the other. Waits for headroom and for them.
    co_return co_await forward(flight);
}

net::Task<std::optional<No>> Gateway::admit(std::shared_ptr<Flight> flight) {
    if (auto no = identify(*flight)) co_return no;
    if (flight->caller.is_operator && parts_.refuse_operator) {
        if (auto no = co_await parts_.refuse_operator(flight->request)) co_return no;
    }
    auto unread = co_await read(flight);
    if (unread) co_return unread;
    const Caller& caller = flight->caller;
    core::Attribution& who = flight->row.who;
    const bool is_bound = !caller.agent.empty() || !caller.run.value.empty() || !caller.budget.empty();
    const bool agent_unknown = who.agent.empty() && !who.run.value.empty();
    // Where something is held, the core looks at the run. Nothing is held for what is free or was answered before.
    const bool run_unseen = !who.run.value.empty() && (is_free(flight->route.operation) || cache_ttl_s(*flight) > 0);
    if (caller.budget.empty() && !agent_unknown && !run_unseen && (!is_bound || who.session.value.empty())) {
        co_return std::nullopt;
    }
    auto bounds = co_await parts_.bounds(caller, who);
    if (!bounds) co_return No{Refused::unauthorized, "forbidden", bounds.error()};
    if (run_unseen && !bounds->run_is_live) {
        co_return No{Refused::unauthorized, "run_ended", "the run that this call is for is not live any more"};
    }
    who.agent = bounds->agent;
    flight->scope = std::move(bounds->scope);
    co_return std::nullopt;
}

std::optional<No> Gateway::identify(Flight& flight) const {
    if (const auto why = parts_.block_reason()) return No{Refused::busy, "unavailable", *why, 1};
    const auto caller = parts_.caller(key_in(flight.request, flight.route));
    if (!caller || !caller->may_act) {
        return No{Refused::unauthorized, "unauthorized",
                  caller
                      ? "this key may only read; calls to models need one that may act"
                      : "this is no key of Interlock's that is in force; make one: interlock keys create --scope agent "
                        "--agent NAME"};
    }
    flight.caller = *caller;
    flight.config = config_of(caller->org);
    if (!flight.config) return No{Refused::busy, "unavailable", "the gateway has no configuration yet", 1};

    core::Attribution& who = flight.row.who;
    who.api_key = caller->key_id;
    who.agent = !caller->agent.empty() ? caller->agent : std::string(flight.request.header("x-interlock-agent"));
    who.workflow = flight.request.header("x-interlock-workflow");
    const std::string_view run_text =
        !flight.route.run.empty() ? std::string_view(flight.route.run) : flight.request.header("x-interlock-run");
    who.run = caller->run;
    if (!run_text.empty()) {
        const auto run = id_from_text("run", run_text);
        const bool is_mine = run && (caller->run.value.empty() || caller->run.value == *run);
        if (!is_mine) {
            return No{Refused::unauthorized, "run_not_found",
                      fmt::format("there is no run '{}' that this key may act for", run_text)};
        }
        who.run = core::RunId(*run);
    }
    if (const auto text = flight.request.header("x-interlock-session"); !text.empty()) {
        const auto session = id_from_text("ses", text);
        if (!session) return No{Refused::bad_request, "session_not_found", "x-interlock-session is not a session's id"};
        who.session = core::SessionId(*session);
    }
    auto tags = tags_in(flight.request.header("x-interlock-tags"));
    if (!tags) return No{Refused::bad_request, "invalid_request", tags.error()};
    who.tags = std::move(*tags);
    if (const auto complaint = core::check_attribution(who)) {
        const std::string why = *complaint;
        who = {};  // What cannot be kept is not recorded either.
        return No{Refused::bad_request, "invalid_request", why};
    }

    return std::nullopt;
}

namespace {

struct ReadBody {
    Result<Ask, std::string> ask;
    std::vector<Hash128> beginnings = {};
    Hash128 prompt_members = {};
};

Hash128 name_of_members(const Ask& ask, std::string_view body) {
    std::string text;
    for (const Span member : ask.prompt_members) {
        text.append(std::to_string(member.end - member.begin)).push_back(':');
        text.append(body.substr(member.begin, member.end - member.begin));
    }
    return keyed_hash_128(text);
}

ReadBody read_body_as(const Route& route, std::string_view body) {
    ReadBody read{read_ask(route, body)};
    if (read.ask && can_be_anchored(*read.ask, body)) {
        read.beginnings = beginnings_of(*read.ask, body);
        read.prompt_members = name_of_members(*read.ask, body);
    }
    return read;
}

}  // namespace

// What the body asks for. A large one is read by a worker, so that no other request waits for it.
net::Task<std::optional<No>> Gateway::read(std::shared_ptr<Flight> flight) {
    Route route = flight->route;
    const bool is_free_of_cost = is_free(route.operation);
    if (is_free_of_cost) {
        flight->ask.model = route.model;
        if (route.operation != Operation::count_tokens || route.dialect != Dialect::anthropic) co_return std::nullopt;
        route.operation = Operation::messages;  // It goes where the call itself would go.
    }
    ReadBody body = co_await read_off_io(shared_, flight->request.body.size(),
                                         [flight, route] { return read_body_as(route, flight->request.body); });
    if (body.ask) {
        flight->ask = std::move(*body.ask);
        flight->beginnings = std::move(body.beginnings);
        flight->prompt_members = body.prompt_members;
    }
    if (is_free_of_cost) co_return std::nullopt;
    if (!body.ask) co_return No{Refused::bad_request, "invalid_request", body.ask.error()};
    core::Attribution& who = flight->row.who;
    who.model = flight->ask.model;
    if (who.model.size() > core::limits::name_bytes_max) {
        who.model.clear();
        co_return No{Refused::bad_request, "invalid_request", "the model's name is too long"};
    }
    co_return std::nullopt;
}

// One provider after the other, each as often as its setting says, until one has answered.
net::Task<net::Response> Gateway::forward(std::shared_ptr<Flight> flight) {
    auto order =
        fleet_.order(flight->caller.org, *flight->config, flight->route.dialect, flight->ask.model, flight->now());
    if (order.empty()) co_return response_of(*flight, no_upstream(*flight));
    std::erase_if(order, [&](const Upstream* upstream) { return !within_scope(*flight, *upstream); });
    if (order.empty()) {
        co_return response_of(*flight, No{Refused::unauthorized, "forbidden",
                                          fmt::format("the key is bound to budget '{}', which does not cover this",
                                                      flight->caller.budget)});
    }
    flight->upstream = order.front();
    flight->row.who.provider = flight->upstream->provider;
    flight->rates = rates_.ask(flight->config->limits, flight->rate_who(), flight->now());
    if (flight->rates.refused_by) co_return response_of(*flight, rate_limited(flight->rates));

    Attempt last;
    for (const Upstream* upstream : order) {
        for (int attempt = 0; attempt <= upstream->retries; ++attempt) {
            last = co_await try_once(flight, *upstream);
            if (last.next == Attempt::Next::nobody) break;
            // Doubled each time, and what the provider asks for if that is more.
            const std::int64_t wait_ms = std::max(upstream->backoff_ms << std::min(attempt, 10), last.retry_after_ms);
            if (last.next == Attempt::Next::another || attempt == upstream->retries || wait_ms > retry_wait_ms_max)
                break;
            co_await sleep(std::chrono::milliseconds(wait_ms));
            flight->has_waited = true;
        }
        if (last.next == Attempt::Next::nobody) break;
    }
    if (!last.response) co_return response_of(*flight, last.no);
    if (last.next != Attempt::Next::nobody) {
        flight->row.refusal = "upstream_refused";
        flight->finish(last.response->status, "every upstream refused");
    }
    co_return std::move(*last.response);
}

net::Task<Gateway::Attempt> Gateway::try_once(std::shared_ptr<Flight> flight, const Upstream& upstream) {
    using Next = Attempt::Next;
    const bool is_free_of_cost = is_free(flight->route.operation);

    // 1. Hold. Waits for headroom, and for the disk.
    if (!is_free_of_cost) {
        auto no = co_await flight->hold(upstream);
        // Another upstream may have a price for the model; all else would be said again.
        if (no)
            co_return Attempt{.next = no->code == "unknown_model" ? Next::another : Next::nobody, .no = std::move(*no)};
    }
    flight->upstream = &upstream;
    flight->row.upstream = upstream.name;
    // Whoever has left while it waited does not pay for what nobody would read.
    if (flight->has_waited && flight->request.gone && flight->request.gone()) {
        flight->release();
        co_return Attempt{.next = Next::nobody, .no = {Refused::busy, "client_left", "the client has left"}};
    }
    ++flight->row.attempts;

    // 2. Send. Waits for the provider's first byte.
    const auto key = flight->config->keys.find(upstream.name);
    if (upstream.key.from != KeyFrom::none && key == flight->config->keys.end()) {
        Attempt keyless = failed(*flight, {net::ClientError::Kind::could_not_connect,
                                           fmt::format("its key is not there ({})", upstream.key.name)});
        keyless.next = Next::another;
        co_return keyless;
    }
    const Edits edits = is_free_of_cost ? Edits{} : flight->edits();
    const bool model_in_target = edits.model && flight->route.dialect == Dialect::gemini;
    std::string target = model_in_target ? edited_target(flight->route, *edits.model) : flight->route.target;
    std::string body =
        is_free_of_cost ? flight->request.body : edited(flight->route, flight->request.body, flight->ask, edits);
    net::OutRequest request = request_for(upstream, key == flight->config->keys.end() ? "" : key->second,
                                          flight->request, std::move(target), std::move(body));
    net::HttpPool& pool = net::HttpPool::of(co_await boost::asio::this_coro::executor);
    flight->sent_at = flight->now();
    auto sent = co_await pool.send(upstream.origin, std::move(request), upstream.patience());
    flight->first_byte_at = flight->now();
    if (!sent) co_return failed(*flight, sent.error());

    // 3. Judge. What the provider refuses it does not bill; what it does not answer it may. Waits for its last byte,
    // unless it streams.
    const int status = (*sent)->status;
    if (status < 300 && !is_free_of_cost) {
        Relayed relayed = co_await relay(flight, std::move(*sent));
        if (relayed.response) co_return Attempt{.next = Next::nobody, .response = std::move(relayed.response)};
        Attempt broken = failed(*flight, *relayed.failure);
        if (relayed.begun) broken.next = Next::nobody;  // It was made, and is paid for.
        co_return broken;
    }
    // Somebody's patience has ended there, and nobody says that nothing was done.
    if (status == 408 || status == 499 || status == 504 || status == 524) {
        co_return failed(*flight,
                         {net::ClientError::Kind::outcome_unknown, fmt::format("it answered {}", status), true});
    }
    flight->release();
    if (status == 401 || status == 403) {
        Attempt refused =
            failed(*flight, {net::ClientError::Kind::bad_response, fmt::format("it refused our key with {}", status)});
        refused.next = Next::another;
        co_return refused;
    }
    if (status >= 300 && status < 400) {
        co_return failed(*flight,
                         {net::ClientError::Kind::bad_response, "it answered with a redirect, and none is followed"});
    }
    const std::int64_t retry_after_s = number_in((*sent)->header("retry-after")).value_or(0);
    Relayed relayed = co_await read_whole(flight, std::move(*sent));
    if (!relayed.response) co_return failed(*flight, *relayed.failure);
    if (may_be_tried_again(status)) {
        fleet_.failed(flight->caller.org, upstream, fmt::format("answered {}", status), flight->now(), parts_.now());
        co_return Attempt{.next = Next::same,
                          .response = std::move(relayed.response),
                          .retry_after_ms = std::min(retry_after_s, retry_after_s_max) * 1000};
    }
    // A refusal, or a list of models: there at once, and no measure of what a model takes.
    fleet_.succeeded(flight->caller.org, upstream, parts_.now(), {});
    flight->finish(status, status < 400 ? "" : "the provider refused");
    co_return Attempt{.next = Next::nobody, .response = std::move(relayed.response)};
}

// No answer came.
Gateway::Attempt Gateway::failed(Flight& flight, const net::ClientError& failure) {
    using Kind = net::ClientError::Kind;
    const bool not_sent = failure.kind == Kind::could_not_connect || failure.kind == Kind::tls_failed;
    if (not_sent) flight.release();
    if (flight.is_held()) flight.settle_unknown({});
    fleet_.failed(flight.caller.org, *flight.upstream, failure.detail, flight.now(), parts_.now());
    // Where it is not known whether it was carried out, it is charged, and the same provider is not asked twice.
    return {.next = not_sent ? Attempt::Next::same : Attempt::Next::another,
            .no = {failure.timed_out ? Refused::upstream_timeout : Refused::upstream_failed, "upstream_failed",
                   fmt::format("upstream '{}' did not answer: {}", flight.upstream->name, failure.detail)}};
}

}  // namespace interlock::gateway
