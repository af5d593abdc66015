// A model provider that costs nothing: speaks OpenAI's, Anthropic's and Gemini's language, says words that mean
// nothing, and bills what it is told to. For trying things out, for tests, and for benchmarks.
//
//   (1) What it bills follows from the request alone: ceil(bytes of text / 4) tokens of input, 16 of output, never more
//       than the request's cap; or what the request's directives say (simulated_script.h).
//   (2) What its books say (Options::books) is what it bills, whether or not the client gets to hear of it.
//   (3) Any number of requests at a time, from any thread. There is no state beside counters.
//
// It keeps no conversation, reads no image, and draws no random number.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "gateway/simulated_answer.h"
#include "gateway/simulated_ask.h"
#include "gateway/simulated_script.h"
#include "net/http.h"
#include "net/notifier.h"

namespace interlock::gateway {

struct SimulatedUpstreamOptions {
    Script script = {};    // What a request that says nothing gets.
    std::string key = {};  // When set, requests must carry it.
    // One JSON line per request, newline included, before it is answered. Called from any thread.
    std::function<void(std::string_view)> books = {};
    std::size_t fail_keys_max = 100'000;
};

class SimulatedUpstream {
 public:
    using Options = SimulatedUpstreamOptions;

    explicit SimulatedUpstream(Options options) : options_(std::move(options)) {}
    SimulatedUpstream(const SimulatedUpstream&) = delete;
    SimulatedUpstream& operator=(const SimulatedUpstream&) = delete;

    // A net::Handler. Lives as long as its answers, streams included.
    net::Task<net::Response> answer(net::Request request);

 private:
    struct Plan;
    struct Failure;

    Result<Plan, Failure> plan(net::Request& request, std::uint64_t number);
    Result<Script, Failure> script_of(const net::Request& request, const SimulatedAsk& ask);
    Result<void, Failure> let_fail(const Script& script);
    bool has_key(const net::Request& request) const;
    void write_books(const net::Request& request, std::uint64_t number, const Result<Plan, Failure>& planned) const;
    net::Response response_to(const Plan& plan);
    net::Response streamed(const Plan& plan);
    net::Task<void> send(net::StreamWriter& writer, const std::vector<SimulatedPiece>& pieces, const Script& script);

    const Options options_;
    net::Notifier never_;  // Is not rung: it waits for time to pass, or for the server to end.
    std::atomic<std::uint64_t> requests_ = 0;
    std::atomic<std::uint64_t> flaky_requests_ = 0;
    std::mutex mutex_;
    std::map<std::string, std::int64_t, std::less<>> failed_;  // How often, by fail_key.
};

}  // namespace interlock::gateway
