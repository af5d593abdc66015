#include "demo/gateway_play.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/money.h"
#include "cli/text.h"
#include "demo/client.h"
#include "engine/clock.h"
#include "server/data_dir.h"
#include "server/server.h"

namespace interlock::demo {
namespace {

using namespace std::chrono_literals;

constexpr int threads_max = 64;
constexpr const char* limit_text = "1.00";

struct DemoCall {
    const char* target;
    const char* body;
};
// One for each way of asking. The output is large, so that a dollar does not last long.
constexpr std::array<DemoCall, 4> demo_calls{
    DemoCall{"/v1/chat/completions",
             R"({"model":"sim/large","max_tokens":4000,"messages":[{"role":"user","content":"[[sim output=300]]"}]})"},
    DemoCall{
        "/v1/messages",
        R"({"model":"sim/large","max_tokens":4000,"stream":true,"messages":[{"role":"user","content":"[[sim output=250 chunks=5]]"}]})"},
    DemoCall{"/v1beta/models/sim/small:generateContent",
             R"({"contents":[{"role":"user","parts":[{"text":"[[sim output=400]]"}]}]})"},
    DemoCall{"/v1/responses", R"({"model":"sim/reasoner","input":"[[sim output=200 reasoning=100]]"})"}};

class DemoCallers {
 public:
    DemoCallers(std::string url, std::string key) : url_(std::move(url)), key_(std::move(key)) {}

    void work(int number);

    std::atomic<bool> stopping = false;
    std::atomic<std::int64_t> calls = 0, refused = 0, failed = 0;
    std::string sentence() const {
        const std::lock_guard lock(mutex_);
        return sentence_;
    }

 private:
    const std::string url_;
    const std::string key_;
    mutable std::mutex mutex_;
    std::string sentence_;
};

// Asks until the budget says no.
void DemoCallers::work(int number) {
    DemoClient client(url_, key_);
    const DemoCall& call = demo_calls[static_cast<std::size_t>(number) % demo_calls.size()];
    const json::value body = parsed(call.body);
    while (!stopping) {
        const auto answer = client.send(net::Method::post, call.target, body,
                                        {{"x-interlock-agent", fmt::format("agent-{}", number % 4)}});
        if (!answer || (answer->status != 200 && answer->status != 402)) {
            ++failed;
            std::this_thread::sleep_for(50ms);
        } else if (answer->status == 402) {
            ++refused;
            const json::value said = parsed(answer->body);
            const std::lock_guard lock(mutex_);
            if (const auto* error = said.is_object() ? said.get_object().if_contains("error") : nullptr) {
                sentence_ = text_in(*error, "message");
            }
            return;
        } else {
            ++calls;
        }
    }
}

}  // namespace

Result<GatewayPlay, std::string> play_gateway(const DemoOptions& options, const std::string& directory,
                                              const cli::CliOutput& terminal) {
    engine::Clock clock;
    Log log({.level_min = LogLevel::error,
             .clock = [&clock] { return clock.now(); },
             .write = [](std::string_view line) { (void)!::write(STDERR_FILENO, line.data(), line.size()); }});
    server::ServerOptions how;
    how.data_dir = directory;
    how.port = 0;
    how.simulate_models = true;
    auto server = server::Server::start(std::move(how), log);
    if (!server) return fail(server.error());
    const auto key = (*server)->make_admin_key("of the demo");
    if (!key) return fail(key.error());

    DemoCallers agents((*server)->url(), *key);
    DemoClient client((*server)->url(), *key);
    for (int i = 0; i < 4; ++i) {
        if (auto made = client.put(fmt::format("/v1/agents/agent-{}", i)); !made) {
            return fail(made.error());
        }
    }
    auto budget = client.put("/v1/budgets/demo", {{"limit", limit_text}, {"window", "total"}});
    if (!budget) return fail(budget.error());

    GatewayPlay play;
    play.limit_nanos = nanos_in(*budget, "limit");
    std::vector<std::thread> threads;
    const int count = std::clamp(options.agents, 1, threads_max);
    for (int i = 0; i < count; ++i) threads.emplace_back([&agents, i] { agents.work(i); });

    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.seconds);
    std::string failure;
    while (failure.empty() && std::chrono::steady_clock::now() < end && agents.refused < count) {
        std::this_thread::sleep_for(100ms);
        const auto now = client.get("/v1/budgets/demo");
        if (!now) failure = now.error();
        if (!now) break;
        const std::int64_t settled = nanos_in(*now, "settled");
        const std::int64_t held = nanos_in(*now, "held");
        play.most_nanos = std::max(play.most_nanos, settled + held);
        if (!terminal.progress) continue;
        fmt::print(terminal.err, "\r\x1b[K{} calls   ${} spent, ${} held of ${}   {} agents refused",
                   cli::count(agents.calls), to_text(Money::nanos(settled)), to_text(Money::nanos(held)), limit_text,
                   agents.refused.load());
        std::fflush(terminal.err);
    }
    if (terminal.progress) fmt::print(terminal.err, "\r\x1b[K");
    agents.stopping = true;
    for (std::thread& thread : threads) thread.join();
    if (!failure.empty()) return fail(failure);

    // The last settlements may be on their way to the disk.
    for (int tries = 0; tries < 50; ++tries) {
        const auto last = client.get("/v1/budgets/demo");
        if (!last) return fail(last.error());
        play.settled_nanos = nanos_in(*last, "settled");
        play.held_nanos = nanos_in(*last, "held");
        if (play.held_nanos == 0) break;
        std::this_thread::sleep_for(20ms);
    }
    play.most_nanos = std::max(play.most_nanos, play.settled_nanos + play.held_nanos);
    play.calls = agents.calls;
    play.refused = agents.refused;
    play.failed = agents.failed;
    play.sentence = agents.sentence();
    (*server)->drain(1s);
    return play;
}

}  // namespace interlock::demo
