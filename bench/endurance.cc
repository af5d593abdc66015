#include "bench/endurance.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "bench/driver.h"
#include "bench/loop_clock.h"
#include "bench/ours.h"
#include "bench/place.h"
#include "engine/embedded.h"

extern char** environ;

namespace interlock::bench {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t filling_clients = 1024;
constexpr std::size_t agent_count = 1000;
constexpr std::uint64_t events_before_kill = 1'000'000;

// A child of this very program. It is killed, if it still lives, when this goes.
class Child {
 public:
    Child(const std::string& part, const Settings& settings) {
        int ends[2] = {-1, -1};
        if (pipe2(ends, O_CLOEXEC) != 0) return;
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);

        std::vector<std::string> words = {"bench_main",
                                          "--child",
                                          part,
                                          "--dir",
                                          settings.directory.string(),
                                          "--events",
                                          std::to_string(settings.events),
                                          "--seconds",
                                          fmt::format("{}", settings.seconds),
                                          "--rounds",
                                          std::to_string(settings.rounds)};
        std::vector<char*> arguments;
        for (std::string& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        if (posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ) != 0) pid_ = -1;
        posix_spawn_file_actions_destroy(&actions);
        ::close(ends[1]);
        out_ = fdopen(ends[0], "r");
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() {
        kill_and_wait();
        if (out_ != nullptr) std::fclose(out_);
    }

    // The next finding; empty when the child has no more to say.
    std::optional<std::pair<std::string, double>> next() {
        char name[64];
        double value = 0;
        if (out_ == nullptr || std::fscanf(out_, "%63s %lf", name, &value) != 2) return std::nullopt;
        return std::pair(std::string(name), value);
    }

    std::map<std::string, double> all() {
        std::map<std::string, double> findings;
        while (const auto finding = next()) findings.insert(*finding);
        return findings;
    }

    bool ended_well() {
        int status = -1;
        const bool waited = pid_ > 0 && waitpid(pid_, &status, 0) == pid_;
        pid_ = -1;
        return waited && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }

    void kill_and_wait() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }

 private:
    pid_t pid_ = -1;
    std::FILE* out_ = nullptr;
};

void tell(const char* name, double value) {
    fmt::print("{} {:.6f}\n", name, value);
    std::fflush(stdout);
}

// The most memory this process has had in use so far.
double peak_megabytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        if (double kilobytes = 0; word == "VmHWM:" && status >> kilobytes) return kilobytes / 1024;
    }
    return 0;
}

int give_up(const std::string& problem) {
    fmt::print(stderr, "bench_main: {}\n", problem);
    return 1;
}

// A store with its clients, filled by the clients themselves: through the engine, as in life.
struct Filled {
    std::unique_ptr<Workload> load = charges("charge, 1000 agents", agent_count);
    std::unique_ptr<Ours> ours;
    std::string problem;

    Filled(const fs::path& directory, Ids& ids) {
        ours = Ours::open(directory.string(), ids, problem);
        if (ours != nullptr && run_once(*ours, load->setup(ids), ids) > 0) problem = "the setup was refused";
    }

    LoopResult run(Ids& ids, double seconds, std::uint64_t commands_max = UINT64_MAX) {
        const LoopResult result =
            run_loop(*ours, *load, ids, {.clients = filling_clients, .seconds = seconds, .commands_max = commands_max});
        if (result.refused > 0) problem = fmt::format("{} charges were refused", result.refused);
        return result;
    }
};

constexpr double no_end = 86'400;

int flat_cost_child(const Settings& settings) {
    Ids ids;
    Filled full(settings.directory / "full", ids);
    if (!full.problem.empty()) return give_up(full.problem);

    const auto begun = Clock::now();
    const LoopResult filled = full.run(ids, no_end, settings.events);
    tell("fill_rate", static_cast<double>(filled.answered) / seconds_since(begun));
    tell("events", static_cast<double>(filled.answered));
    tell("peak_mb", peak_megabytes());  // Before there is a second store in this process.
    tell("store_bytes", static_cast<double>(bytes_in(settings.directory / "full")));

    std::vector<double> empty_rates;
    std::vector<double> full_rates;
    for (int round = 0; round < settings.rounds; ++round) {
        const fs::path directory = settings.directory / fmt::format("empty-{}", round);
        {
            Filled empty(directory, ids);
            if (!empty.problem.empty()) return give_up(empty.problem);
            empty_rates.push_back(empty.run(ids, settings.seconds).rate());
        }
        fs::remove_all(directory);
        full_rates.push_back(full.run(ids, settings.seconds).rate());
    }
    tell("empty_rate", median(empty_rates));
    tell("full_rate", median(full_rates));

    std::vector<std::string> problems;
    check_rows(*full.ours, *full.load, problems);
    if (!full.problem.empty()) problems.push_back(full.problem);
    for (const std::string& problem : problems) give_up(problem);
    return problems.empty() ? 0 : 1;
}

// Fills the store, says so, and goes on charging until it is killed.
int fill_child(const Settings& settings) {
    Ids ids;
    Filled full(settings.directory / "killed", ids);
    if (!full.problem.empty()) return give_up(full.problem);
    const LoopResult filled = full.run(ids, no_end, events_before_kill);
    tell("events", static_cast<double>(filled.answered));
    full.run(ids, no_end);
    return 1;
}

int open_child(const Settings& settings) {
    const auto begun = Clock::now();
    auto opened = engine::Embedded::open(
        {.directory = (settings.directory / "killed").string(), .engine = {}, .ask_timeout = std::chrono::seconds(30)});
    const double open_ms = seconds_since(begun) * 1e3;
    if (!opened) return give_up(opened.error().detail);
    engine::Embedded& interlock = **opened;

    core::Charge charge;
    charge.who.agent = "agent-0000";
    charge.cost = Money::nanos(750'000);
    const auto answer = interlock.ask({.org = {}, .key = {}, .body = charge});
    const double charged_ms = seconds_since(begun) * 1e3;
    const auto* reply = answer ? std::get_if<core::ChargeReply>(&answer->reply) : nullptr;
    if (reply == nullptr || reply->status != core::ChargeStatus::charged) return give_up("the first charge failed");

    const auto rows = interlock.store().snapshot();
    if (!rows) return give_up(rows.error().detail);
    tell("open_ms", open_ms);
    tell("charged_ms", charged_ms);
    tell("events", static_cast<double>(read_number(**rows, "select count(*) from cost_events")));
    return 0;
}

}  // namespace

void measure_flat_cost(Report& report, Progress& progress, const Settings& settings) {
    progress.show(fmt::format("flat cost: filling a store with {} events", settings.events));
    Child child("flat", settings);
    const auto found = child.all();
    if (!child.ended_well() || !found.contains("full_rate")) {
        report.problems.emplace_back("flat cost: the filling process failed");
        return;
    }
    const auto value = [&](const char* name) { return found.at(name); };
    report.facts.push_back({"flat cost: events in the full store", value("events"), ""});
    report.facts.push_back({"flat cost: filled at", value("fill_rate"), "charges/s"});
    report.facts.push_back({"flat cost: size of the store", value("store_bytes") / 1e6, "MB"});
    report.facts.push_back({"flat cost: bytes per event", value("store_bytes") / value("events"), ""});
    report.facts.push_back({"flat cost: rate of an empty store", value("empty_rate"), "charges/s"});
    report.facts.push_back({"flat cost: rate of the full store", value("full_rate"), "charges/s"});
    report.goals.push_back(
        {"flat cost: full by empty", 0.7, value("full_rate") / value("empty_rate"), Sense::at_least, "x"});
    report.goals.push_back({"flat cost: most memory used", 256, value("peak_mb"), Sense::at_most, "MB"});
    std::error_code ignored;
    fs::remove_all(settings.directory / "full", ignored);
}

void measure_open_after_kill(Report& report, Progress& progress, const Settings& settings) {
    progress.show(fmt::format("open after kill -9: filling a store with {} events", events_before_kill));
    double events = 0;
    {
        Child filling("fill", settings);
        if (const auto filled = filling.next()) events = filled->second;
        std::this_thread::sleep_for(std::chrono::milliseconds(300));  // So that it is killed at work.
        filling.kill_and_wait();
    }
    progress.show("open after kill -9: opening");
    Child opening("open", settings);
    const auto found = opening.all();
    if (!opening.ended_well() || !found.contains("events") || events < static_cast<double>(events_before_kill)) {
        report.problems.emplace_back("open after kill -9: the store could not be filled or opened");
        return;
    }
    if (found.at("events") <= events) {
        report.problems.push_back(fmt::format("open after kill -9: {:.0f} events were answered, {:.0f} are there",
                                              events, found.at("events") - 1));
    }
    report.facts.push_back({"open after kill -9: events in the store", found.at("events"), ""});
    report.facts.push_back({"open after kill -9: to the first charge", found.at("charged_ms"), "ms"});
    report.goals.push_back({"open after kill -9", 1, found.at("open_ms") * 1e-3, Sense::at_most, "s"});
    std::error_code ignored;
    fs::remove_all(settings.directory / "killed", ignored);
}

int run_child(const std::string& part, const Settings& settings) {
    if (part == "flat") return flat_cost_child(settings);
    if (part == "fill") return fill_child(settings);
    if (part == "open") return open_child(settings);
    return give_up("there is no part " + part);
}

}  // namespace interlock::bench
