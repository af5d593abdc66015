#include "demo/fleet_play.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "demo/fleet_operator.h"
#include "demo/fleet_worker.h"
#include "engine/clock.h"
#include "net/http_server.h"
#include "server/data_dir.h"
#include "server/ending_signals.h"
#include "server/listen_address.h"
#include "server/server.h"
#include "simulated/upstream.h"

namespace interlock::demo {
namespace {

using namespace std::chrono_literals;

constexpr auto demo_drain_timeout = 3s;

// A provider on this machine that fails while `rests` says so.
class HouseProvider {
 public:
    HouseProvider(const std::atomic<bool>& rests, Log& log)
        : upstream_(simulated::SimulatedUpstreamOptions{}),
          server_(
              net::HttpServerOptions{.threads = 1},
              [this, &rests](net::Request request) -> net::Task<net::Response> {
                  if (rests) return overloaded();
                  return upstream_.answer(std::move(request));
              },
              log) {}

    Result<std::string, std::string> start() {
        const auto port = server_.start();
        if (!port) return fail("the simulated provider cannot listen: " + port.error().detail);
        return fmt::format("http://127.0.0.1:{}", *port);
    }

 private:
    static net::Task<net::Response> overloaded() {
        net::Response response;
        response.status = 529;
        response.content_type = "application/json";
        response.body = R"({"error":{"message":"simulated overload","type":"overloaded_error","code":null}})";
        co_return response;
    }

    simulated::SimulatedUpstream upstream_;
    net::HttpServer server_;
};

std::string greeting(server::Server& server, const DemoOptions& options, const std::string& directory,
                     const cli::CliOutput& terminal);

// Workers and operator, each on a thread of its own, for as long as this lives.
class Threads {
 public:
    explicit Threads(DemoPace& pace) : pace_(pace) {}
    ~Threads() { stop(); }
    void add(std::function<void()> life) { threads_.emplace_back(std::move(life)); }
    void stop() {
        pace_.stop();
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
    }

 private:
    DemoPace& pace_;
    std::vector<std::thread> threads_;
};

// A key that is bound to the agent, as its programs would have one.
Result<std::string, std::string> agent_key(DemoClient& admin, const char* agent) {
    const auto made = admin.post(
        "/v1/keys", {{"scopes", json::array{"agent"}}, {"agent", agent}, {"note", "simulated: the agent's own"}});
    if (!made) return fail(made.error());
    return text_in(*made, "key");
}

}  // namespace

Result<FleetPlay, std::string> play_fleet(const DemoOptions& options, const std::string& directory,
                                          const cli::CliOutput& terminal) {
    const auto address = server::parse_listen(options.listen);
    if (!address) return fail(address.error());
    server::EndingSignals ending({SIGINT, SIGTERM, SIGHUP});
    ::umask(077);  // Whatever is written is the owner's alone.

    // 1. The server, and the providers that its gateway knows beside the built-in ones.
    engine::Clock clock;
    Log log({.level_min = LogLevel::error,
             .clock = [&clock] { return clock.now(); },
             .write = [](std::string_view line) { (void)!::write(STDERR_FILENO, line.data(), line.size()); }});
    std::atomic<bool> house_rests = false;
    const std::atomic<bool> spare_rests = false;
    HouseProvider house(house_rests, log);
    HouseProvider spare(spare_rests, log);
    auto around = make_workspaces(directory);
    if (!around) return fail(around.error());
    for (auto [provider, url] : {std::pair{&house, &around->house_url}, {&spare, &around->spare_url}}) {
        auto started = provider->start();
        if (!started) return fail(started.error());
        *url = std::move(*started);
    }
    server::ServerOptions how;
    how.data_dir = directory;
    if (!address->host.empty()) how.host = address->host;
    how.port = address->port;
    how.simulate_models = true;
    how.node_name = "demo";
    auto server = server::Server::start(std::move(how), log);
    if (!server) return fail(server.error());
    const auto key = (*server)->make_admin_key("of the demo");
    if (!key) return fail(key.error());

    // 2. Everybody, and whatever belongs to them.
    DemoFleet fleet((*server)->url(), *key, options.pace);
    fleet.around = *around;
    DemoClient admin(fleet.url, fleet.admin_key);
    if (auto made = cast(admin, fleet.around); !made) return fail(made.error());
    std::vector<std::unique_ptr<Worker>> workers;
    for (const DemoRole& role : roles()) {
        auto own_key = agent_key(admin, role.agent);
        if (!own_key) return fail(own_key.error());
        workers.push_back(
            std::make_unique<Worker>(fleet, role, std::move(*own_key), static_cast<unsigned>(workers.size())));
    }
    Operator person(fleet, house_rests);
    fmt::print(terminal.out, "{}", greeting(**server, options, directory, terminal));
    std::fflush(terminal.out);

    // 3. Life, until somebody has seen enough.
    Threads threads(fleet.pace);
    threads.add([&person] { person.live(); });
    for (const auto& worker : workers) threads.add([&worker] { worker->live(); });
    options.seconds > 0 ? ending.wait_for(std::chrono::duration<double>(options.seconds)) : void(ending.wait());

    // 4. The end. Runs would outlive the server, as they should elsewhere: so they end first.
    threads.stop();
    FleetPlay play;
    play.all_ended = person.end_processes();
    play.runs = fleet.runs;
    play.calls = fleet.calls;
    play.refused = fleet.refusals;
    play.oddities = fleet.oddities();
    play.first_oddity = fleet.first_oddity();
    (*server)->drain(demo_drain_timeout);
    return play;
}

namespace {

std::string greeting(server::Server& server, const DemoOptions& options, const std::string& directory,
                     const cli::CliOutput& terminal) {
    return fmt::format(
        "{} {}\n\nA simulated fleet is at work there: its agents, models and money are not real, and nothing leaves "
        "this "
        "machine.\n  data      {}\n  again     interlock login --data-dir {}\n{}\n",
        terminal.paint(cli::Style::bold, "Open"), server.login_link(), directory, directory,
        options.seconds > 0 ? fmt::format("It ends after {} s, or with Ctrl-C.", options.seconds) : "Ctrl-C ends it.");
}

}  // namespace
}  // namespace interlock::demo
