#include "server/migrate_command.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <filesystem>

#include "cli/text.h"
#include "server/data_dir.h"
#include "server/verify_command.h"
#include "store/transfer.h"

namespace interlock::server {
namespace {

namespace json = boost::json;
using cli::ExitCode;
using std::chrono::steady_clock;

struct MigrationFailure {
    ExitCode exit;
    std::string detail;
};

// What the source holds.
struct Census {
    std::vector<store::TableRows> tables;
    std::vector<store::FeedHead> heads;

    std::int64_t rows() const {
        std::int64_t sum = 0;
        for (const store::TableRows& table : tables) sum += table.rows;
        return sum;
    }
};

enum class TargetState { empty, broken_off };

// Progress: one line that is overwritten on a terminal, else a line for each finished table.
class CopyScreen {
 public:
    enum class Lines { yes, no };
    CopyScreen(const Census& census, const cli::CliOutput& output, Lines lines)
        : output_(output), lines_(lines == Lines::yes && !output.progress) {
        for (const store::TableRows& table : census.tables) totals_.emplace_back(table);
    }

    // So many rows of the table have been copied, of one org or of all of them.
    void on_chunk(std::string_view table, std::int64_t rows) {
        Total& total = of(table);
        // A count that falls is that of the next org.
        copied_ += rows < total.of_org ? rows : rows - total.of_org;
        total.done += rows < total.of_org ? rows : rows - total.of_org;
        total.of_org = rows;
        if (lines_ && total.done == total.all) {
            fmt::print(output_.err, "  {}: {} of {} rows\n", table, cli::count(total.done), cli::count(total.all));
        }
        const auto now = steady_clock::now();
        if (!output_.progress || now < next_) return;
        next_ = now + std::chrono::milliseconds(100);
        const double seconds = std::chrono::duration<double>(now - begun_).count();
        fmt::print(output_.err, "\r\x1b[K{}: {} of {} rows, {} rows/s", table, cli::count(total.done),
                   cli::count(total.all), cli::count(static_cast<std::int64_t>(double(copied_) / seconds)));
        std::fflush(output_.err);
    }
    void finish() const {
        if (output_.progress) fmt::print(output_.err, "\r\x1b[K");
    }

 private:
    struct Total {
        explicit Total(const store::TableRows& table) : table(table.table), all(table.rows) {}
        std::string_view table;
        std::int64_t all;
        std::int64_t done = 0;
        std::int64_t of_org = 0;
    };
    Total& of(std::string_view table) { return *std::ranges::find(totals_, table, &Total::table); }

    const cli::CliOutput& output_;
    const bool lines_;
    std::vector<Total> totals_;
    std::int64_t copied_ = 0;
    const steady_clock::time_point begun_ = steady_clock::now();
    steady_clock::time_point next_ = begun_ + std::chrono::milliseconds(100);
};

class Migration {
 public:
    Migration(const MigrateOptions& options, const cli::CliOutput& output) : options_(options), output_(output) {
        if (options.json) output_.progress = false;
        for (const StoreAddress& address : {options.from, options.to}) {
            if (!address.is_database()) std::ranges::move(read_seal_keys(address.text), std::back_inserter(seal_keys_));
        }
    }

    Result<void, MigrationFailure> run();

 private:
    Result<void, MigrationFailure> check_addresses() const;
    Result<Census, MigrationFailure> take_census(store::Snapshot& source);
    Result<TargetState, MigrationFailure> look_at_target();
    Result<TargetState, MigrationFailure> state_of(store::Snapshot& target,
                                                   const std::optional<store::CopyMark>& mark) const;
    Result<void, MigrationFailure> copy(store::Snapshot& source, OfflineStore& target);
    Result<void, MigrationFailure> compare(store::Snapshot& source, OfflineStore& target);
    void say(const std::string& line) const;
    void report(TargetState state, steady_clock::duration took) const;

    const MigrateOptions& options_;
    cli::CliOutput output_;
    Census census_;
    std::vector<store::SealKey> seal_keys_;
};

MigrationFailure failure_of(const StoreAddress& address, const store::OpenError& error) {
    using enum store::OpenError::Kind;
    const ExitCode exit = error.kind == in_use                                 ? ExitCode::busy
                          : error.kind == unavailable && address.is_database() ? ExitCode::not_reachable
                          : error.kind == unavailable                          ? ExitCode::not_found
                                                                               : ExitCode::refused;
    return {exit, fmt::format("{}: {}", address.shown(), error.detail)};
}

MigrationFailure refused(const StoreAddress& address, const std::string& why) {
    return {ExitCode::refused, fmt::format("{}: {}", address.shown(), why)};
}

}  // namespace

ExitCode migrate_command(const MigrateOptions& options, const cli::CliOutput& output) {
    ::umask(077);  // What is written is the owner's alone.
    const auto done = Migration(options, output).run();
    if (done) return ExitCode::ok;
    if (options.json) {
        fmt::print(output.out, "{}\n", json::serialize(json::object{{"ok", false}, {"error", done.error().detail}}));
    } else {
        output.error(done.error().detail, "");
    }
    return done.error().exit;
}

namespace {

Result<void, MigrationFailure> Migration::run() {
    // 1. Take the source, so that it does not change. Fails if a server uses it.
    const auto begun = steady_clock::now();
    if (auto good = check_addresses(); !good) return good;
    const auto source = open_offline(options_.from);
    if (!source) return fail(failure_of(options_.from, source.error()));
    const auto snapshot = (*source)->store().snapshot();
    if (!snapshot) return fail(refused(options_.from, snapshot.error().detail));
    auto census = take_census(**snapshot);
    if (!census) return fail(census.error());
    census_ = std::move(*census);

    // 2. Look at the target, without changing it.
    const auto state = look_at_target();
    if (!state) return fail(state.error());
    if (options_.dry_run) return report(*state, steady_clock::now() - begun), Result<void, MigrationFailure>();

    // 3. Take it, mark it, fill it.
    const auto target = open_offline(options_.to, {.if_missing = OfflineOptions::IfMissing::make,
                                                   .unfinished_copy = OfflineOptions::UnfinishedCopy::open});
    if (!target) return fail(failure_of(options_.to, target.error()));
    if (auto marked = (*target)->set_mark({options_.from.shown(), store::fingerprint(census_.heads)}); !marked) {
        return fail(refused(options_.to, marked.error().detail));
    }
    if (auto copied = copy(**snapshot, **target); !copied) return copied;

    // 4. Read both sides again and compare. Only then may a server use the copy.
    if (auto same = compare(**snapshot, **target); !same) return same;
    if (auto ours = (*source)->still_ours(); !ours) return fail(refused(options_.from, ours.error().detail));
    if (auto ours = (*target)->still_ours(); !ours) return fail(refused(options_.to, ours.error().detail));
    if (auto removed = (*target)->remove_mark(); !removed) return fail(refused(options_.to, removed.error().detail));
    report(*state, steady_clock::now() - begun);
    return {};
}

Result<void, MigrationFailure> Migration::check_addresses() const {
    std::error_code ignored;
    const bool same = options_.from.text == options_.to.text ||
                      (!options_.from.is_database() && !options_.to.is_database() &&
                       std::filesystem::equivalent(options_.from.text, options_.to.text, ignored));
    if (same) return fail(MigrationFailure{ExitCode::bad_usage, "--from and --to are the same store"});
    return {};
}

Result<Census, MigrationFailure> Migration::take_census(store::Snapshot& source) {
    say(fmt::format("verifying {}", options_.from.shown()));
    const auto verified = check_promises(source, {.progress = {}, .seal_keys = seal_keys_}, output_);
    if (!verified) return fail(refused(options_.from, verified.error().detail));
    if (verified->violations() > 0) {
        return fail(refused(options_.from, fmt::format("{} violations; only a store without violations is copied. "
                                                       "'interlock verify' lists them",
                                                       verified->violations())));
    }
    auto tables = store::count_rows(source);
    auto heads = store::read_heads(source);
    if (!tables) return fail(refused(options_.from, tables.error().detail));
    if (!heads) return fail(refused(options_.from, heads.error().detail));
    return Census{std::move(*tables), std::move(*heads)};
}

Result<TargetState, MigrationFailure> Migration::look_at_target() {
    const auto there = is_there(options_.to);
    if (!there) return fail(failure_of(options_.to, there.error()));
    std::optional<store::CopyMark> mark;
    if (!options_.to.is_database()) {
        const auto found = store::read_copy_mark(options_.to.text);
        if (!found) return fail(refused(options_.to, found.error().detail));
        mark = *found;
    }
    if (!*there && !mark) return TargetState::empty;
    if (!*there) return TargetState::broken_off;
    const auto snapshot = look_into(options_.to);
    if (!snapshot) return fail(failure_of(options_.to, snapshot.error()));
    if (options_.to.is_database()) {
        const auto found = store::read_copy_mark(**snapshot);
        if (!found) return fail(refused(options_.to, found.error().detail));
        mark = *found;
    }
    return state_of(**snapshot, mark);
}

Result<TargetState, MigrationFailure> Migration::state_of(store::Snapshot& target,
                                                          const std::optional<store::CopyMark>& mark) const {
    if (mark && mark->fingerprint == store::fingerprint(census_.heads)) return TargetState::broken_off;
    if (mark) {
        return fail(refused(
            options_.to,
            fmt::format("it contains an unfinished copy of {}; {}. Empty it and start again", mark->from,
                        mark->from == options_.from.shown() ? "which has changed since" : "this is another source")));
    }
    const auto tables = store::count_rows(target);
    if (!tables) return fail(refused(options_.to, tables.error().detail));
    for (const store::TableRows& table : *tables) {
        if (table.rows == 0) continue;
        return fail(
            refused(options_.to, fmt::format("it is not empty: {} rows in {}. Nothing was copied; use an empty target",
                                             table.rows, table.table)));
    }
    return TargetState::empty;
}

Result<void, MigrationFailure> Migration::copy(store::Snapshot& source, OfflineStore& target) {
    say(fmt::format("copying {} rows to {}", cli::count(census_.rows()), options_.to.shown()));
    CopyScreen screen(census_, output_, options_.json ? CopyScreen::Lines::no : CopyScreen::Lines::yes);
    store::CopyOptions how;
    how.on_chunk = [&](std::string_view table, std::int64_t rows) { screen.on_chunk(table, rows); };
    const auto copied = store::copy_rows(source, target.store(), how);
    screen.finish();
    if (!copied) {
        return fail(refused(options_.to, copied.error() + ". Repeat the command to resume"));
    }
    target.look_around();
    return {};
}

Result<void, MigrationFailure> Migration::compare(store::Snapshot& source, OfflineStore& target) {
    say(fmt::format("verifying {}", options_.to.shown()));
    const auto snapshot = target.store().snapshot();
    if (!snapshot) return fail(refused(options_.to, snapshot.error().detail));
    const auto verified = check_promises(**snapshot, {.progress = {}, .seal_keys = seal_keys_}, output_);
    if (!verified) return fail(refused(options_.to, verified.error().detail));
    if (verified->violations() > 0) {
        return fail(refused(options_.to, fmt::format("the copy has {} violations", verified->violations())));
    }
    say("comparing every row");
    const auto ours = store::read_digests(source);
    if (!ours) return fail(refused(options_.from, ours.error().detail));
    const auto theirs = store::read_digests(**snapshot);
    if (!theirs) return fail(refused(options_.to, theirs.error().detail));
    for (std::size_t i = 0; i < ours->size(); ++i) {
        if ((*ours)[i] == (*theirs)[i]) continue;
        return fail(refused(options_.to, fmt::format("the copy differs in {}: {} rows, and {} in the source. Empty it "
                                                     "and start again",
                                                     (*ours)[i].table, (*theirs)[i].rows, (*ours)[i].rows)));
    }
    const auto heads = store::read_heads(**snapshot);
    if (!heads) return fail(refused(options_.to, heads.error().detail));
    if (*heads != census_.heads)
        return fail(refused(options_.to, "the feeds of the copy end at other events than those of the source"));
    return {};
}

void Migration::say(const std::string& line) const {
    if (options_.json) return;
    fmt::print(output_.err, "{}\n", line);
    std::fflush(output_.err);
}

void Migration::report(TargetState state, steady_clock::duration took) const {
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
    if (options_.json) {
        json::array tables;
        for (const store::TableRows& table : census_.tables) {
            tables.push_back(json::object{{"table", table.table}, {"rows", table.rows}});
        }
        json::array orgs;
        for (const store::FeedHead& head : census_.heads) {
            orgs.push_back(
                json::object{{"org", head.org.value}, {"last_seq", head.last_seq.value}, {"hash", head.hash}});
        }
        fmt::print(output_.out, "{}\n",
                   json::serialize(json::object{{"ok", true},
                                                {"from", options_.from.shown()},
                                                {"to", options_.to.shown()},
                                                {"dry_run", options_.dry_run},
                                                {"resumed", state == TargetState::broken_off},
                                                {"rows", census_.rows()},
                                                {"tables", std::move(tables)},
                                                {"orgs", std::move(orgs)},
                                                {"milliseconds", milliseconds}}));
        return;
    }
    for (const store::TableRows& table : census_.tables) {
        if (table.rows > 0) fmt::print(output_.out, "{:<16}{:>14}\n", table.table, cli::count(table.rows));
    }
    for (const store::FeedHead& head : census_.heads) {
        fmt::print(output_.out, "{}\n",
                   output_.paint(cli::Style::dim, fmt::format("org {}: the feed ends at event {}, {:.12}…",
                                                              head.org.value, head.last_seq.value, head.hash)));
    }
    if (options_.dry_run) {
        fmt::print(output_.out, "\n{} rows would be copied{}; nothing changed\n", cli::count(census_.rows()),
                   state == TargetState::broken_off ? ", resuming an interrupted copy" : "");
        return;
    }
    fmt::print(output_.out, "\n{} ({} rows, {:.2f} s)\n",
               output_.paint(cli::Style::green, "every row was copied, and every guarantee holds"),
               cli::count(census_.rows()), static_cast<double>(milliseconds) / 1000);
}

}  // namespace
}  // namespace interlock::server
