#include "verify/world_for_test.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>

#include "base/calendar.h"
#include "base/sha256.h"
#include "store/sqlite_schema.h"
#include "verify/findings.h"

namespace interlock::verify {
namespace {

std::string bytes_of(Id value) { return std::get<store::Blob>(stored(value)).bytes; }
store::Blob blob(Id value) { return {bytes_of(value)}; }

std::string little_endian(std::int64_t number) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &number, 8);
    return bytes;
}

class MemorySnapshot final : public store::Snapshot {
 public:
    explicit MemorySnapshot(sqlite3* db) : db_(db) {}

    Result<void, store::ReadError> renew() override { return {}; }
    Result<std::int64_t, store::ReadError> store_bytes() override { return 0; }
    Result<void, store::ReadError> query(std::string_view sql, const std::vector<store::Parameter>&,
                                         const store::OnValues& on_row) override {
        sqlite3_stmt* statement = nullptr;
        sqlite3_prepare_v2(db_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
        std::vector<store::Value> values;
        int rc = statement == nullptr ? SQLITE_ERROR : sqlite3_step(statement);
        for (; rc == SQLITE_ROW; rc = sqlite3_step(statement)) {
            values.clear();
            for (int i = 0; i < sqlite3_column_count(statement); ++i) values.push_back(value_of(statement, i));
            on_row(values);
        }
        sqlite3_finalize(statement);
        if (rc == SQLITE_DONE) return {};
        return fail(store::ReadError{fmt::format("{}: {}", sqlite3_errmsg(db_), sql)});
    }

 private:
    static store::Value value_of(sqlite3_stmt* statement, int column) {
        switch (sqlite3_column_type(statement, column)) {
            case SQLITE_NULL:
                return {};
            case SQLITE_INTEGER:
                return std::int64_t{sqlite3_column_int64(statement, column)};
            default:
                break;
        }
        const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
        return std::string(bytes == nullptr ? "" : bytes,
                           static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
    }
    sqlite3* db_;
};

}  // namespace

Id id(std::uint64_t number) {
    if (number != 2) return {0, number};
    const std::int64_t tick = at("2026-11-14T08:00:00Z");
    const Id made_of = id_from_hash(fmt::format("nightly@{}", tick));
    return time_ordered_id(from_micros(tick), made_of.high, made_of.low);
}

std::string x(std::uint64_t number) { return to_text(stored(id(number))); }

std::int64_t at(std::string_view iso8601) { return micros(from_iso8601(iso8601).value()); }

World::World() {
    sqlite3_open(":memory:", &db_);
    EXPECT_EQ(store::migrate(db_, 0), SQLITE_OK) << sqlite3_errmsg(db_);
    fill();
    sql("pragma foreign_keys = off; pragma ignore_check_constraints = on");
}

World::~World() { sqlite3_close(db_); }

void World::sql(const std::string& statements) {
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(db_, statements.c_str(), nullptr, nullptr, &error), SQLITE_OK)
        << (error == nullptr ? "" : error);
    sqlite3_free(error);
}

void World::insert(std::string_view table, Cells cells) {
    std::map<std::string, std::string> given{{"org", "1"}};
    for (const auto& [column, value] : cells) given[std::string(column)] = to_text(value);
    std::string names = "''";
    for (const auto& [column, value] : given) names += fmt::format(", '{}'", column);
    std::vector<std::string> columns;
    std::vector<std::string> values;
    const auto read = snapshot()->query(
        fmt::format(
            "select name, type, \"notnull\" from pragma_table_info('{}') where dflt_value is null or name in ({})",
            table, names),
        [&](const auto& row) {
            const std::string& name = std::get<std::string>(row[0]);
            const bool text = std::get<std::string>(row[1]) == "TEXT";
            const bool list = name == "command" || name == "pauses" || name == "warn" || name == "wanted" ||
                              name == "parts" || name == "chain" || name == "places" || name == "scopes";
            const bool map = name == "tags" || name == "scope";
            columns.push_back('"' + name + '"');
            const auto found = given.find(name);
            if (found != given.end()) {
                values.push_back(found->second);
            } else if (std::get<std::int64_t>(row[2]) == 0) {
                values.emplace_back("null");
            } else {
                values.emplace_back(list ? "'[]'" : map ? "'{}'" : text ? "''" : "0");
            }
        });
    EXPECT_TRUE(read) << read.error().detail;
    sql(fmt::format("insert into {} ({}) values ({})", table, fmt::join(columns, ", "), fmt::join(values, ", ")));
}

void World::cost_event(Cells cells) {
    insert("ledger", cells);
    insert("ledger_details", cells);
}

void World::page(std::int64_t written_at, const std::vector<std::string>& events) {
    std::string body;
    for (const std::string& event : events) {
        const auto length = static_cast<std::uint32_t>(event.size());
        body.append(reinterpret_cast<const char*>(&length), sizeof length).append(event);
    }
    const std::int64_t first = last_seq_ + 1;
    last_seq_ += static_cast<std::int64_t>(events.size());
    const Sha256 hash =
        sha256(last_hash_ + little_endian(first) + little_endian(last_seq_) + little_endian(written_at) + body);
    last_hash_.assign(hash.begin(), hash.end());
    insert("feed_pages", {{"last_seq", last_seq_},
                          {"first_seq", first},
                          {"at", written_at},
                          {"body", store::Blob{body}},
                          {"hash", store::Blob{last_hash_}}});
}

std::unique_ptr<store::Snapshot> World::snapshot() { return std::make_unique<MemorySnapshot>(db_); }

Report World::verify(std::size_t examples_max) {
    auto report = verify::verify(*snapshot(), {.examples_max = examples_max, .progress = {}});
    EXPECT_TRUE(report) << report.error().detail;
    return report ? std::move(*report) : Report();
}

void World::apply(const std::vector<store::Repair>& repairs) {
    for (const store::Repair& repair : repairs) {
        std::vector<std::string> where;
        std::vector<std::string> columns;
        std::vector<std::string> values;
        std::vector<std::string> changes;
        for (const store::Cell& cell : repair.row.key) {
            where.push_back(fmt::format("{} = {}", cell.column, to_text(cell.value)));
            columns.push_back(cell.column);
            values.push_back(to_text(cell.value));
        }
        for (const store::Repair::Change& cell : repair.cells) {
            columns.push_back(cell.column);
            values.push_back(to_text(cell.to));
            changes.push_back(fmt::format("{} = {}", cell.column, to_text(cell.to)));
        }
        switch (repair.kind) {
            case store::Repair::Kind::change:
                sql(fmt::format("update {} set {} where {}", repair.row.table, fmt::join(changes, ", "),
                                fmt::join(where, " and ")));
                break;
            case store::Repair::Kind::insert:
                sql(fmt::format("insert into {} ({}) values ({})", repair.row.table, fmt::join(columns, ", "),
                                fmt::join(values, ", ")));
                break;
            case store::Repair::Kind::remove:
                sql(fmt::format("delete from {} where {}", repair.row.table, fmt::join(where, " and ")));
                break;
        }
    }
}

// ---- the org ------------------------------------------------------------------------------------------------------
//
//   agents    coder (2 runs at once), writer (1)
//   budgets   daily: everything, dollars by the UTC day, hard 1,000; monthly: coder's tokens by the month in Berlin,
//   hard
//             10,000; weekly: calls tagged team=blue, soft 5; starts: coder's runs, in total 3; gone: deleted
//   sessions  11: messages 0 1 2; 12: forked from it behind 1, message 2
//   runs      1: coder's, running in /repo; 2: writer's, succeeded, started by a schedule; 3: coder's, queued
//   holds     21: open, of run 1; 22: settled by event 32; 23: released; 24: run 1's own
//   events    31: coder 100, session 11, team=blue; 32: coder 250, run 1, hold 22, estimated; 33: writer 70, a day
//   later
void World::fill() {
    const std::int64_t created = at("2026-11-14T08:00:00Z");
    const std::int64_t noon = at("2026-11-14T12:00:00Z");
    const std::int64_t next_day = at("2026-11-15T09:00:00Z");
    const std::int64_t saturday = at("2026-11-14T00:00:00Z");
    const std::int64_t sunday = at("2026-11-15T00:00:00Z");
    const std::int64_t monday = at("2026-11-16T00:00:00Z");
    const std::int64_t berlin_november = at("2026-10-31T23:00:00Z");
    const std::int64_t berlin_december = at("2026-11-30T23:00:00Z");
    const std::string repo =
        R"([{"kind":"workspace","host":"mill","path":"/repo","chain":["8:2","8:1"],"mode":"write"},)"
        R"({"kind":"resource","host":"","path":"deploy","chain":[],"mode":"read"}])";

    insert("orgs",
           {{"name", "acme"}, {"created_at", created}, {"last_fence", 2}, {"last_ticket", 3}, {"marked_at", next_day}});
    const std::int64_t quarter = noon + 15 * 60'000'000;
    insert("spend_marks", {{"budget", ""}, {"at", noon}});
    insert("spend_marks", {{"budget", ""}, {"at", next_day}, {"settled", 350}});
    insert("spend_marks", {{"budget", "daily"}, {"start_at", saturday}, {"at", noon}});
    insert("spend_marks", {{"budget", "daily"}, {"start_at", saturday}, {"at", quarter}, {"settled", 100}});
    insert("agents", {{"name", "coder"}, {"max_concurrent_runs", 2}, {"created_at", created}});
    insert("agents", {{"name", "writer"}, {"max_concurrent_runs", 1}, {"created_at", created}});
    insert("agent_totals",
           {{"agent", "coder"}, {"settled", 350}, {"tokens", 65}, {"events", 2}, {"last_event_at", noon + 3}});
    insert("agent_totals",
           {{"agent", "writer"}, {"settled", 70}, {"tokens", 10}, {"events", 1}, {"last_event_at", next_day}});
    insert("caps", {{"kind", "org"}, {"name", ""}, {"max_live", 4}});
    insert("caps", {{"kind", "provider"}, {"name", "anthropic"}, {"max_live", 3}});
    insert("caps", {{"kind", "node"}, {"name", "mill"}, {"max_live", 2}});

    insert("budgets", {{"name", "daily"},
                       {"scope", "{}"},
                       {"metric", "usd"},
                       {"window", "day"},
                       {"zone", "UTC"},
                       {"limit_units", 1000},
                       {"hard", 1},
                       {"on_exhausted", "refuse"},
                       {"created_at", created}});
    insert("budgets", {{"name", "monthly"},
                       {"scope", R"({"agent":"coder"})"},
                       {"metric", "tokens"},
                       {"window", "month"},
                       {"zone", "Europe/Berlin"},
                       {"limit_units", 10000},
                       {"hard", 1},
                       {"on_exhausted", "refuse"},
                       {"created_at", created}});
    insert("budgets", {{"name", "weekly"},
                       {"scope", R"({"tags":{"team":"blue"}})"},
                       {"metric", "calls"},
                       {"window", "week"},
                       {"zone", "UTC"},
                       {"limit_units", 5},
                       {"hard", 0},
                       {"on_exhausted", "refuse"},
                       {"created_at", created}});
    insert("budgets", {{"name", "starts"},
                       {"scope", R"({"agent":"coder"})"},
                       {"metric", "runs"},
                       {"window", "total"},
                       {"zone", "UTC"},
                       {"limit_units", 3},
                       {"hard", 1},
                       {"on_exhausted", "refuse"},
                       {"created_at", created}});
    insert("budgets", {{"name", "gone"},
                       {"scope", "{}"},
                       {"metric", "usd"},
                       {"window", "total"},
                       {"zone", "UTC"},
                       {"limit_units", 1},
                       {"hard", 1},
                       {"on_exhausted", "refuse"},
                       {"created_at", created},
                       {"deleted", 1}});
    insert("budget_windows", {{"budget", "daily"},
                              {"start_at", saturday},
                              {"end_at", sunday},
                              {"limit_units", 1000},
                              {"hard", 1},
                              {"settled", 350},
                              {"held", 420},
                              {"marked_at", quarter}});
    insert("budget_windows", {{"budget", "daily"},
                              {"start_at", sunday},
                              {"end_at", monday},
                              {"limit_units", 1000},
                              {"hard", 1},
                              {"settled", 70}});
    insert("budget_windows", {{"budget", "monthly"},
                              {"start_at", berlin_november},
                              {"end_at", berlin_december},
                              {"limit_units", 10000},
                              {"hard", 1},
                              {"settled", 65},
                              {"held", 500}});
    insert("budget_windows", {{"budget", "weekly"},
                              {"start_at", at("2026-11-09T00:00:00Z")},
                              {"end_at", monday},
                              {"limit_units", 5},
                              {"hard", 0},
                              {"settled", 1}});
    insert("budget_windows", {{"budget", "starts"},
                              {"start_at", micros(far_past)},
                              {"end_at", micros(far_future)},
                              {"limit_units", 3},
                              {"hard", 1},
                              {"settled", 1}});
    insert("budget_windows", {{"budget", "gone"},
                              {"start_at", micros(far_past)},
                              {"end_at", micros(far_future)},
                              {"limit_units", 1},
                              {"hard", 1},
                              {"settled", 999}});

    insert("sessions", {{"id", blob(id(11))},
                        {"agent", "coder"},
                        {"created_at", created},
                        {"next_seq", 3},
                        {"input_tokens", 30},
                        {"output_tokens", 6},
                        {"settled", 100},
                        {"events", 1}});
    insert("sessions", {{"id", blob(id(12))},
                        {"agent", "coder"},
                        {"created_at", noon},
                        {"parent", blob(id(11))},
                        {"first_seq", 2},
                        {"next_seq", 3},
                        {"input_tokens", 7}});
    for (std::int64_t seq = 0; seq < 3; ++seq) {
        insert("messages", {{"session", blob(id(11))},
                            {"seq", seq},
                            {"role", "user"},
                            {"content", "hello"},
                            {"at", noon},
                            {"input_tokens", 10},
                            {"output_tokens", 2}});
    }
    insert("messages", {{"session", blob(id(12))},
                        {"seq", 2},
                        {"role", "tool"},
                        {"content", "hi"},
                        {"at", noon},
                        {"input_tokens", 7}});

    insert("runs", {{"id", blob(id(1))},
                    {"agent", "coder"},
                    {"provider", "anthropic"},
                    {"run", blob(id(1))},
                    {"node", "mill"},
                    {"state", "running"},
                    {"ticket", 1},
                    {"fence", 2},
                    {"wanted", repo},
                    {"hold_bound_usd", 400},
                    {"hold", blob(id(24))},
                    {"lease_s", 60},
                    {"created_at", noon},
                    {"queued_until", micros(far_future)},
                    {"admitted_at", noon},
                    {"lease_until", noon + 60'000'000},
                    {"started_at", noon},
                    {"settled", 250},
                    {"tokens", 45},
                    {"events", 1},
                    {"unknown", 250}});
    insert("runs", {{"id", blob(id(2))},
                    {"agent", "writer"},
                    {"run", blob(id(2))},
                    {"node", "mill"},
                    {"state", "succeeded"},
                    {"ticket", 2},
                    {"fence", 1},
                    {"lease_s", 60},
                    {"created_at", created},
                    {"queued_until", micros(far_future)},
                    {"admitted_at", created},
                    {"lease_until", created},
                    {"started_at", created},
                    {"ended_at", noon},
                    {"schedule", "nightly"}});
    insert("runs", {{"id", blob(id(3))},
                    {"agent", "coder"},
                    {"run", blob(id(3))},
                    {"state", "queued"},
                    {"ticket", 3},
                    {"wanted", repo},
                    {"lease_s", 60},
                    {"created_at", noon},
                    {"queued_until", micros(far_future)}});
    insert("claims", {{"run", blob(id(1))},
                      {"number", 0},
                      {"kind", "workspace"},
                      {"host", "mill"},
                      {"path", "/repo"},
                      {"chain", R"(["8:2","8:1"])"},
                      {"mode", "write"},
                      {"fence", 2}});
    insert("claims", {{"run", blob(id(1))},
                      {"number", 1},
                      {"kind", "resource"},
                      {"path", "deploy"},
                      {"mode", "read"},
                      {"fence", 2}});

    const auto parts = [&](std::int64_t usd, std::int64_t drawn, std::int64_t tokens) {
        std::string text =
            fmt::format(R"([{{"budget":"daily","window":{},"amount":{},"drawn":{}}})", saturday, usd, drawn);
        if (tokens > 0) {
            text +=
                fmt::format(R"(,{{"budget":"monthly","window":{},"amount":{},"drawn":0}})", berlin_november, tokens);
        }
        return text + "]";
    };
    insert("holds", {{"id", blob(id(21))},
                     {"agent", "coder"},
                     {"provider", "anthropic"},
                     {"run", blob(id(1))},
                     {"bound_usd", 120},
                     {"bound_tokens", 500},
                     {"drawn_usd", 100},
                     {"parts", parts(120, 100, 500)},
                     {"state", "open"},
                     {"created_at", noon + 1},
                     {"expires_at", noon + 60'000'000}});
    insert("holds", {{"id", blob(id(22))},
                     {"agent", "coder"},
                     {"run", blob(id(1))},
                     {"bound_usd", 300},
                     {"state", "settled"},
                     {"created_at", noon + 1},
                     {"expires_at", noon + 60'000'000},
                     {"closed_at", noon + 3}});
    insert("holds", {{"id", blob(id(23))},
                     {"agent", "writer"},
                     {"bound_usd", 10},
                     {"state", "released"},
                     {"created_at", noon},
                     {"expires_at", noon + 60'000'000},
                     {"closed_at", noon + 1}});
    insert("holds", {{"id", blob(id(24))},
                     {"agent", "coder"},
                     {"provider", "anthropic"},
                     {"run", blob(id(1))},
                     {"bound_usd", 300},
                     {"parts", parts(300, 0, 0)},
                     {"dispatched", 1},
                     {"opened_by", "run"},
                     {"state", "open"},
                     {"created_at", noon},
                     {"expires_at", micros(far_future)}});

    cost_event({{"key", blob(id(31))},
                {"seq", 9},
                {"at", noon},
                {"counted_at", noon},
                {"agent", "coder"},
                {"provider", "anthropic"},
                {"model", "opus"},
                {"session", blob(id(11))},
                {"tags", R"({"team":"blue","site":"north"})"},
                {"cost", 100},
                {"input_tokens", 15},
                {"output_tokens", 5},
                {"calls", 1}});
    cost_event({{"key", blob(id(32))},
                {"seq", 10},
                {"at", noon + 3},
                {"counted_at", noon + 1},
                {"agent", "coder"},
                {"provider", "anthropic"},
                {"model", "opus"},
                {"run", blob(id(1))},
                {"cost", 250},
                {"input_tokens", 40},
                {"reasoning_tokens", 5},
                {"calls", 2},
                {"hold", blob(id(22))},
                {"estimated", 1}});
    cost_event({{"key", blob(id(33))},
                {"seq", 11},
                {"at", next_day},
                {"counted_at", next_day},
                {"agent", "writer"},
                {"cost", 70},
                {"cache_read_tokens", 10},
                {"calls", 1}});
    const std::int64_t day = 20771;  // 2026-11-14
    insert("rollups", {{"day", day},
                       {"agent", "coder"},
                       {"provider", "anthropic"},
                       {"model", "opus"},
                       {"cost", 350},
                       {"events", 2},
                       {"calls", 3},
                       {"input_tokens", 55},
                       {"output_tokens", 5},
                       {"reasoning_tokens", 5}});
    insert(
        "rollups",
        {{"day", day + 1}, {"agent", "writer"}, {"cost", 70}, {"events", 1}, {"calls", 1}, {"cache_read_tokens", 10}});
    insert("schedules", {{"name", "nightly"},
                         {"agent", "writer"},
                         {"every_s", 3600},
                         {"zone", "UTC"},
                         {"overlap", "skip"},
                         {"missed", "one"},
                         {"enabled", 1},
                         {"created_at", created},
                         {"next_at", next_day},
                         {"fired", 1}});
    insert("ticks",
           {{"schedule", "nightly"}, {"number", 1}, {"tick", created}, {"outcome", "fired"}, {"run", blob(id(2))}});
    insert("run_steps",
           {{"run", blob(id(2))}, {"number", 1}, {"at", created}, {"state", "starting"}, {"waits_for", "nothing"}});
    insert("run_steps",
           {{"run", blob(id(2))}, {"number", 2}, {"at", noon}, {"state", "succeeded"}, {"waits_for", "nothing"}});
    sql("update runs set steps = 2 where id = " + x(2));
    insert("answers", {{"key", blob(id(41))}, {"at", created}, {"reply", store::Blob{"ok"}}});

    const std::string none;
    const std::uint8_t starting = 1;
    const std::uint8_t succeeded = 4;
    const std::uint8_t org_cap = 0;
    page(created, {event(3, std::string("acme")),                                         // 1: org_created
                   event(4, std::string("coder"), std::int64_t{2}),                       // 2: agent_changed
                   event(4, std::string("writer"), std::int64_t{1}),                      // 3
                   event(10, org_cap, none, std::int64_t{4}),                             // 4: cap_changed
                   event(25, std::string("nightly"), created, id(2)),                     // 5: schedule_fired
                   event(20, id(2), std::string("writer"), starting, std::int64_t{1})});  // 6: run_changed
    page(noon,
         {event(22, id(2), std::string("writer"), succeeded, none, std::int64_t{0}, std::int64_t{0}),  // 7: run_ended
          event(20, id(1), std::string("coder"), starting, std::int64_t{2}),                           // 8
          event(0, id(31), std::string("coder"), std::string("anthropic"), std::string("opus"), Id{}, id(11), Id{},
                std::int64_t{100}, std::int64_t{20}, std::int64_t{0}, false),  // 9: charged
          event(0, id(32), std::string("coder"), std::string("anthropic"), std::string("opus"), id(1), Id{}, id(22),
                std::int64_t{250}, std::int64_t{45}, std::int64_t{0}, true)});  // 10
    page(next_day, {event(0, id(33), std::string("writer"), none, none, Id{}, Id{}, Id{}, std::int64_t{70},
                          std::int64_t{10}, std::int64_t{0}, false)});  // 11
}

}  // namespace interlock::verify
