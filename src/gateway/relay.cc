#include "gateway/relay.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "gateway/dialect.h"
#include "gateway/forwarding.h"

namespace interlock::gateway {
namespace {

// How a stream has ended.
struct StreamEnd {
    enum class Why { whole, client_left, upstream_failed } why = Why::whole;
    std::string detail = {};  // Unless it is whole.
};

// A stream that was begun: what is on its way from the upstream to the client.
struct Stream {
    Stream(std::shared_ptr<GatewayCall> its_call, std::unique_ptr<net::HttpExchange> its_exchange, KeepText keep_text)
        : call(std::move(its_call)),
          exchange(std::move(its_exchange)),
          meter(call->route(), call->edits().include_usage, keep_text) {}

    std::shared_ptr<GatewayCall> call;
    std::unique_ptr<net::HttpExchange> exchange;
    StreamMeter meter;
    std::string kept = {};  // For the cache.
    bool too_large_to_keep = false;

    std::string_view pass(std::string_view piece) { return keep(meter.feed(piece)); }
    std::string_view finish() { return keep(meter.finish()); }

 private:
    std::string_view keep(std::string_view out) {
        if (call->asked().is_cached() && !too_large_to_keep) {
            too_large_to_keep = kept.size() + out.size() > ResponseCache::answer_bytes_max;
            if (!too_large_to_keep) kept.append(out);
        }
        return out;
    }
};

void keep_answer(const GatewayCall& call, std::string_view content_type, std::string body, bool streamed) {
    call.shared().cache.put(call.asked().cache_name, {std::string(content_type), std::move(body), streamed},
                            call.now() + std::chrono::seconds(call.asked().cache_ttl_s));
}

void note_success(const GatewayCall& call) {
    call.shared().selector.succeeded(call.org(), *call.attempt().upstream, call.shared().now(), call.latency());
}

// The answer has ended, or has to be taken for ended.
void end_stream(Stream& stream, const StreamEnd& end) {
    using Why = StreamEnd::Why;
    GatewayCall& call = *stream.call;
    const Metered& metered = stream.meter.metered();
    // Some say what was used with every piece: of a stream that broke off that is not the last word.
    end.why == Why::whole || stream.meter.ended() ? call.settle(metered) : call.settle_at_bound(metered);
    switch (end.why) {
        case Why::whole:
        case Why::client_left:
            note_success(call);
            break;
        case Why::upstream_failed:
            call.shared().selector.failed(call.org(), *call.attempt().upstream, end.detail, call.now(),
                                          call.shared().now());
            break;
    }
    const bool is_good = end.why == Why::whole && stream.meter.ended() && metered.reported && !has_failed(metered);
    if (is_good && !call.is_cut_short() && call.asked().is_cached() && !stream.too_large_to_keep) {
        keep_answer(call, content_type_from(stream.exchange->header("content-type")), std::move(stream.kept), true);
    }
    call.keep_turn(metered);
    if (end.why == Why::whole)
        call.finish(200, metered.finish);
    else
        call.finish(200, end.detail, CallEnd::broken_off);
}

net::SteadyTime deadline_of(const GatewayCall& call) {
    return call.began() + std::chrono::milliseconds(call.attempt().upstream->total_timeout_ms);
}

std::string error_event(const GatewayCall& call, std::string_view why) {
    const std::string message = as_utf8(why);
    return call.route().dialect().stream_error({.kind = RefusalKind::upstream_failed,
                                                .status = status_of(RefusalKind::upstream_failed),
                                                .code = RefusalCode::upstream_failed,
                                                .message = message});
}

// Numbered by who may wait in it: (1) the client takes what there is, (2) the upstream has more.
net::Task<void> pump(std::shared_ptr<Stream> stream, net::StreamWriter& writer) {
    using Why = StreamEnd::Why;
    GatewayCall& call = *stream->call;
    const GatewaySettings& settings = call.settings();
    const StreamEnd client_left{Why::client_left, "the client has left"};
    net::SteadyTime deadline = deadline_of(call);
    std::int64_t unread_bytes_max = settings.drain_bytes;
    bool client_is_there = true;
    StreamEnd end;

    while (end.why == Why::whole) {
        const auto piece = co_await stream->exchange->read();
        if (!piece) {
            end = {Why::upstream_failed, "the upstream's answer broke off: " + piece.error().detail};
            break;
        }
        if (piece->empty()) break;
        const std::string_view out = stream->pass(*piece);
        if (client_is_there && !out.empty()) {
            client_is_there = co_await writer.write(out);
            // The client has left. The provider bills the answer all the same, so the rest is read for its usage.
            if (!client_is_there) {
                deadline = std::min(deadline, call.now() + std::chrono::seconds(settings.drain_s));
            }
        }
        if (!client_is_there) unread_bytes_max -= static_cast<std::int64_t>(piece->size());
        if (call.now() > deadline)
            end = client_is_there ? StreamEnd{Why::upstream_failed, "the upstream took too long"} : client_left;
        if (unread_bytes_max < 0) end = client_left;
    }
    const bool between_events = stream->meter.between_events();
    std::string rest(stream->finish());
    if (end.why == Why::whole && !stream->meter.ended() && !stream->meter.metered().reported) {
        end = {Why::upstream_failed, "the upstream's answer ended early"};
    }
    if (end.why != Why::whole) rest.clear();  // A client cannot use half an event.
    end_stream(*stream, end);
    stream->exchange.reset();
    if (client_is_there && !rest.empty()) client_is_there = co_await writer.write(rest);
    // A client that sees a stream break off asks again, and pays again.
    if (end.why == Why::whole || !client_is_there) co_return;
    const std::string error = (between_events ? "" : "\n\n") + error_event(call, end.detail);
    co_await writer.write(error);
}

net::Response response_of(const GatewayCall& call, const net::HttpExchange& exchange) {
    net::Response response{.status = exchange.status,
                           .content_type = content_type_from(exchange.header("content-type")),
                           .headers = headers_from(exchange.headers),
                           .inert = true};
    add_own_headers(call, response);
    return response;
}

net::Task<Relayed> relay_stream(std::shared_ptr<GatewayCall> call, std::unique_ptr<net::HttpExchange> exchange) {
    const KeepText keep = call->wants_words() ? KeepText::yes : KeepText::no;
    auto stream = std::make_shared<Stream>(call, std::move(exchange), keep);
    // The first piece decides whether there is an answer: until it is there, another upstream can be asked.
    const auto first = co_await stream->exchange->read();
    if (!first) co_return Relayed{.failure = first.error()};

    call->answered();
    call->first_byte(true);
    call->drop_body();  // No other upstream will be asked.
    net::Response response = response_of(*call, *stream->exchange);
    response.body = stream->pass(*first);
    response.stream = [stream](net::StreamWriter& writer) { return pump(stream, writer); };
    co_return Relayed{.response = std::move(response)};
}

net::Task<Result<std::string, net::ClientError>> read_body(net::HttpExchange& exchange, net::SteadyTime deadline) {
    std::string body;
    while (true) {
        const auto piece = co_await exchange.read();
        if (!piece) co_return fail(piece.error());
        if (piece->empty()) co_return body;
        body.append(*piece);
        const bool too_large = body.size() > whole_bytes_max;
        if (too_large || std::chrono::steady_clock::now() > deadline) {
            co_return fail(net::ClientError{net::ClientError::Kind::outcome_unknown,
                                            too_large ? "the answer is too large" : "the answer took too long"});
        }
    }
}

// By what came, not by what was asked for: some providers answer with a whole body all the same. Gemini streams an
// array of JSON to those who do not ask for events.
bool is_stream(const GatewayCall& call, const net::HttpExchange& exchange) {
    return exchange.header("content-type").starts_with("text/event-stream") || call.route().stream;
}

}  // namespace

net::Task<Relayed> relay(std::shared_ptr<GatewayCall> call, std::unique_ptr<net::HttpExchange> exchange) {
    // While the request is still there: what of it is to be kept.
    if (call->wants_words()) {
        call->set_new_words(co_await read_off_io(call->shared(), call->http().body.size(), [call] {
            return new_messages(call->route(), call->http().body, kept_text_bytes_max);
        }));
    }
    if (is_stream(*call, *exchange)) {
        co_return co_await relay_stream(std::move(call), std::move(exchange));
    }
    auto body = co_await read_body(*exchange, deadline_of(*call));
    if (!body) co_return Relayed{.failure = body.error(), .begun = true};

    const KeepText keep = call->wants_words() ? KeepText::yes : KeepText::no;
    const auto whole = std::make_shared<std::string>(std::move(*body));
    const Metered metered = co_await read_off_io(
        call->shared(), whole->size(), [call, whole, keep] { return read_usage(call->route(), *whole, keep); });
    call->first_byte(false);
    call->settle(metered);
    note_success(*call);
    call->keep_turn(metered);
    net::Response response = response_of(*call, *exchange);
    response.headers.push_back({"x-interlock-cost", to_text(Money::nanos(call->row().cost))});
    if (metered.reported && !call->is_cut_short() && call->asked().is_cached())
        keep_answer(*call, response.content_type, *whole, false);
    response.body = std::move(*whole);
    call->finish(response.status, metered.finish);
    co_return Relayed{.response = std::move(response)};
}

net::Task<Relayed> read_whole(std::shared_ptr<GatewayCall> call, std::unique_ptr<net::HttpExchange> exchange) {
    auto body = co_await read_body(*exchange, deadline_of(*call));
    if (!body) co_return Relayed{.failure = body.error()};
    net::Response response = response_of(*call, *exchange);
    response.body = std::move(*body);
    co_return Relayed{.response = std::move(response)};
}

void add_own_headers(const GatewayCall& call, net::Response& response) {
    const CallAttempt& attempt = call.attempt();
    response.headers.push_back({"x-interlock-call", call.call_id()});
    if (attempt.upstream != nullptr) response.headers.push_back({"x-interlock-upstream", attempt.upstream->name});
    if (call.row().attempts > 1) {
        response.headers.push_back({"x-interlock-attempts", std::to_string(call.row().attempts)});
    }
    if (attempt.output_changed) {
        response.headers.push_back({"x-interlock-max-output-tokens", std::to_string(attempt.bound.output_max)});
    }
    if (attempt.held.left >= 0) {
        // Once the call is settled, what it held and did not use is there again.
        const std::int64_t back = call.is_held() ? 0 : attempt.held.bound.usd - call.row().cost;
        response.headers.push_back(
            {"x-interlock-budget-left", to_text(Money::nanos(std::max<std::int64_t>(0, attempt.held.left + back)))});
    }
    // Ours are the tighter ones, or there are none.
    const RateVerdict& rates = call.asked().rates;
    if (rates.requests || rates.tokens) {
        std::erase_if(response.headers,
                      [](const net::Header& header) { return header.name.starts_with("x-ratelimit-"); });
    }
    add_rate_headers(response.headers, rates);
}

}  // namespace interlock::gateway
