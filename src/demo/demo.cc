#include "demo/demo.h"

#include "cli/text.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "demo/agents.h"
#include "demo/fleet_play.h"
#include "demo/gateway_play.h"
#include "demo/link.h"
#include "demo/report.h"
#include "demo/screen.h"
#include "server/data_dir.h"
#include "server/verify_command.h"
#include "store/sqlite_store.h"
#include "verify/verify.h"

namespace interlock::demo {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;

constexpr auto picture_every = 100ms;
constexpr std::size_t pictures_a_second = 10;
constexpr auto dead_for = 700ms;  // Long enough to be seen.
constexpr auto stop_after_max = 30s;
constexpr std::size_t report_columns_max = 100;

// The data directory, which is removed at the end unless somebody wants to keep it.
class DataDirectory {
 public:
    static Result<DataDirectory, std::string> make(const DemoOptions& options);
    ~DataDirectory() {
        std::error_code ignored;
        if (removed_at_end_ && !path_.empty()) fs::remove_all(path_, ignored);
    }
    DataDirectory(DataDirectory&& other) noexcept
        : path_(std::exchange(other.path_, {})), removed_at_end_(other.removed_at_end_) {}

    const std::string& path() const { return path_; }
    bool stays() const { return !removed_at_end_; }

 private:
    DataDirectory(std::string path, bool removed_at_end) : path_(std::move(path)), removed_at_end_(removed_at_end) {}

    std::string path_;
    bool removed_at_end_;
};

// What came of it, before anybody has looked into the store.
struct Played {
    std::string failure;  // Empty: it was played to its end.
    bool interrupted = false;
    DemoBooks books;
    std::optional<KillTally> kill;
};

// The whole play: brings the agents, the engine's process and the screen together, in time.
class Stage {
 public:
    Stage(const DemoOptions& options, const std::string& directory, const cli::CliOutput& terminal);
    Played play();

 private:
    asio::awaitable<void> direct();
    asio::awaitable<void> kill_and_start_again();
    asio::awaitable<void> stop_agents();
    asio::awaitable<void> paint();
    asio::awaitable<void> wait_until(Steady::time_point moment);
    void measure();
    void fail_with(std::string why);
    SceneSeconds elapsed() const { return Steady::now() - began_; }

    const DemoOptions& options_;
    const std::string directory_;
    asio::io_context io_;
    Link link_;
    Agents agents_;
    Screen screen_;
    Scene scene_;
    Steady::time_point began_ = Steady::now();
    std::deque<std::int64_t> answers_;  // At each picture of the last second.
    std::deque<std::int64_t> commits_;
    std::int64_t answers_in_history_ = 0;
    std::size_t pictures_ = 0;
    Played played_;
};

DemoExit report(const Played& played, const std::string& directory, const cli::CliOutput& terminal);

// A server has a key of its own. A program that embeds the library has the key that is not secret.
std::vector<store::SealKey> keys_of(const std::string& directory) {
    auto keys = server::read_seal_keys(directory);
    if (keys.empty()) keys.push_back(store::SealKey::from_text({}));
    return keys;
}

// What the checker finds in the store of a directory, in a few words; empty: nothing.
std::string violations_in(const std::string& directory) {
    const auto snapshot = store::open_snapshot(directory);
    if (!snapshot) return "the store cannot be read: " + snapshot.error().detail;
    const auto report = verify::verify(**snapshot, {.progress = {}, .seal_keys = keys_of(directory)});
    if (!report) return "the store cannot be read: " + report.error().detail;
    for (const verify::PromiseReport& promise : report->promises) {
        if (promise.violations == 0) continue;
        return fmt::format("{} violations, the first of {} {}", report->violations(), promise.id, promise.title);
    }
    return "";
}

DemoExit report(const GatewayPlay& play, const std::string& directory, const cli::CliOutput& terminal) {
    const auto money = [](std::int64_t nanos) { return "$" + to_text(Money::nanos(nanos)); };
    const auto line = [&](std::string_view what, const std::string& value) {
        write(terminal.out, fmt::format("  {:<28}{:>16}\n", what, value));
    };
    line("calls answered", cli::count(play.calls));
    line("agents refused in the end", cli::count(play.refused));
    line("calls that failed", cli::count(play.failed));
    line("the budget's limit", money(play.limit_nanos));
    line("spent", money(play.settled_nanos));
    line("spent and held at most", money(play.most_nanos));
    line("held at the end", money(play.held_nanos));
    if (!play.sentence.empty()) write(terminal.out, fmt::format("\n  \"{}\"\n", play.sentence));
    std::string wrong = violations_in(directory);
    if (play.most_nanos > play.limit_nanos) wrong = "more was spent and held than the budget allows";
    if (play.held_nanos != 0) wrong = "something is still held";
    write(terminal.out, fmt::format("\n{}\n", wrong.empty() ? terminal.paint(cli::Style::green, "every guarantee holds")
                                                            : terminal.paint(cli::Style::red, wrong)));
    return wrong.empty() ? DemoExit::holds : DemoExit::broken;
}

DemoExit report(const FleetPlay& play, const std::string& directory, const cli::CliOutput& terminal) {
    write(terminal.out, fmt::format("\n{} runs, {} model calls, {} of them refused\n", cli::count(play.runs),
                                    cli::count(play.calls), cli::count(play.refused)));
    // Whoever looks may also touch: a key that is revoked on the page is no broken promise.
    if (play.oddities > 0) {
        write(terminal.out,
              fmt::format("{}\n", terminal.paint(cli::Style::yellow, fmt::format("{} unexpected answers; the first: {}",
                                                                                 play.oddities, play.first_oddity))));
    }
    std::string wrong = violations_in(directory);
    if (!play.all_ended) wrong = "not every process of the fleet has ended";
    write(terminal.out, fmt::format("{}\n", wrong.empty() ? terminal.paint(cli::Style::green, "every guarantee holds")
                                                          : terminal.paint(cli::Style::red, wrong)));
    return wrong.empty() ? DemoExit::holds : DemoExit::broken;
}

DemoExit give_up(const cli::CliOutput& terminal, const std::string& why) {
    write(terminal.err, fmt::format("{} {}\n", terminal.paint(cli::Style::red, "error:"), why));
    return DemoExit::could_not_run;
}

void say_where(const DataDirectory& directory, const cli::CliOutput& terminal) {
    write(terminal.err,
          fmt::format("\nThe data is in {0}. To look again: interlock verify --data-dir {0}\n", directory.path()));
}

}  // namespace

DemoExit demo_command(const DemoOptions& options, const cli::CliOutput& terminal) {
    // A reader that has seen enough (`| head`) must not keep us from tidying up.
    ::signal(SIGPIPE, SIG_IGN);
    const auto directory = DataDirectory::make(options);
    if (!directory) return give_up(terminal, directory.error());

    DemoExit exit = DemoExit::could_not_run;
    try {
        if (options.gateway) {
            const auto play = play_gateway(options, directory->path(), terminal);
            return play ? report(*play, directory->path(), terminal) : give_up(terminal, play.error());
        }
        if (options.serve) {
            const auto play = play_fleet(options, directory->path(), terminal);
            exit = play ? report(*play, directory->path(), terminal) : give_up(terminal, play.error());
            if (directory->stays()) say_where(*directory, terminal);
            return exit;
        }
        const Played played = Stage(options, directory->path(), terminal).play();
        if (played.interrupted) {
            exit = DemoExit::interrupted;
            // A terminal has written ^C there.
            write(terminal.err, terminal.progress ? "\r\x1b[Kinterrupted\n" : "interrupted\n");
        } else if (!played.failure.empty()) {
            exit = give_up(terminal, played.failure);
        } else {
            exit = report(played, directory->path(), terminal);
        }
    } catch (const std::exception& error) {
        exit = give_up(terminal, error.what());
    }
    if (directory->stays()) say_where(*directory, terminal);
    return exit;
}

namespace {

// ---- the directory ------------------------------------------------------------------------------------------------

Result<DataDirectory, std::string> DataDirectory::make(const DemoOptions& options) {
    std::error_code error;
    if (options.data_dir.empty()) {
        const fs::path above = fs::temp_directory_path(error);
        std::string pattern = (error ? fs::path("/tmp") : above) / "interlock-demo-XXXXXX";
        if (mkdtemp(pattern.data()) == nullptr) {
            return fail(fmt::format("cannot make a temporary directory '{}': {}", pattern, std::strerror(errno)));
        }
        return DataDirectory(pattern, !options.keep);
    }
    constexpr mode_t owner_only = 0700;
    if (mkdir(options.data_dir.c_str(), owner_only) != 0 && errno != EEXIST) {
        return fail(fmt::format("cannot make the data directory '{}': {}", options.data_dir, std::strerror(errno)));
    }
    const bool empty = fs::is_empty(options.data_dir, error);
    if (error || !fs::is_directory(options.data_dir, error)) {
        return fail(fmt::format("'{}' is not a directory that can be read{}", options.data_dir,
                                error ? ": " + error.message() : ""));
    }
    if (!empty) {
        return fail(
            fmt::format("'{}' is not empty. The demo spends and writes, so it only works on a directory of its own: "
                        "name one that is empty or not there yet",
                        options.data_dir));
    }
    return DataDirectory(fs::absolute(options.data_dir, error).string(), false);
}

// ---- the play -----------------------------------------------------------------------------------------------------

Stage::Stage(const DemoOptions& options, const std::string& directory, const cli::CliOutput& terminal)
    : options_(options),
      directory_(directory),
      link_(io_, directory),
      agents_(io_, link_,
              {.directory = directory,
               .count = options.agents,
               .time = std::chrono::duration<double>(options.seconds),
               .seed = static_cast<std::uint64_t>(Steady::now().time_since_epoch().count())}),
      screen_(terminal) {
    scene_.agents = options.agents;
    scene_.time = SceneSeconds(options.seconds);
    scene_.books = &agents_.books();
    if (!options.no_kill) scene_.kill_at = scene_.time / 2;
}

Played Stage::play() {
    asio::signal_set signals(io_, SIGINT, SIGTERM, SIGHUP);
    signals.async_wait([this](const boost::system::error_code& error, int) {
        if (error) return;
        played_.interrupted = true;
        io_.stop();
    });
    asio::co_spawn(io_, direct(), [this](std::exception_ptr error) {
        if (error) std::rethrow_exception(error);
        io_.stop();
    });
    io_.run();
    screen_.close();
    played_.books = agents_.books();
    if (!options_.no_kill) played_.kill = link_.tally();
    return std::move(played_);
}

asio::awaitable<void> Stage::direct() {
    if (const auto made = agents_.make_places(); !made) co_return fail_with(made.error());
    if (const auto started = co_await link_.start(); !started) co_return fail_with(started.error());
    began_ = Steady::now();
    asio::co_spawn(io_, paint(), rethrow);
    if (!co_await agents_.prepare()) co_return fail_with("Interlock refused to make the budget or the session");

    agents_.begin();
    const auto moment = [this](SceneSeconds seconds) {
        return began_ + std::chrono::duration_cast<Steady::duration>(seconds);
    };
    if (scene_.kill_at) {
        co_await wait_until(moment(*scene_.kill_at));
        co_await kill_and_start_again();
    }
    co_await wait_until(moment(scene_.time));
    co_await stop_agents();
}

asio::awaitable<void> Stage::kill_and_start_again() {
    co_await link_.kill_process();
    scene_.killed_at = elapsed();
    scene_.kill = link_.tally();
    screen_.say(fmt::format("{:5.1f} s  kill -9, with {} commands in flight", scene_.killed_at->count(),
                            scene_.kill.in_flight));
    co_await wait_until(Steady::now() + dead_for / 2);
    link_.note_left_behind(violations_in(directory_));
    scene_.left_checked = true;
    co_await wait_until(Steady::now() + dead_for / 2);

    const auto before = Steady::now();
    if (const auto started = co_await link_.start(); !started) co_return fail_with(started.error());
    scene_.open_again_after = Steady::now() - before;
    screen_.say(
        fmt::format("{:5.1f} s  started again on what was left, open after {:.2f} s; asking again for {} acknowledged "
                    "commands",
                    elapsed().count(), scene_.open_again_after->count(), cli::count(link_.tally().acknowledged)));
    link_.ask_everything_again();
}

asio::awaitable<void> Stage::stop_agents() {
    scene_.stopping = true;
    agents_.stop();
    const auto patience = Steady::now() + stop_after_max;
    while (!agents_.all_stopped() || link_.asking_again()) {
        if (Steady::now() > patience) co_return fail_with("the agents did not come to an end");
        link_.tire_of_waiting();
        co_await wait_until(Steady::now() + 10ms);
    }
    if (!co_await link_.finish()) co_return fail_with("Interlock's process did not end in good order");
    scene_.ended = true;
    measure();
    screen_.show(scene_);
}

asio::awaitable<void> Stage::wait_until(Steady::time_point moment) {
    asio::steady_timer timer(io_, moment);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
}

asio::awaitable<void> Stage::paint() {
    while (true) {
        if (!link_.failure().empty()) co_return fail_with(link_.failure());
        measure();
        screen_.show(scene_);
        co_await wait_until(Steady::now() + picture_every);
    }
}

void Stage::measure() {
    scene_.elapsed = elapsed();
    scene_.kill = link_.tally();
    answers_.push_back(link_.answers());
    commits_.push_back(static_cast<std::int64_t>(link_.commits()));
    if (answers_.size() > pictures_a_second + 1) {
        answers_.pop_front();
        commits_.pop_front();
    }
    const auto pictures = std::max<std::int64_t>(1, static_cast<std::int64_t>(answers_.size()) - 1);
    const auto a_second = static_cast<std::int64_t>(pictures_a_second);
    scene_.commands_a_second = (answers_.back() - answers_.front()) * a_second / pictures;
    scene_.commits_a_second = (commits_.back() - commits_.front()) * a_second / pictures;
    if (++pictures_ % 3 == 0) {
        scene_.history.push_back(link_.answers() - answers_in_history_);
        answers_in_history_ = link_.answers();
    }
}

void Stage::fail_with(std::string why) {
    if (played_.failure.empty()) played_.failure = std::move(why);
    io_.stop();
}

// ---- the report ---------------------------------------------------------------------------------------------------

DemoExit report(const Played& played, const std::string& directory, const cli::CliOutput& terminal) {
    const auto start = Steady::now();
    const auto snapshot = store::open_snapshot(directory);
    if (!snapshot) return give_up(terminal, "the store cannot be read: " + snapshot.error().detail);
    const auto verified = verify::verify(**snapshot, {.progress = {}, .seal_keys = keys_of(directory)});
    if (!verified) return give_up(terminal, "the store cannot be read: " + verified.error().detail);
    const SceneSeconds took = Steady::now() - start;
    const auto checks = outside_checks(**snapshot, played.books, played.kill);
    if (!checks) return give_up(terminal, "the store cannot be read: " + checks.error().detail);

    const bool on_terminal = isatty(fileno(terminal.out)) == 1;
    const std::size_t columns = on_terminal ? std::min(report_columns_max, terminal_size(terminal).columns) : 0;
    write(terminal.err, "\n");
    write(terminal.out,
          "The rows, checked against the guarantees:\n\n" + server::promise_table(*verified, took, terminal) +
              "\nWhat the agents were told, checked against the rows:\n\n" + to_text(*checks, terminal, columns));
    const bool hold = std::ranges::all_of(*checks, &Check::holds);
    return verified->violations() == 0 && hold ? DemoExit::holds : DemoExit::broken;
}

}  // namespace
}  // namespace interlock::demo
