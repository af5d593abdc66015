// For tests: one request to a simulated provider without a network, and what came of it.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/simulated_upstream.h"
#include "net/sse.h"

namespace interlock::gateway {

namespace json = boost::json;

// What a client got to see.
struct Heard {
    int status = 0;
    std::string content_type;
    std::vector<net::Header> headers;
    std::string body;
    std::vector<std::string> writes;  // Of a stream.
    bool cut = false;
    std::chrono::steady_clock::duration took{};

    json::value json() const { return json::parse(body); }

    // The events of a stream, each with its name and its data.
    std::vector<net::SseEvent> events() const {
        std::vector<net::SseEvent> found;
        net::SseParser parser;
        parser.feed(body, [&](const net::SseEvent& event) { return found.push_back(event), true; });
        return found;
    }
    std::vector<std::string> names() const {
        std::vector<std::string> found;
        for (const auto& event : events()) found.push_back(event.event);
        return found;
    }
    // The data of every event that is JSON.
    std::vector<json::value> documents() const {
        std::vector<json::value> found;
        for (const auto& event : events()) {
            if (event.data != "[DONE]") found.push_back(json::parse(event.data));
        }
        return found;
    }
};

class HeardWriter final : public net::StreamWriter {
 public:
    explicit HeardWriter(Heard& heard) : heard_(heard) {}
    net::Task<bool> write(std::string_view bytes) override {
        heard_.writes.emplace_back(bytes);
        heard_.body.append(bytes);
        co_return true;
    }
    bool closed() const override { return false; }
    net::Task<bool> wait(net::Notifier& notifier, std::uint64_t seen, net::SteadyTime deadline) override {
        return notifier.wait(seen, deadline);
    }

 private:
    Heard& heard_;
};

inline net::Task<void> hear(SimulatedUpstream& upstream, net::Request request, Heard& heard) {
    const net::Response response = co_await upstream.answer(std::move(request));
    heard.status = response.status;
    heard.content_type = response.content_type;
    heard.headers = response.headers;
    heard.body = response.body;
    if (!response.stream) co_return;
    HeardWriter writer(heard);
    try {
        co_await response.stream(writer);
    } catch (const net::StreamCut&) {
        heard.cut = true;
    }
}

class SimulatedUpstreamTest : public testing::Test {
 protected:
    explicit SimulatedUpstreamTest(SimulatedUpstreamOptions options = {}) : upstream(with_books(std::move(options))) {}

    Heard ask(net::Method method, const std::string& target, std::string body = {},
              std::vector<net::Header> headers = {}) {
        net::Request request;
        request.method = method;
        request.target = target;
        const auto question = target.find('?');
        request.path = target.substr(0, question);
        if (question != std::string::npos) request.query = target.substr(question + 1);
        request.headers = std::move(headers);
        request.body = std::move(body);

        Heard heard;
        const auto begun = std::chrono::steady_clock::now();
        boost::asio::io_context context;
        boost::asio::co_spawn(context, hear(upstream, std::move(request), heard), [](std::exception_ptr error) {
            if (error) std::rethrow_exception(error);
        });
        context.run();
        heard.took = std::chrono::steady_clock::now() - begun;
        return heard;
    }
    Heard post(const std::string& target, std::string body, const std::string& script = {}) {
        if (script.empty()) return ask(net::Method::post, target, std::move(body));
        return ask(net::Method::post, target, std::move(body), {{"x-sim", script}});
    }
    Heard get(const std::string& target, std::vector<net::Header> headers = {}) {
        return ask(net::Method::get, target, {}, std::move(headers));
    }
    json::value last_line() const {
        EXPECT_FALSE(lines.empty());
        return lines.empty() ? json::value() : json::parse(lines.back());
    }

    std::vector<std::string> lines;  // Of the books.
    SimulatedUpstream upstream;

 private:
    SimulatedUpstreamOptions with_books(SimulatedUpstreamOptions options) {
        options.books = [this](std::string_view line) { lines.emplace_back(line); };
        return options;
    }
};

// "a/0/b" in a document.
inline const json::value& at(const json::value& document, std::string_view pointer) {
    return document.at_pointer("/" + std::string(pointer));
}
inline std::int64_t number_at(const json::value& document, std::string_view pointer) {
    return at(document, pointer).to_number<std::int64_t>();
}
inline std::string text_at(const json::value& document, std::string_view pointer) {
    return std::string(at(document, pointer).as_string());
}
inline std::string header_of(const Heard& heard, std::string_view name) {
    return std::string(net::find_header(heard.headers, name));
}

}  // namespace interlock::gateway
