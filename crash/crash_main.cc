// The crash tests from the command line: power-loss images, faults of the disk, and kill -9 of a real process.
//
//     crash_main                     everything, the long form
//     crash_main --short images      50,000 images and what the checker must find when something is sabotaged
//     crash_main --replay 7:1234     the images of one point of one history
//
// Ends with a table, and with an exit code that is not 0 when anything was violated, or when something that was broken
// on purpose went unnoticed.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "crash/fault_run.h"
#include "crash/kill_run.h"
#include "crash/power_loss_run.h"

namespace {

using namespace interlock::crash;

// With a sanitizer everything takes many times as long, and finds other things than more of the same.
#if defined(__has_feature) && (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
constexpr unsigned slowness = 50;
#else
constexpr unsigned slowness = 1;
#endif

struct Arguments {
    std::vector<std::string> parts;
    bool short_form = false;
    std::uint64_t images = 0;
    unsigned kills = 0;
    std::uint64_t seed = 1;
    unsigned threads = 2;
    std::string replay;
    WorkerOptions worker;

    bool wants(const std::string& part) const { return parts.empty() || std::ranges::count(parts, part) > 0; }
};

// A line that is written over on a terminal, and left out elsewhere.
class ProgressLine {
 public:
    explicit ProgressLine(std::string what) : what_(std::move(what)) {}
    ~ProgressLine() {
        if (shown_) fmt::print(stderr, "\r\033[K");
    }
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    void show(std::uint64_t done, std::uint64_t all) {
        if (!isatty(STDERR_FILENO)) return;
        shown_ = true;
        const std::size_t width = 30;
        const std::size_t filled = all == 0 ? 0 : static_cast<std::size_t>(done * width / all);
        fmt::print(stderr, "\r\033[K{:<22} [{:=<{}}{:{}}] {} of {}", what_, "", filled, "", width - filled, done, all);
        std::fflush(stderr);
    }

 private:
    std::string what_;
    bool shown_ = false;
};

class Report {
 public:
    void line(std::string_view what, std::string_view how_much, std::uint64_t violations) {
        row(violations == 0 ? "ok" : fmt::format("{} VIOLATED", violations), what, how_much);
        violations_ += violations;
    }
    // Something that was broken on purpose: it is right to find it.
    void control(std::string_view what, std::string_view how_much, std::uint64_t found) {
        row(found > 0 ? fmt::format("found {}", found) : "NOT NOTICED", what, how_much);
        if (found == 0) ++violations_;
    }
    void note(std::string_view what, std::string_view how_much) { row("", what, how_much); }
    void examples(const std::vector<std::string>& texts) {
        for (const std::string& text : texts) fmt::print("    {}\n", text);
        std::fflush(stdout);
    }
    int exit_code() const {
        fmt::print("{}\n", violations_ == 0 ? "No violations." : fmt::format("{} violations.", violations_));
        return violations_ == 0 ? 0 : 1;
    }

 private:
    static void row(std::string_view verdict, std::string_view what, std::string_view how_much) {
        fmt::print("{:<14}{:<48}{}\n", verdict, what, how_much);
        std::fflush(stdout);
    }

    std::uint64_t violations_ = 0;
};

void lose_power(const Arguments& arguments, Report& report) {
    const std::uint64_t images = arguments.images != 0  ? arguments.images
                                 : arguments.short_form ? 50'000 / slowness
                                                        : 400'000;
    Tally tally;
    {
        ProgressLine line("power-loss images");
        tally = run_power_losses({.images_max = images,
                                  .seed = arguments.seed,
                                  .threads = arguments.threads,
                                  .progress = [&](std::uint64_t done) { line.show(done, images); }});
    }
    report.line(
        "power lost",
        fmt::format("{} images at {} points of {} histories", tally.all_images(), tally.points, tally.histories),
        tally.violations());
    for (std::size_t i = 0; i < loss_kinds; ++i) {
        report.note(fmt::format("  un-synced data {}", to_text(static_cast<Loss>(i))),
                    fmt::format("{} images", tally.images[i]));
    }
    report.note("  verified, and everything asked again", fmt::format("{} images", tally.deep));
    report.note("  power lost again while opening", fmt::format("{} images", tally.twice));
    report.examples(tally.examples);
}

// A zero is worth what the checker finds when there is something to find.
void sabotage(const Arguments& arguments, Report& report) {
    struct Control {
        Sabotage sabotage;
        std::vector<Wrong> expected;
    };
    const Control controls[] = {
        {Sabotage::synchronous_normal, {Wrong::acknowledged_lost}},
        {Sabotage::synchronous_off, {Wrong::acknowledged_lost, Wrong::not_opened}},
        {Sabotage::counters_apart, {Wrong::counters_disagree}},
        {Sabotage::batch_in_halves, {Wrong::batch_torn}},
    };
    for (const Control& control : controls) {
        const Tally tally = run_power_losses({.images_max = arguments.short_form ? 600u : 6'000u,
                                              .seed = arguments.seed,
                                              .threads = arguments.threads,
                                              .batches = 12,
                                              .after_setup = true,
                                              .sabotage = control.sabotage});
        std::uint64_t found = 0;
        for (const Wrong wrong : control.expected) found += tally.wrong[static_cast<std::size_t>(wrong)];
        report.control(fmt::format("on purpose: {}", to_text(control.sabotage)),
                       fmt::format("{} images", tally.all_images()), found);
        if (found == 0) report.examples(tally.examples);
    }
}

void break_the_disk(const Arguments& arguments, Report& report) {
    FaultTally tally;
    {
        ProgressLine line("faults of the disk");
        tally = run_faults({.seed = arguments.seed,
                            .stride = arguments.short_form ? 16u * slowness : 1u,
                            .threads = arguments.threads,
                            .progress = [&](std::uint64_t done, std::uint64_t all) { line.show(done, all); }});
    }
    report.line("faults of the disk", fmt::format("{} runs, {} of them struck", tally.all_runs(), tally.struck),
                tally.violations);
    for (std::size_t i = 0; i < fault_kinds; ++i) {
        report.note(fmt::format("  {}", to_text(static_cast<FaultKind>(i))), fmt::format("{} runs", tally.runs[i]));
    }
    report.note("  first answers",
                fmt::format("{} done, {} not done, {} unknown", tally.done, tally.not_done, tally.unknown));
    report.examples(tally.examples);
}

void kill_processes(const Arguments& arguments, Report& report) {
    const unsigned kills = arguments.kills != 0 ? arguments.kills : arguments.short_form ? 12 : 100;
    const auto directory = std::filesystem::temp_directory_path() / fmt::format("interlock-crash-{}", getpid());
    const KillOptions options{
        .program = std::filesystem::read_symlink("/proc/self/exe"), .directory = directory, .seed = arguments.seed};
    const auto run = [&](const std::string& what, bool at_system_calls) {
        KillTally tally;
        {
            ProgressLine line(what);
            KillOptions these = options;
            these.kills = kills;
            these.at_system_calls = at_system_calls;
            these.progress = [&](unsigned done) { line.show(done, kills); };
            tally = run_kills(these);
        }
        report.line(what, fmt::format("{} kills", tally.kills), tally.violations);
        report.examples(tally.examples);
        report.note("  of 64 writers on one session", fmt::format("{} kills", tally.session_kills));
        report.note("  acknowledged",
                    fmt::format("{} commands; {} asked again", tally.acknowledged, tally.asked_again));
        return tally.violations == 0;
    };
    bool well = run("kill -9", false);
    if (!arguments.short_form && has_strace()) well = run("kill -9 at the k-th write or sync", true) && well;
    // What was violated can be looked at.
    if (!well) return;
    for (const Forged forged : {Forged::charge, Forged::turn}) {
        KillOptions these = options;
        these.forged = forged;
        these.kills = 1;
        report.control(fmt::format("on purpose: a forged {}", forged == Forged::charge ? "charge" : "turn"), "1 kill",
                       run_kills(these).violations);
    }
    std::filesystem::remove_all(directory);
}

int replay(const Arguments& arguments) {
    const auto colon = arguments.replay.find(':');
    if (colon == std::string::npos) return fmt::print(stderr, "--replay wants SEED:POINT\n"), 2;
    const Tally tally = replay_power_loss({.seed = std::stoull(arguments.replay.substr(0, colon))},
                                          std::stoull(arguments.replay.substr(colon + 1)));
    Report report;
    report.line("replayed", fmt::format("{} images", tally.all_images()), tally.violations());
    report.examples(tally.examples);
    return report.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
    Arguments arguments;
    CLI::App app("Crash tests: power-loss images, faults of the disk, kill -9.");
    app.add_option("parts", arguments.parts, "images, faults, kills; all when none is named")
        ->check(CLI::IsMember({"images", "faults", "kills"}));
    app.add_flag("--short", arguments.short_form, "what the tests run");
    app.add_option("--images", arguments.images, "how many power-loss images");
    app.add_option("--kills", arguments.kills, "how many kills");
    app.add_option("--seed", arguments.seed, "the first seed");
    app.add_option("--threads", arguments.threads, "how many at once")->check(CLI::Range(1, 64));
    app.add_option("--replay", arguments.replay, "SEED:POINT, as a violation names it");
    const std::string internal;  // Not in the help: how the program starts itself.
    app.add_option("--worker", arguments.worker.directory)->group(internal);
    app.add_option("--epoch", arguments.worker.epoch)->group(internal);
    app.add_option("--clients", arguments.worker.clients)->group(internal);
    app.add_option("--commands", arguments.worker.commands_max)->group(internal);
    app.add_flag("--session-only", arguments.worker.session_only)->group(internal);
    CLI11_PARSE(app, argc, argv);

    if (!arguments.worker.directory.empty()) return work_until_killed(arguments.worker);
    if (!arguments.replay.empty()) return replay(arguments);

    Report report;
    if (arguments.wants("images")) {
        lose_power(arguments, report);
        sabotage(arguments, report);
    }
    if (arguments.wants("faults")) break_the_disk(arguments, report);
    if (arguments.wants("kills")) kill_processes(arguments, report);
    return report.exit_code();
}
