// The simulator for people: tells one story, or as many as one likes, and says what they found.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include "sim/story.h"
#include "sim/supervised_story.h"

namespace {

using namespace interlock::sim;

struct Options {
    std::uint64_t seed = 0;  // One story.
    std::uint64_t seeds = 0;
    std::uint64_t from = 1;
    std::uint64_t commands = StoryOptions{}.commands;
    std::uint64_t commands_total = 0;
    double seconds = 0;
    unsigned threads = 2;
    std::uint32_t nodes = 0;
    bool trace = false;
    bool supervised = false;  // Supervised stories alone.
};

struct Totals {
    std::uint64_t stories = 0;
    std::uint64_t commands = 0;
    std::uint64_t violations = 0;
    std::uint64_t broken_stories = 0;
    Troubles troubles;
    std::uint64_t supervised_stories = 0;
    std::uint64_t processes = 0;  // Of their runs.
    std::uint64_t restarts = 0;   // Of their servers.
    double cpu_seconds = 0;
};

constexpr std::uint64_t broken_stories_max = 10;  // By then it is clear that something is wrong.

// A contradiction inside the engine ends the process. Then at least the seeds of the stories being told are known.
constexpr std::size_t threads_max = 64;
constexpr std::uint32_t nodes_max = 9;
std::atomic<std::uint64_t> seed_of_thread[threads_max];

void say_seeds(int) {
    const auto say = [](const char* text) {
        [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
    };
    for (const auto& seed : seed_of_thread) {
        if (seed == 0) continue;
        char digits[24];
        char* at = digits + sizeof digits - 1;
        *at = '\0';
        for (std::uint64_t rest = seed; rest > 0; rest /= 10) *--at = static_cast<char>('0' + rest % 10);
        say("sim: died in one of these stories; to see it again: ./dev sim --seed ");
        say(at);
        say("\n");
    }
    std::signal(SIGABRT, SIG_DFL);
    std::abort();
}

double thread_cpu_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void add(Totals& totals, const StoryResult& result) {
    totals.stories += 1;
    totals.commands += result.commands;
    totals.violations += result.violation_count;
    totals.broken_stories += result.violation_count > 0;
    boost::mp11::mp_for_each<boost::describe::describe_members<Troubles, boost::describe::mod_any_access>>(
        [&](auto member) { totals.troubles.*member.pointer += result.troubles.*member.pointer; });
}

void add(Totals& totals, const SupervisedResult& result) {
    totals.supervised_stories += 1;
    totals.processes += result.began;
    totals.restarts += result.restarts;
    totals.violations += result.violation_count;
    totals.broken_stories += result.violation_count > 0;
}

void print_summary(const Totals& totals, double wall_seconds) {
    fmt::print("{} stories, {} commands in {:.1f} s; {:.0f} commands/s per core, checking included\n", totals.stories,
               totals.commands, wall_seconds,
               static_cast<double>(totals.commands) / std::max(totals.cpu_seconds, 1e-9));
    fmt::print("troubles:");
    boost::mp11::mp_for_each<boost::describe::describe_members<Troubles, boost::describe::mod_any_access>>(
        [&](auto member) {
            std::string name = member.name;
            std::ranges::replace(name, '_', ' ');
            fmt::print(" {} {},", totals.troubles.*member.pointer, name);
        });
    fmt::print("\n{} supervised stories, {} runs were started, {} restarts of servers\n", totals.supervised_stories,
               totals.processes, totals.restarts);
    fmt::print("{} violations\n", totals.violations);
}

int tell_one(const Options& options) {
    seed_of_thread[0] = options.seed;
    const SupervisedResult supervised =
        tell_supervised_story({.seed = options.seed, .trace = options.supervised && options.trace});
    fmt::print("seed {}: supervised story of {} steps, {} runs were started, {} restarts of servers\n", options.seed,
               supervised.steps, supervised.began, supervised.restarts);
    if (supervised.violation_count > 0) fmt::print("{}", describe_violations(supervised));
    if (options.supervised) {
        fmt::print("{} violations\n", supervised.violation_count);
        return supervised.violation_count > 0 ? 1 : 0;
    }
    const StoryResult result = tell_story({.seed = options.seed,
                                           .commands = options.commands,
                                           .trace = options.trace,
                                           .nodes = options.nodes,
                                           .halfway = {}});
    fmt::print("seed {}: {} commands in {} steps, answers hash to {:016x}\n  {}\n", result.seed, result.commands,
               result.steps, result.hash, result.profile);
    if (result.violation_count > 0) fmt::print("{}", describe_violations(result));
    const std::uint64_t violations = result.violation_count + supervised.violation_count;
    fmt::print("{} violations\n", violations);
    return violations > 0 ? 1 : 0;
}

int tell_many(const Options& options) {
    using Clock = std::chrono::steady_clock;
    const auto begun = Clock::now();
    const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begun).count(); };
    const bool terminal = isatty(STDOUT_FILENO) == 1;

    std::mutex mutex;
    Totals totals;
    std::uint64_t next_seed = options.from;
    const auto more = [&] {  // With the lock.
        if (totals.broken_stories >= broken_stories_max) return false;
        if (options.seconds > 0 && seconds() > options.seconds) return false;
        if (options.commands_total > 0) return totals.commands < options.commands_total;
        return options.seeds == 0 ? options.seconds > 0 : next_seed < options.from + options.seeds;
    };
    const auto work = [&](unsigned thread) {
        std::unique_lock lock(mutex);
        while (more()) {
            const std::uint64_t seed = next_seed++;
            lock.unlock();
            seed_of_thread[thread] = seed;
            const double cpu_before = thread_cpu_seconds();
            const SupervisedResult supervised = tell_supervised_story({.seed = seed});
            StoryResult result;
            if (!options.supervised)
                result = tell_story({.seed = seed,
                                     .commands = options.commands,
                                     .trace = false,
                                     .nodes = options.nodes,
                                     .halfway = {}});
            const double cpu = thread_cpu_seconds() - cpu_before;
            lock.lock();
            if (!options.supervised) add(totals, result);
            add(totals, supervised);
            totals.cpu_seconds += cpu;
            if (supervised.violation_count > 0) {
                fmt::print("{}{}", terminal ? "\r\033[K" : "", describe_violations(supervised));
                std::fflush(stdout);
            }
            if (result.violation_count > 0) {
                fmt::print("{}{}", terminal ? "\r\033[K" : "", describe_violations(result));
                std::fflush(stdout);  // A later story may end the process.
            }
            if (terminal && totals.stories % 16 == 0) {
                fmt::print("\r\033[K{} stories, {} commands, {:.0f} s, {} violations", totals.stories, totals.commands,
                           seconds(), totals.violations);
                std::fflush(stdout);
            }
        }
        seed_of_thread[thread] = 0;
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < options.threads; ++i) threads.emplace_back(work, i);
    for (std::thread& thread : threads) thread.join();

    if (terminal) fmt::print("\r\033[K");
    print_summary(totals, seconds());
    return totals.violations > 0 || totals.supervised_stories == 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Tells stories of many clients, a store that fails and a clock that jumps, and checks every promise.",
                 "sim");
    app.add_option("--seed", options.seed, "tell the one story of this seed")->check(CLI::PositiveNumber);
    app.add_option("--seeds", options.seeds, "how many stories to tell (default 200)");
    app.add_option("--from", options.from, "the first seed")->check(CLI::PositiveNumber)->capture_default_str();
    app.add_option("--commands", options.commands, "commands in a story")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--commands-total", options.commands_total, "tell stories until there were this many commands");
    app.add_option("--seconds", options.seconds, "tell stories for this long at most");
    app.add_option("--threads", options.threads, "stories told at once")
        ->check(CLI::Range(1u, unsigned{threads_max}))
        ->capture_default_str();
    app.add_option("--nodes", options.nodes, "servers in a story (default: as its seed says)")
        ->check(CLI::Range(1u, nodes_max));
    app.add_flag("--trace", options.trace, "with --seed: print everything that happens");
    app.add_flag("--supervised", options.supervised, "tell only of runs and the servers that supervise them");
    CLI11_PARSE(app, argc, argv);
    if (options.supervised && options.commands_total > 0) {
        fmt::print(stderr, "sim: --supervised stories are not counted in commands; use --seeds or --seconds\n");
        return 2;
    }
    if (options.seeds == 0 && options.commands_total == 0 && options.seconds == 0) options.seeds = 200;

    std::signal(SIGABRT, say_seeds);
    return options.seed > 0 ? tell_one(options) : tell_many(options);
}
