// The benchmarks: how fast, beside what else, and whether it stays that way. RESULTS.md has recorded runs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/endurance.h"
#include "bench/measure.h"
#include "bench/place.h"
#include "bench/report.h"
#include "bench/workload.h"

namespace interlock::bench {

namespace {

constexpr std::size_t many_agents = 1000;
constexpr std::size_t few_agents = 10;  // Making a budget is a commit of its own, which a smoke test has no time for.
constexpr std::size_t kilobyte = 1024;

struct Part {
    std::string name;
    MakeWorkload make;
    Peers peers = Peers::hidden;
};

std::vector<Part> parts(std::size_t many) {
    return {
        {"charge", [] { return charges("charge, one budget", 1); }, Peers::shown},
        {"spread", [=] { return charges(fmt::format("charge, {} agents", many), many); }},
        {"holds", [=] { return holds_and_settles(many); }},
        {"session", [] { return appends("append, 1 session", 1, kilobyte); }},
        {"sessions", [=] { return appends(fmt::format("append, {} sessions", many), many, kilobyte); }},
        {"runs", [=] { return runs(many); }},
    };
}

struct Options {
    Settings settings;
    std::string parent = ".";
    std::vector<std::string> only;
    std::string child;
    bool quick = false;
    bool smoke = false;
    bool json = false;

    bool wants(std::string_view name) const { return only.empty() || std::ranges::find(only, name) != only.end(); }
};

void add_goals(Report& report) {
    const auto row_of = [&](std::size_t clients) {
        return std::ranges::find_if(report.rows, [&](const Row& row) {
            return row.name == "charge, one budget" && row.clients == clients && row.times_log > 0;
        });
    };
    using Wanted = std::pair<std::size_t, double>;
    for (const auto& [clients, wanted] : {Wanted(256, 25), Wanted(1024, 50)}) {
        if (const auto row = row_of(clients); row != report.rows.end()) {
            report.goals.push_back({fmt::format("charges by the naive program, {} clients", clients), wanted,
                                    row->times_naive, Sense::at_least, "x"});
        }
    }
    for (const auto& [clients, wanted] : {Wanted(256, 0.2), Wanted(1024, 0.35)}) {
        if (const auto row = row_of(clients); row != report.rows.end()) {
            report.goals.push_back({fmt::format("charges by the bare log, {} clients", clients), wanted, row->times_log,
                                    Sense::at_least, "x"});
        }
    }
    for (const Row& row : report.rows) {
        if (row.clients > 256 || row.peer || row.p50_ms <= 0) continue;
        report.goals.push_back({fmt::format("p99 by p50: {}, {} clients", row.name, row.clients), 4,
                                row.p99_ms / row.p50_ms, Sense::at_most, "x"});
    }
}

int run(Options options) {
    if (!options.child.empty()) return run_child(options.child, options.settings);

    std::string problem;
    const auto scratch = ScratchDirectory::make(options.parent, problem);
    if (!scratch) {
        fmt::print(stderr, "bench_main: {}\n", problem);
        return 1;
    }
    Settings& settings = options.settings;
    settings.directory = scratch->path();

    Report report;
    report.cores = std::thread::hardware_concurrency();
    report.file_system = file_system_of(scratch->path());
    report.sync_ms = measure_sync_ms(scratch->path()).value_or(0);
    Progress progress;
    for (const Part& part : parts(options.smoke ? few_agents : many_agents)) {
        if (options.wants(part.name)) measure(report, progress, settings, part.make, part.peers);
    }
    if (!options.smoke) {
        add_goals(report);
        if (options.wants("flat")) measure_flat_cost(report, progress, settings);
        if (options.wants("open")) measure_open_after_kill(report, progress, settings);
    }
    progress.clear();
    fmt::print("{}", options.json ? as_json(report) : as_text(report));
    return report.problems.empty() ? 0 : 1;
}

}  // namespace

}  // namespace interlock::bench

int main(int argc, char** argv) {
    using namespace interlock::bench;
    Options options;
    Settings& settings = options.settings;
    CLI::App app(
        "Benchmarks. Every rate stands beside a peer's, measured in the same minutes; a missed goal is marked, and"
        " does not fail the run. Rows that disagree with the answers do.");
    std::vector<std::string> names = {"flat", "open"};
    for (const Part& part : parts(many_agents)) names.push_back(part.name);
    app.add_flag("--quick", options.quick, "Fewer clients, shorter, a smaller store: about half a minute");
    app.add_option("--only", options.only, "Only this part; may be repeated")->check(CLI::IsMember(names));
    auto* seconds = app.add_option("--seconds", settings.seconds, "Of each measurement")->check(CLI::PositiveNumber);
    app.add_option("--commands", settings.commands, "End a measurement after so many commands")
        ->check(CLI::PositiveNumber);
    app.add_flag("--in-step", settings.in_step,
                 "Submit the clients' commands all at once, so that batches are equal: for counting instructions");
    auto* rounds = app.add_option("--rounds", settings.rounds, "Of each measurement")->check(CLI::Range(1, 100));
    auto* clients = app.add_option("--clients", settings.clients, "In place of 1, 16, 64, 256 and 1024")
                        ->check(CLI::Range(1, 16'384));
    auto* events =
        app.add_option("--events", settings.events, "How many make a large store")->check(CLI::PositiveNumber);
    app.add_option("--dir", options.parent, "Where to write; a disk, not memory")->capture_default_str();
    app.add_flag("--alone", settings.alone, "Without the naive program and the bare log");
    app.add_flag("--json", options.json, "One JSON object in place of the table");
    app.add_flag("--smoke", options.smoke, "Only checks, in a second, that what was answered is what was committed");
    app.add_option("--child", options.child)->group("");
    CLI11_PARSE(app, argc, argv);

    if (options.smoke) {
        settings.clients = {16};
        settings.seconds = 0.05;
        settings.rounds = 1;
    } else {
        if (clients->empty()) {
            settings.clients = options.quick ? std::vector<std::size_t>{16, 256, 1024}
                                             : std::vector<std::size_t>{1, 16, 64, 256, 1024};
        }
        if (options.quick && seconds->empty()) settings.seconds = 0.3;
        if (options.quick && rounds->empty()) settings.rounds = 1;
        if (options.quick && events->empty()) settings.events = 1'000'000;
    }
    if (!options.child.empty()) settings.directory = options.parent;
    return run(std::move(options));
}
