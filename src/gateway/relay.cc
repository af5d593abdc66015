#include "gateway/relay.h"

#include <algorithm>

#include <fmt/format.h>

#include "gateway/forwarding.h"

namespace interlock::gateway {
namespace {

constexpr const char* client_left = "the client has left";

// A stream that was begun: what is on its way from the upstream to the client.
struct Stream {
    Stream(std::shared_ptr<Flight> its_flight, std::unique_ptr<net::HttpExchange> its_exchange, KeepText keep_text)
        : flight(std::move(its_flight)),
          exchange(std::move(its_exchange)),
          meter(flight->route.operation, flight->edits().include_usage, keep_text) {}

    std::shared_ptr<Flight> flight;
    std::unique_ptr<net::HttpExchange> exchange;
    StreamMeter meter;
    std::string kept = {};  // For the cache.
    bool too_large_to_keep = false;

    std::string_view pass(std::string_view piece) { return keep(meter.feed(piece)); }
    std::string_view finish() { return keep(meter.finish()); }

 private:
    std::string_view keep(std::string_view out) {
        if (!flight->cache_name.empty() && !too_large_to_keep) {
            too_large_to_keep = kept.size() + out.size() > ResponseCache::answer_bytes_max;
            if (!too_large_to_keep) kept.append(out);
        }
        return out;
    }
};

void keep_answer(const Flight& flight, std::string_view content_type, std::string body, bool streamed) {
    flight.shared.cache.put(flight.cache_name, {std::string(content_type), std::move(body), streamed},
                            flight.now() + std::chrono::seconds(flight.cache_ttl_s));
}

// The answer has ended, or has to be taken for ended.
void end_stream(Stream& stream, const std::string& failure) {
    Flight& flight = *stream.flight;
    const Metered& metered = stream.meter.metered();
    const bool whole = failure.empty() && stream.meter.ended() && metered.reported && metered.finish != "error" &&
                       metered.finish != "failed";
    // Some say what was used with every piece: of a stream that broke off that is not the last word.
    failure.empty() || stream.meter.ended() ? flight.settle(metered) : flight.settle_unknown(metered);
    if (failure.empty() || failure == client_left) {
        flight.shared.fleet.succeeded(flight.caller.org, *flight.upstream, flight.shared.now(), flight.took());
    } else {
        flight.shared.fleet.failed(flight.caller.org, *flight.upstream, failure, flight.now(), flight.shared.now());
    }
    const bool cut_short = flight.output_changed && flight.ask.output_max;  // By a budget that was nearly used up.
    if (whole && !cut_short && !flight.cache_name.empty() && !stream.too_large_to_keep) {
        keep_answer(flight, content_type_from(stream.exchange->header("content-type")), std::move(stream.kept), true);
    }
    flight.keep_turn(metered);
    flight.finish(200, failure.empty() ? metered.finish : failure);
}

// Numbered by who may wait in it: (1) the client takes what there is, (2) the upstream has more.
net::Task<void> pump(std::shared_ptr<Stream> stream, net::StreamWriter& writer) {
    Flight& flight = *stream->flight;
    const GatewaySettings& settings = flight.settings();
    const auto total = std::chrono::milliseconds(flight.upstream->total_timeout_ms);
    net::SteadyTime deadline = flight.began + total;
    std::int64_t unread_bytes_max = settings.drain_bytes;
    bool client_is_there = true;
    std::string failure;

    while (failure.empty()) {
        const auto piece = co_await stream->exchange->read();
        if (!piece) {
            failure = "the upstream's answer broke off: " + piece.error().detail;
            break;
        }
        if (piece->empty()) break;
        const std::string_view out = stream->pass(*piece);
        if (client_is_there && !out.empty()) {
            client_is_there = co_await writer.write(out);
            // From here on nobody listens. What was asked for is paid for, so it is still worth knowing how much.
            if (!client_is_there) {
                deadline = std::min(deadline, flight.now() + std::chrono::seconds(settings.drain_s));
            }
        }
        if (!client_is_there) unread_bytes_max -= static_cast<std::int64_t>(piece->size());
        if (flight.now() > deadline) failure = client_is_there ? "the upstream took too long" : client_left;
        if (unread_bytes_max < 0) failure = client_left;
    }
    const bool between_events = stream->meter.between_events();
    std::string rest(stream->finish());
    if (failure.empty() && !stream->meter.ended() && !stream->meter.metered().reported) {
        failure = "the upstream's answer ended early";
    }
    if (!failure.empty()) rest.clear();  // Half an event is no use to anybody.
    end_stream(*stream, failure);
    stream->exchange.reset();
    if (client_is_there && !rest.empty()) client_is_there = co_await writer.write(rest);
    // A client that sees a stream break off asks again, and pays again.
    if (failure.empty() || !client_is_there) co_return;
    const std::string words =
        (between_events ? "" : "\n\n") + last_words(flight.route.operation, "upstream_failed", failure);
    co_await writer.write(words);
}

net::Response response_of(const Flight& flight, const net::HttpExchange& exchange) {
    net::Response response{.status = exchange.status,
                           .content_type = content_type_from(exchange.header("content-type")),
                           .headers = headers_from(exchange.headers),
                           .inert = true};
    add_own_headers(flight, response);
    return response;
}

net::Task<Relayed> relay_stream(std::shared_ptr<Flight> flight, std::unique_ptr<net::HttpExchange> exchange) {
    const KeepText keep = flight->wants_words() ? KeepText::yes : KeepText::no;
    auto stream = std::make_shared<Stream>(flight, std::move(exchange), keep);
    // The first piece decides whether there is an answer: until it is there, somebody else can be asked.
    const auto first = co_await stream->exchange->read();
    if (!first) co_return Relayed{.failure = first.error()};

    flight->first_byte_at = flight->now();
    flight->row.first_byte_us = flight->elapsed_us();
    flight->row.streamed = true;
    // Nobody else will be asked; a slow stream need not keep what is in memory of its request.
    std::string().swap(flight->request.body);
    net::Response response = response_of(*flight, *stream->exchange);
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
bool is_stream(const Flight& flight, const net::HttpExchange& exchange) {
    return exchange.header("content-type").starts_with("text/event-stream") || flight.route.stream;
}

}  // namespace

net::Task<Relayed> relay(std::shared_ptr<Flight> flight, std::unique_ptr<net::HttpExchange> exchange) {
    // While the request is still there: what of it is to be kept.
    if (flight->wants_words()) {
        flight->new_words = co_await read_off_io(flight->shared, flight->request.body.size(), [flight] {
            return new_messages(flight->route, flight->request.body, kept_text_bytes_max);
        });
    }
    if (is_stream(*flight, *exchange)) {
        co_return co_await relay_stream(std::move(flight), std::move(exchange));
    }
    const auto total = std::chrono::milliseconds(flight->upstream->total_timeout_ms);
    auto body = co_await read_body(*exchange, flight->began + total);
    if (!body) co_return Relayed{.failure = body.error(), .begun = true};

    const KeepText keep = flight->wants_words() ? KeepText::yes : KeepText::no;
    const auto whole = std::make_shared<std::string>(std::move(*body));
    const Metered metered = co_await read_off_io(flight->shared, whole->size(), [flight, whole, keep] {
        return read_usage(flight->route.operation, *whole, keep);
    });
    flight->row.first_byte_us = flight->elapsed_us();
    flight->settle(metered);
    flight->shared.fleet.succeeded(flight->caller.org, *flight->upstream, flight->shared.now(), flight->took());
    flight->keep_turn(metered);
    net::Response response = response_of(*flight, *exchange);
    response.headers.push_back({"x-interlock-cost", to_text(Money::nanos(flight->row.cost))});
    const bool cut_short = flight->output_changed && flight->ask.output_max;
    if (metered.reported && !cut_short && !flight->cache_name.empty())
        keep_answer(*flight, response.content_type, *whole, false);
    response.body = std::move(*whole);
    flight->finish(response.status, metered.finish);
    co_return Relayed{.response = std::move(response)};
}

net::Task<Relayed> read_whole(std::shared_ptr<Flight> flight, std::unique_ptr<net::HttpExchange> exchange) {
    const auto total = std::chrono::milliseconds(flight->upstream->total_timeout_ms);
    auto body = co_await read_body(*exchange, flight->began + total);
    if (!body) co_return Relayed{.failure = body.error()};
    net::Response response = response_of(*flight, *exchange);
    response.body = std::move(*body);
    co_return Relayed{.response = std::move(response)};
}

void add_own_headers(const Flight& flight, net::Response& response) {
    response.headers.push_back({"x-interlock-call", flight.call_id()});
    if (flight.upstream != nullptr) response.headers.push_back({"x-interlock-upstream", flight.upstream->name});
    if (flight.row.attempts > 1) {
        response.headers.push_back({"x-interlock-attempts", std::to_string(flight.row.attempts)});
    }
    if (flight.output_changed) {
        response.headers.push_back({"x-interlock-max-output-tokens", std::to_string(flight.output_max)});
    }
    if (flight.held.left >= 0) {
        // Once the call is settled, what it held and did not use is there again.
        const std::int64_t back = flight.is_held() ? 0 : flight.held.bound.usd - flight.row.cost;
        response.headers.push_back(
            {"x-interlock-budget-left", to_text(Money::nanos(std::max<std::int64_t>(0, flight.held.left + back)))});
    }
    // Ours are the tighter ones, or there are none.
    if (flight.rates.requests || flight.rates.tokens) {
        std::erase_if(response.headers,
                      [](const net::Header& header) { return header.name.starts_with("x-ratelimit-"); });
    }
    add_rate_headers(response.headers, flight.rates);
}

}  // namespace interlock::gateway
