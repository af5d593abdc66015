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
#include "gateway/dialect.h"
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

net::Response response_of(GatewayCall& call, const CallRefusal& refused) {
    call.finish(refused);
    net::Response response = refusal(call.route().format, refused, call.call_id());
    add_rate_headers(response.headers, call.asked().rates);
    // What was charged would be charged again.
    if (call.row().cost > 0 && net::find_header(response.headers, "x-should-retry").empty()) {
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

CallRefusal no_upstream(const GatewayCall& call) {
    const std::string format = boost::describe::enum_to_string(call.route().format, "");
    return {RefusalKind::not_found, RefusalCode::no_upstream,
            fmt::format("no upstream of dialect {} takes model '{}'; {}", format, call.asked().request.model,
                        call.advice("add one", fmt::format("interlock upstreams add NAME --dialect {} --key-env "
                                                           "VARIABLE",
                                                           format)))};
}

CallRefusal rate_limited(const RateVerdict& verdict) {
    return {RefusalKind::rate_limited, RefusalCode::rate_limited,
            fmt::format("rate limit '{}' is used up; try again in {} s", *verdict.refused_by, verdict.retry_after_s),
            static_cast<int>(verdict.retry_after_s)};
}

// A key that is bound to a budget spends only what the budget covers.
bool within_scope(const GatewayCall& call, const Upstream& upstream) {
    if (!call.asked().scope) return true;
    core::Attribution who = call.row().who;
    who.provider = upstream.provider;
    return core::covers(*call.asked().scope, who);
}

// For how long the answer is kept; 0: it is not, because neither the request nor the settings of its key ask for it.
std::int64_t cache_ttl_s(const GatewayCall& call) {
    if (is_free(call.route().operation)) return 0;
    const std::string_view asked = call.http().header("x-interlock-cache");
    if (!asked.empty()) return std::min(number_in(asked).value_or(0), cache_ttl_s_max);
    const auto& keys = call.settings().cache_keys;
    const bool by_key = std::ranges::find(keys, call.asked().caller.key_id) != keys.end();
    return by_key ? call.settings().cache_ttl_s : 0;
}

net::Task<void> write_all(std::shared_ptr<const CachedAnswer> answer, net::StreamWriter& writer) {
    co_await writer.write(answer->body);
}

net::Response again(GatewayCall& call, std::shared_ptr<const CachedAnswer> answer) {
    net::Response response{.status = 200, .content_type = answer->content_type, .inert = true};
    add_own_headers(call, response);
    response.headers.push_back({"x-interlock-cache", "hit"});
    response.headers.push_back({"x-interlock-cost", "0.00"});
    if (answer->streamed) {
        response.stream = [answer](net::StreamWriter& writer) { return write_all(answer, writer); };
    } else {
        response.body = answer->body;
    }
    call.finish_from_cache(answer->streamed);
    return response;
}

// On whose account the call goes, as its key and its headers say.
std::optional<CallRefusal> attribute(const GatewayCall& call, const CallPrincipal& caller, core::Attribution& who) {
    const net::Request& http = call.http();
    who.api_key = caller.key_id;
    who.agent = !caller.agent.empty() ? caller.agent : std::string(http.header("x-interlock-agent"));
    who.workflow = http.header("x-interlock-workflow");
    const std::string& run_in_path = call.route().run;
    const std::string_view run_text =
        !run_in_path.empty() ? std::string_view(run_in_path) : http.header("x-interlock-run");
    who.run = caller.run;
    if (!run_text.empty()) {
        const auto run = id_from_text("run", run_text);
        const bool is_mine = run && (caller.run.value.empty() || caller.run.value == *run);
        if (!is_mine) {
            return CallRefusal{RefusalKind::unauthorized, RefusalCode::run_not_found,
                               fmt::format("there is no run '{}' that this key may act for", as_line(run_text))};
        }
        who.run = core::RunId(*run);
    }
    if (const auto text = http.header("x-interlock-session"); !text.empty()) {
        const auto session = id_from_text("ses", text);
        if (!session) {
            return CallRefusal{RefusalKind::bad_request, RefusalCode::session_not_found,
                               "x-interlock-session is not a session's id"};
        }
        who.session = core::SessionId(*session);
    }
    auto tags = tags_in(http.header("x-interlock-tags"));
    if (!tags) return CallRefusal{RefusalKind::bad_request, RefusalCode::invalid_request, tags.error()};
    who.tags = std::move(*tags);
    return std::nullopt;
}

}  // namespace

Gateway::Gateway(Parts parts, Log& log)
    : parts_(std::move(parts)),
      ledger_({.submit = parts_.submit, .now = parts_.now, .fresh_id = parts_.fresh_id}, budget_waits_, log),
      shared_{ledger_, budget_waits_, prefix_tokens_,  selector_,      rates_,
              cache_,  parts_.now,    parts_.fresh_id, parts_.on_call, bodies_} {}
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

net::Task<net::Response> Gateway::serve(net::Request request, ModelRoute route) {
    auto call = std::make_shared<GatewayCall>(shared_, std::move(request), std::move(route));

    // 1. Who asks, and what for. Keys that are bound to a budget wait for a look at it.
    const auto refused = co_await admit(call);
    if (refused) co_return response_of(*call, *refused);

    // 2. What was answered before, word for word, is answered again.
    if (const std::int64_t ttl_s = cache_ttl_s(*call); ttl_s > 0) {
        const std::string& agent = call->row().who.agent;
        const std::string whose = fmt::format("{} {} {}", call->org().value, agent.empty() ? "key" : "agent",
                                              agent.empty() ? call->asked().caller.key_id : agent);
        std::string name = co_await read_off_io(shared_, call->http().body.size(), [call, whose] {
            const net::Request& http = call->http();
            return ResponseCache::name_of(whose, call->route().target, what_goes_on(*call->asked().config, http),
                                          http.body);
        });
        if (const auto known = cache_.find(name, call->now())) co_return again(*call, known);
        call->admit().cache_name = std::move(name);
        call->admit().cache_ttl_s = ttl_s;
    }

    // 3. The providers, one after the other. Waits for budget and for them.
    co_return co_await forward(call);
}

net::Task<std::optional<CallRefusal>> Gateway::admit(std::shared_ptr<GatewayCall> call) {
    if (auto refused = identify(*call)) co_return refused;
    if (call->asked().caller.is_operator && parts_.refuse_operator) {
        if (auto refused = co_await parts_.refuse_operator(call->http())) co_return refused;
    }
    if (auto unread = co_await read(call)) co_return unread;
    const CallPrincipal& caller = call->asked().caller;
    core::Attribution& who = call->attribution();
    const bool is_bound = !caller.agent.empty() || !caller.run.value.empty() || !caller.budget.empty();
    const bool agent_unknown = who.agent.empty() && !who.run.value.empty();
    // Where something is held, the core looks at the run. Nothing is held for what is free or was answered before.
    const bool run_unseen = !who.run.value.empty() && (is_free(call->route().operation) || cache_ttl_s(*call) > 0);
    if (caller.budget.empty() && !agent_unknown && !run_unseen && (!is_bound || who.session.value.empty())) {
        co_return std::nullopt;
    }
    auto bounds = co_await parts_.bounds(caller, who);
    if (!bounds) co_return CallRefusal{RefusalKind::unauthorized, RefusalCode::forbidden, bounds.error()};
    if (run_unseen && !bounds->run_is_live) {
        co_return CallRefusal{RefusalKind::unauthorized, RefusalCode::run_ended,
                              "the run that this call is for is not live any more"};
    }
    who.agent = bounds->agent;
    call->admit().scope = std::move(bounds->scope);
    co_return std::nullopt;
}

std::optional<CallRefusal> Gateway::identify(GatewayCall& call) const {
    if (const auto why = parts_.block_reason())
        return CallRefusal{RefusalKind::busy, RefusalCode::unavailable, *why, 1};
    const auto caller = parts_.caller(key_in(call.http(), call.route()));
    if (!caller || !caller->may_act) {
        return CallRefusal{RefusalKind::unauthorized, RefusalCode::unauthorized,
                           caller ? "this key may only read; calls to models need one that may act"
                                  : "this is no key of Interlock's that is in force; make one: interlock keys create "
                                    "--scope agent --agent NAME"};
    }
    call.admit().caller = *caller;
    call.admit().config = config_of(caller->org);
    if (!call.asked().config)
        return CallRefusal{RefusalKind::busy, RefusalCode::unavailable, "the gateway has no configuration yet", 1};

    core::Attribution& who = call.attribution();
    auto refused = attribute(call, *caller, who);
    if (refused) return refused;
    if (const auto complaint = core::check_attribution(who)) {
        const std::string why = *complaint;
        who = {};  // What cannot be kept is not recorded either.
        return CallRefusal{RefusalKind::bad_request, RefusalCode::invalid_request, why};
    }
    return std::nullopt;
}

namespace {

struct ReadBody {
    Result<CallRequest, std::string> request;
    std::vector<Hash128> prefixes = {};
    Hash128 prompt_members = {};
};

Hash128 name_of_members(const CallRequest& request, std::string_view body) {
    std::string text;
    for (const Span member : request.prompt_members) {
        text.append(std::to_string(member.end - member.begin)).push_back(':');
        text.append(body.substr(member.begin, member.end - member.begin));
    }
    return keyed_hash_128(text);
}

ReadBody read_body_as(const ModelRoute& route, std::string_view body) {
    ReadBody read{read_call_request(route, body)};
    if (read.request && is_prefix_cacheable(*read.request, body)) {
        read.prefixes = prefixes_of(*read.request, body);
        read.prompt_members = name_of_members(*read.request, body);
    }
    return read;
}

// The client's request, as the upstream gets it.
net::OutRequest request_of(const GatewayCall& call, std::string_view key) {
    const Upstream& upstream = *call.attempt().upstream;
    const ModelRoute& route = call.route();
    const net::Request& http = call.http();
    if (is_free(route.operation)) return request_for(upstream, key, http, route.target, http.body);
    const Edits edits = call.edits();
    std::string target = edits.model ? route.dialect().target_for(route, *edits.model) : route.target;
    return request_for(upstream, key, http, std::move(target), edited(route, http.body, call.asked().request, edits));
}

}  // namespace

// What the body asks for. A large one is read by a worker, so that no other request waits for it.
net::Task<std::optional<CallRefusal>> Gateway::read(std::shared_ptr<GatewayCall> call) {
    const ModelRoute& route = call->route();
    const bool is_free_of_cost = is_free(route.operation);
    if (is_free_of_cost) {
        call->admit().request.model = route.model;
        if (!route.dialect().has_body_to_read(route.operation)) co_return std::nullopt;
    }
    ReadBody body = co_await read_off_io(shared_, call->http().body.size(),
                                         [call] { return read_body_as(call->route(), call->http().body); });
    if (body.request) {
        AskedCall& asked = call->admit();
        asked.request = std::move(*body.request);
        asked.prefixes = std::move(body.prefixes);
        asked.prompt_members = body.prompt_members;
    }
    if (is_free_of_cost) co_return std::nullopt;
    if (!body.request)
        co_return CallRefusal{RefusalKind::bad_request, RefusalCode::invalid_request, body.request.error()};
    core::Attribution& who = call->attribution();
    who.model = call->asked().request.model;
    if (who.model.size() > core::limits::name_bytes_max) {
        who.model.clear();
        co_return CallRefusal{RefusalKind::bad_request, RefusalCode::invalid_request, "the model's name is too long"};
    }
    co_return std::nullopt;
}

// One provider after the other, each as often as its setting says, until one has answered.
net::Task<net::Response> Gateway::forward(std::shared_ptr<GatewayCall> call) {
    const AskedCall& asked = call->asked();
    auto order = selector_.order(call->org(), *asked.config, call->route().format, asked.request.model, call->now());
    if (order.empty()) co_return response_of(*call, no_upstream(*call));
    std::erase_if(order, [&](const Upstream* upstream) { return !within_scope(*call, *upstream); });
    if (order.empty()) {
        co_return response_of(*call, CallRefusal{RefusalKind::unauthorized, RefusalCode::forbidden,
                                                 fmt::format("the key is bound to budget '{}', which does not cover "
                                                             "this",
                                                             asked.caller.budget)});
    }
    call->expect(*order.front());
    call->admit().rates = rates_.ask(asked.config->limits, call->rate_who(), call->now());
    if (asked.rates.refused_by) co_return response_of(*call, rate_limited(asked.rates));

    Attempt last;
    for (const Upstream* upstream : order) {
        for (int attempt = 0; attempt <= upstream->retries; ++attempt) {
            last = co_await try_once(call, *upstream);
            if (last.next == Attempt::Next::no_upstream) break;
            // Doubled each time, and what the provider asks for if that is more.
            const std::int64_t wait_ms = std::max(upstream->backoff_ms << std::min(attempt, 10), last.retry_after_ms);
            if (last.next == Attempt::Next::another || attempt == upstream->retries || wait_ms > retry_wait_ms_max)
                break;
            co_await sleep(std::chrono::milliseconds(wait_ms));
            call->pause();
        }
        if (last.next == Attempt::Next::no_upstream) break;
    }
    if (!last.response) co_return response_of(*call, last.refused);
    if (last.next != Attempt::Next::no_upstream) call->finish_refused_by_all(last.response->status);
    co_return std::move(*last.response);
}

net::Task<Gateway::Attempt> Gateway::try_once(std::shared_ptr<GatewayCall> call, const Upstream& upstream) {
    using Next = Attempt::Next;
    const bool is_free_of_cost = is_free(call->route().operation);

    // 1. Hold. Waits for budget, and for the disk.
    if (!is_free_of_cost) {
        if (auto refused = co_await call->hold(upstream)) {
            // Another upstream may have a price for the model; all else would be said again.
            const Next next = refused->code == RefusalCode::unknown_model ? Next::another : Next::no_upstream;
            co_return Attempt{.next = next, .refused = std::move(*refused)};
        }
    }
    call->go_to(upstream);
    if (call->was_left()) {
        call->release();
        co_return Attempt{.next = Next::no_upstream,
                          .refused = {RefusalKind::busy, RefusalCode::client_left, "the client has left"}};
    }
    call->count_attempt();

    // 2. Send. Waits for the provider's first byte.
    const auto& keys = call->asked().config->keys;
    const auto key = keys.find(upstream.name);
    if (upstream.key.from != KeyFrom::none && key == keys.end()) {
        Attempt keyless = failed(*call, {net::ClientError::Kind::could_not_connect,
                                         fmt::format("its key is not there ({})", upstream.key.name)});
        keyless.next = Next::another;
        co_return keyless;
    }
    net::OutRequest request = request_of(*call, key == keys.end() ? std::string_view() : key->second);
    net::HttpPool& pool = net::HttpPool::of(co_await boost::asio::this_coro::executor);
    call->send();
    auto sent = co_await pool.send(upstream.origin, std::move(request), upstream.patience());
    call->answered();
    if (!sent) co_return failed(*call, sent.error());

    // 3. Judge. What the provider refuses it does not bill; what it does not answer it may. Waits for its last byte,
    // unless it streams.
    if ((*sent)->status < 300 && !is_free_of_cost) {
        Relayed relayed = co_await relay(call, std::move(*sent));
        if (relayed.response) co_return Attempt{.next = Next::no_upstream, .response = std::move(relayed.response)};
        Attempt broken = failed(*call, *relayed.failure);
        if (relayed.begun) broken.next = Next::no_upstream;  // It was made, and is paid for.
        co_return broken;
    }
    co_return co_await judge(call, upstream, std::move(*sent));
}

// An answer that is free of cost, or a refusal.
net::Task<Gateway::Attempt> Gateway::judge(std::shared_ptr<GatewayCall> call, const Upstream& upstream,
                                           std::unique_ptr<net::HttpExchange> answer) {
    using Next = Attempt::Next;
    const int status = answer->status;
    // A timeout at the provider, which does not say whether the model has run.
    if (status == 408 || status == 499 || status == 504 || status == 524) {
        co_return failed(*call, {net::ClientError::Kind::outcome_unknown, fmt::format("it answered {}", status), true});
    }
    call->release();
    if (status == 401 || status == 403) {
        Attempt refused =
            failed(*call, {net::ClientError::Kind::bad_response, fmt::format("it refused our key with {}", status)});
        refused.next = Next::another;
        co_return refused;
    }
    if (status >= 300 && status < 400) {
        co_return failed(*call,
                         {net::ClientError::Kind::bad_response, "it answered with a redirect, and none is followed"});
    }
    const std::int64_t retry_after_s = number_in(answer->header("retry-after")).value_or(0);
    Relayed relayed = co_await read_whole(call, std::move(answer));
    if (!relayed.response) co_return failed(*call, *relayed.failure);
    if (may_be_tried_again(status)) {
        selector_.failed(call->org(), upstream, fmt::format("answered {}", status), call->now(), parts_.now());
        co_return Attempt{.next = Next::same,
                          .response = std::move(relayed.response),
                          .retry_after_ms = std::min(retry_after_s, retry_after_s_max) * 1000};
    }
    // A refusal, or a list of models: there at once, and no measure of what a model takes.
    selector_.succeeded(call->org(), upstream, parts_.now(), {});
    call->finish(status, status < 400 ? "" : "the provider refused");
    co_return Attempt{.next = Next::no_upstream, .response = std::move(relayed.response)};
}

// No answer came.
Gateway::Attempt Gateway::failed(GatewayCall& call, const net::ClientError& failure) {
    using Kind = net::ClientError::Kind;
    const bool not_sent = failure.kind == Kind::could_not_connect || failure.kind == Kind::tls_failed;
    not_sent ? call.release() : call.settle_at_bound({});
    const Upstream& upstream = *call.attempt().upstream;
    selector_.failed(call.org(), upstream, failure.detail, call.now(), parts_.now());
    // Where it is not known whether it was carried out, it is charged, and the same provider is not asked twice.
    return {.next = not_sent ? Attempt::Next::same : Attempt::Next::another,
            .refused = {failure.timed_out ? RefusalKind::upstream_timeout : RefusalKind::upstream_failed,
                        RefusalCode::upstream_failed,
                        fmt::format("upstream '{}' did not answer: {}", upstream.name, failure.detail)}};
}

}  // namespace interlock::gateway
