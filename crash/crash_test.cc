// The instruments by themselves, and the promises that have to be kept at every point where the power can fail.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <sqlite3.h>

#include "base/codec.h"
#include "crash/disk.h"
#include "crash/fault_run.h"
#include "crash/history.h"
#include "crash/kill_worker.h"
#include "crash/power_loss.h"
#include "crash/power_loss_run.h"
#include "crash/power_loss_vfs.h"
#include "engine/engine.h"

namespace interlock::crash {
namespace {

// ---- the medium ---------------------------------------------------------------------------------------------------

class MediumTest : public testing::Test {
 protected:
    FileNumber open(const std::string& name, bool journal) {
        FileNumber file = 0;
        EXPECT_EQ(disk.open(name, {.create = true, .journal = journal}, file), Io::ok);
        return file;
    }
    // A file that is there for certain, with one sector of 'a'.
    FileNumber settled_file() {
        const FileNumber file = open("file", true);
        disk.write(file, 0, std::string(512, 'a'));
        disk.sync(file);
        return file;
    }
    Image after(Loss loss, std::uint64_t seed = 1, Overwrite overwrite = Overwrite::powersafe) const {
        Medium medium({}, overwrite);
        for (const Change& change : disk.log()) medium.follow(change);
        Random random(seed);
        return medium.after(loss, random);
    }

    Disk disk;
};

TEST_F(MediumTest, what_was_synced_survives_every_loss) {
    settled_file();

    for (std::size_t loss = 0; loss < loss_kinds; ++loss) {
        EXPECT_EQ(after(static_cast<Loss>(loss)), (Image{{"file", std::string(512, 'a')}}));
    }
}

TEST_F(MediumTest, what_was_not_synced_is_gone_when_dropped_and_there_when_kept) {
    const FileNumber file = settled_file();

    disk.write(file, 0, std::string(1024, 'b'));

    EXPECT_EQ(after(Loss::dropped).at("file"), std::string(512, 'a'));
    EXPECT_EQ(after(Loss::kept).at("file"), std::string(1024, 'b'));
}

TEST_F(MediumTest, a_torn_write_is_there_up_to_a_byte_and_nothing_behind_it) {
    const FileNumber file = settled_file();

    disk.write(file, 0, std::string(512, 'b'));

    bool some_cut = false;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const std::string bytes = after(Loss::torn, seed).at("file");
        const std::size_t cut = std::min(bytes.find('a'), bytes.size());
        EXPECT_EQ(bytes, std::string(cut, 'b') + std::string(512 - cut, 'a'));
        some_cut = some_cut || (cut > 0 && cut < 512);
    }
    EXPECT_TRUE(some_cut);
}

TEST_F(MediumTest, a_later_sector_can_be_there_without_an_earlier_one) {
    const FileNumber file = settled_file();

    disk.write(file, 0, std::string(512, 'b'));
    disk.write(file, 512, std::string(512, 'c'));

    bool reordered = false;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        reordered =
            reordered || after(Loss::reordered, seed).at("file") == std::string(512, 'a') + std::string(512, 'c');
    }
    EXPECT_TRUE(reordered);
}

TEST_F(MediumTest, garbage_stays_within_the_bytes_written_unless_the_disk_is_fragile) {
    const FileNumber file = open("file", true);
    disk.write(file, 0, std::string(8192, 'a'));
    disk.sync(file);

    disk.write(file, 100, std::string(50, 'b'));

    bool garbage = false;
    bool beside = false;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        const std::string bytes = after(Loss::garbage, seed).at("file");
        EXPECT_EQ(bytes.substr(0, 100), std::string(100, 'a'));
        EXPECT_EQ(bytes.substr(150), std::string(8192 - 150, 'a'));
        garbage =
            garbage || (bytes.substr(100, 50) != std::string(50, 'a') && bytes.substr(100, 50) != std::string(50, 'b'));
        const std::string fragile = after(Loss::garbage, seed, Overwrite::fragile).at("file");
        EXPECT_EQ(fragile.substr(4096), std::string(4096, 'a'));
        beside = beside || fragile.substr(0, 100) != std::string(100, 'a');
    }
    EXPECT_TRUE(garbage);
    EXPECT_TRUE(beside);
}

TEST_F(MediumTest, a_new_name_is_certain_only_once_the_directory_is_synced) {
    const FileNumber file = open("database", false);
    disk.write(file, 0, "data");
    disk.sync(file);
    EXPECT_EQ(after(Loss::dropped), Image{});

    const FileNumber journal = open("journal", true);
    disk.sync(journal);
    EXPECT_EQ(after(Loss::dropped), (Image{{"database", "data"}, {"journal", ""}}));

    disk.remove("journal", false);
    EXPECT_TRUE(after(Loss::dropped).contains("journal"));
    EXPECT_FALSE(after(Loss::kept).contains("journal"));
}

TEST_F(MediumTest, bytes_whose_sync_was_lost_can_be_read_but_are_never_written) {
    const FileNumber file = settled_file();
    disk.write(file, 0, std::string(512, 'b'));

    disk.set_fault({.kind = FaultKind::sync_error_lost, .at = 0});
    EXPECT_EQ(disk.sync(file), Io::failed);
    EXPECT_EQ(disk.sync(file), Io::ok);

    EXPECT_EQ(disk.contents().at("file"), std::string(512, 'b'));
    EXPECT_EQ(after(Loss::kept).at("file"), std::string(512, 'a'));
}

TEST_F(MediumTest, a_fault_strikes_the_call_it_is_set_for_and_a_lasting_one_all_later_ones) {
    const FileNumber file = settled_file();

    disk.set_fault({.kind = FaultKind::disk_full, .at = 1});
    EXPECT_EQ(disk.write(file, 0, "x"), Io::ok);
    EXPECT_EQ(disk.write(file, 0, "x"), Io::full);
    EXPECT_EQ(disk.write(file, 0, "x"), Io::ok);

    disk.set_fault({.kind = FaultKind::write_error, .at = 1, .lasting = true});
    EXPECT_EQ(disk.write(file, 0, "x"), Io::ok);
    EXPECT_EQ(disk.write(file, 0, "x"), Io::failed);
    EXPECT_EQ(disk.write(file, 0, "x"), Io::failed);
    EXPECT_EQ(disk.sync(file), Io::ok);
}

// ---- SQLite by itself on it ---------------------------------------------------------------------------------------

struct Bare {
    std::uint64_t lost = 0;
    std::uint64_t damaged = 0;
    std::uint64_t images = 0;
};

bool execute(sqlite3* db, const std::string& sql) {
    return sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
}

// -1 when there is no answer.
std::int64_t number(sqlite3* db, const char* sql) {
    std::int64_t value = -1;
    const auto take = [](void* into, int, char** texts, char**) {
        *static_cast<std::int64_t*>(into) = std::atoll(texts[0]);
        return 0;
    };
    return sqlite3_exec(db, sql, take, &value, nullptr) == SQLITE_OK ? value : -1;
}

// Thirty transactions, and the power failing after every change.
Bare run_bare_sqlite(Overwrite overwrite, const std::string& synchronous) {
    PowerLossVfs vfs(overwrite);
    Disk disk;
    vfs.mount(disk);
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open_v2("bare.db", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs.name().c_str()),
              SQLITE_OK);
    EXPECT_TRUE(execute(db, "pragma journal_mode = wal; pragma synchronous = " + synchronous));
    EXPECT_TRUE(execute(db, "pragma wal_autocheckpoint = 20; create table t(a integer primary key, b blob)"));
    std::vector<std::size_t> committed_at;
    for (int i = 0; i < 30; ++i) {
        EXPECT_TRUE(execute(db, "insert into t(b) values (randomblob(500)), (randomblob(5000))"));
        committed_at.push_back(disk.log().size());
    }
    const std::vector<Change> log = disk.log();
    sqlite3_close(db);

    Bare bare;
    Medium medium({}, overwrite);
    std::size_t committed = 0;
    for (std::size_t point = 1; point <= log.size(); ++point) {
        medium.follow(log[point - 1]);
        while (committed < committed_at.size() && committed_at[committed] <= point) ++committed;
        for (std::size_t loss = 0; loss < loss_kinds; ++loss) {
            Random random(point * loss_kinds + loss);
            Disk left(medium.after(static_cast<Loss>(loss), random));
            vfs.mount(left);
            ++bare.images;
            sqlite3_open_v2("bare.db", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs.name().c_str());
            if (number(db, "select count(*) <> 0 from pragma_integrity_check where integrity_check <> 'ok'") != 0) {
                ++bare.damaged;
            } else if (number(db, "select count(*) from t") < static_cast<std::int64_t>(committed) * 2 &&
                       committed > 0) {
                ++bare.lost;
            }
            sqlite3_close(db);
        }
    }
    return bare;
}

TEST(PowerLossVfsTest, bare_sqlite_keeps_every_commit_with_synchronous_full_whether_overwriting_is_powersafe_or_not) {
    for (const Overwrite overwrite : {Overwrite::powersafe, Overwrite::fragile}) {
        const Bare bare = run_bare_sqlite(overwrite, "full");

        EXPECT_GT(bare.images, 500u);
        EXPECT_EQ(bare.lost, 0u);
        EXPECT_EQ(bare.damaged, 0u);
    }
}

TEST(PowerLossVfsTest, bare_sqlite_loses_commits_with_synchronous_normal_and_the_file_with_synchronous_off) {
    EXPECT_GT(run_bare_sqlite(Overwrite::powersafe, "normal").lost, 0u);
    EXPECT_GT(run_bare_sqlite(Overwrite::powersafe, "off").damaged, 0u);
}

// ---- a charge is whole --------------------------------------------------------------------------------------------

constexpr core::OrgId org{1};
constexpr std::int64_t limit = 1'000'000;
const Instant noon = from_micros(1'793'534'400'000'000);

core::Command command(std::uint64_t number, core::CommandBody body) {
    return {.org = org, .key = core::CommandKey(time_ordered_id(noon, 0, number)), .body = std::move(body)};
}

core::Command charge_of(std::uint64_t number, std::int64_t nanos) {
    core::Charge charge;
    charge.who.agent = "writer";
    charge.who.provider = "maker";
    charge.who.model = "small";
    charge.cost = Money::nanos(nanos);
    return command(number, charge);
}

// Empty when the store did not take it.
std::optional<core::Reply> ask(engine::Engine& engine, core::Command what) {
    std::optional<core::Reply> reply;
    engine.submit({.command = std::move(what), .on_answer = [&](engine::SubmitResult answer) {
                       if (answer) reply = answer->reply;
                   }});
    engine.step(noon);
    return reply;
}

// Empty when there is not even an org any more, or rows that contradict each other.
std::optional<core::ChargeStatus> charge_status(engine::Engine& engine, std::uint64_t number, std::int64_t nanos) {
    const std::optional<core::Reply> reply = ask(engine, charge_of(number, nanos));
    const auto* charged = reply ? std::get_if<core::ChargeReply>(&*reply) : nullptr;
    return charged == nullptr ? std::nullopt : std::optional(charged->status);
}

std::int64_t stored_number(store::Store& store, const char* sql) {
    std::int64_t value = -1;
    auto snapshot = store.snapshot();
    EXPECT_TRUE(snapshot.has_value());
    if (!snapshot) return value;
    const auto read =
        (*snapshot)->query(sql, [&](const std::vector<store::Value>& row) { value = std::get<std::int64_t>(row[0]); });
    EXPECT_TRUE(read.has_value());
    return value;
}

struct Spend {
    std::int64_t events;  // Sums of what each of them says, in nano-dollars.
    std::int64_t agent;
    std::int64_t month;
    std::int64_t days;
};

Spend stored_spend(store::Store& store) {
    return {.events = stored_number(store, "select coalesce(sum(cost), 0) from cost_events"),
            .agent = stored_number(store, "select coalesce(sum(settled), 0) from agent_totals"),
            .month = stored_number(store, "select coalesce(sum(settled), 0) from budget_windows"),
            .days = stored_number(store, "select coalesce(sum(cost), 0) from rollups")};
}

// A writer with a monthly budget and some charges, one batch each; and how much had been acknowledged when.
struct Charged {
    std::vector<Change> log;
    std::vector<std::pair<std::size_t, std::int64_t>> spent_at;  // Position in the log, and the sum by then.
};

Charged charge_twelve_times(Sabotage sabotage) {
    Charged charged;
    PowerLossVfs vfs(Overwrite::powersafe);
    Disk disk;
    vfs.mount(disk);
    const auto store = make_store(vfs, sabotage);
    engine::Engine engine(*store, {});
    EXPECT_TRUE(engine.open(noon).has_value());
    ask(engine, command(1, core::CreateOrg{.name = "default"}));
    ask(engine, command(2, core::PutAgent{.name = "writer", .command = {}, .tags = {}}));
    core::PutBudget budget;
    budget.name = "month";
    budget.scope.agent = "writer";
    budget.limit_units = limit;
    ask(engine, command(3, budget));
    charged.spent_at.emplace_back(disk.log().size(), 0);

    std::int64_t spent = 0;
    for (std::int64_t i = 0; i < 12; ++i) {
        const std::int64_t cost = 10'000 + 777 * i;
        EXPECT_EQ(charge_status(engine, 10 + static_cast<std::uint64_t>(i), cost), core::ChargeStatus::charged);
        spent += cost;
        charged.spent_at.emplace_back(disk.log().size(), spent);
    }
    charged.log = disk.log();
    store->close();
    return charged;
}

// How many images, of all points and losses, are not as they should be.
int count_images_where_a_charge_is_there_in_part_or_the_budget_is_wrong(const Charged& charged, int& images) {
    PowerLossVfs vfs(Overwrite::powersafe);
    Medium medium({}, Overwrite::powersafe);
    int wrong = 0;
    std::size_t acknowledged = 0;
    for (std::size_t point = 1; point <= charged.log.size(); ++point) {
        medium.follow(charged.log[point - 1]);
        if (point < charged.spent_at[0].first) continue;
        while (acknowledged + 1 < charged.spent_at.size() && charged.spent_at[acknowledged + 1].first <= point) {
            ++acknowledged;
        }
        // A commit is one write, so there are few points; each loss has many ways to happen at one.
        constexpr std::size_t draws = 3 * loss_kinds;
        for (std::size_t draw = 0; draw < draws; ++draw) {
            ++images;
            Random random(point * draws + draw);
            Disk left(medium.after(static_cast<Loss>(draw % loss_kinds), random));
            vfs.mount(left);
            const auto store = make_store(vfs);
            engine::Engine engine(*store, {});
            if (!engine.open(noon)) {
                ++wrong;
                continue;
            }
            const Spend spend = stored_spend(*store);
            const bool whole = spend.agent == spend.events && spend.month == spend.events && spend.days == spend.events;
            const bool true_spend = spend.events == charged.spent_at[acknowledged].second ||
                                    (acknowledged + 1 < charged.spent_at.size() &&
                                     spend.events == charged.spent_at[acknowledged + 1].second);
            const std::int64_t rest = limit - spend.events;
            const bool checked = charge_status(engine, 100, rest + 1) == core::ChargeStatus::budget_exceeded &&
                                 charge_status(engine, 101, rest) == core::ChargeStatus::charged &&
                                 charge_status(engine, 102, 1) == core::ChargeStatus::budget_exceeded;
            if (!(whole && true_spend && checked)) ++wrong;
        }
    }
    return wrong;
}

TEST(
    ChargeCrashTest,
    agent_totals_cost_event_and_monthly_window_of_a_charge_are_all_there_or_none_at_every_crash_point_and_a_budget_check_after_the_crash_sees_the_true_spend) {
    const Charged charged = charge_twelve_times(Sabotage::none);

    int images = 0;
    const int wrong = count_images_where_a_charge_is_there_in_part_or_the_budget_is_wrong(charged, images);

    EXPECT_GT(images, 500);
    EXPECT_EQ(wrong, 0);
}

TEST(ChargeCrashTest, counters_written_in_a_transaction_of_their_own_would_be_noticed) {
    const Charged charged = charge_twelve_times(Sabotage::counters_apart);

    int images = 0;
    const int wrong = count_images_where_a_charge_is_there_in_part_or_the_budget_is_wrong(charged, images);

    EXPECT_GT(wrong, 0);
}

TEST(ChargeCrashTest, an_answer_before_the_sync_would_be_noticed) {
    const Charged charged = charge_twelve_times(Sabotage::synchronous_normal);

    int images = 0;
    const int wrong = count_images_where_a_charge_is_there_in_part_or_the_budget_is_wrong(charged, images);

    EXPECT_GT(wrong, 0);
}

// ---- every batch is whole -----------------------------------------------------------------------------------------

TEST(PowerLossRunTest, a_few_images_of_a_mixed_workload_are_all_right) {
    const Tally tally = run_power_losses({.images_max = 300, .threads = 1, .batches = 4});

    EXPECT_EQ(tally.all_images(), 300u);
    EXPECT_EQ(tally.violations(), 0u) << (tally.examples.empty() ? "" : tally.examples[0]);
}

// ---- faults -------------------------------------------------------------------------------------------------------

TEST(FaultTest, a_sync_that_fails_with_its_bytes_on_the_medium_charges_nobody_twice) {
    for (std::uint64_t at = 0; at < 4; ++at) {
        const FaultTally tally = run_fault({.batches = 6}, {.kind = FaultKind::sync_error_kept, .at = at});

        EXPECT_EQ(tally.struck, 1u);
        EXPECT_EQ(tally.violations, 0u) << (tally.examples.empty() ? "" : tally.examples[0]);
    }
}

TEST(FaultTest, what_is_acknowledged_after_a_sync_lost_its_bytes_is_on_the_medium) {
    for (std::uint64_t at = 0; at < 4; ++at) {
        const FaultTally tally = run_fault({.batches = 6}, {.kind = FaultKind::sync_error_lost, .at = at});

        EXPECT_EQ(tally.struck, 1u);
        EXPECT_EQ(tally.violations, 0u) << (tally.examples.empty() ? "" : tally.examples[0]);
    }
}

TEST(FaultTest, a_full_disk_is_answered_and_the_engine_goes_on_when_there_is_room_again) {
    const FaultTally tally = run_fault({.batches = 6}, {.kind = FaultKind::disk_full, .at = 4, .lasting = true});

    EXPECT_EQ(tally.struck, 1u);
    EXPECT_GT(tally.not_done + tally.unknown, 0u);
    EXPECT_EQ(tally.violations, 0u) << (tally.examples.empty() ? "" : tally.examples[0]);
}

// ---- what a killed worker leaves in the pipe ----------------------------------------------------------------------

TEST(KillWorkerTest, a_line_of_the_pipe_reads_back_as_it_was_written_and_half_a_line_does_not) {
    const Answered answered{{.epoch = 3, .client = 17, .number = 99, .fence = 5, .session_only = false},
                            std::string("\x00\xff\x10", 3)};

    const std::string line = to_line(answered);
    const auto read = from_line(std::string_view(line).substr(0, line.size() - 1));

    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->reply, answered.reply);
    EXPECT_EQ(encode(command_of(read->question)->body), encode(command_of(answered.question)->body));
    EXPECT_FALSE(from_line(line.substr(0, line.size() - 2)).has_value());
    EXPECT_FALSE(from_line("3 17").has_value());
}

}  // namespace
}  // namespace interlock::crash
