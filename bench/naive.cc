#include "bench/naive.h"

#include <sqlite3.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/id.h"
#include "bench/loop_clock.h"
#include "bench/workload.h"

namespace interlock::bench {

namespace {

constexpr const char* schema = R"(
    pragma journal_mode = wal;
    pragma synchronous = full;
    create table if not exists cost_events (
        org integer not null, key blob not null, at integer not null, agent text not null, provider text not null,
        model text not null, cost integer not null check (cost >= 0), input_tokens integer not null,
        output_tokens integer not null, primary key (org, key)) without rowid, strict;
    create table if not exists agent_runtime_state (
        org integer not null, agent text not null, settled integer not null, tokens integer not null,
        events integer not null, last_event_at integer not null, primary key (org, agent)) without rowid, strict;
    create table if not exists monthly_spend (
        org integer not null, budget text not null, start_at integer not null, settled integer not null,
        primary key (org, budget, start_at)) without rowid, strict;
    insert or ignore into agent_runtime_state values (1, 'agent-0000', 0, 0, 0, 0);
    insert or ignore into monthly_spend values (1, 'month-0000', 1793491200000000, 0);
)";

constexpr std::array statements = {
    "begin immediate",
    "insert into cost_events values (1, ?1, ?2, 'agent-0000', 'anthropic', 'claude-sonnet-4', 750000, 100, 30)",
    "update agent_runtime_state set settled = settled + 750000, tokens = tokens + 130, events = events + 1,"
    " last_event_at = ?2 where org = 1 and agent = 'agent-0000'",
    "update monthly_spend set settled = settled + 750000 where org = 1 and budget = 'month-0000'"
    " and start_at = 1793491200000000",
    "commit",
};
constexpr std::size_t insert_event = 1;
constexpr std::size_t update_agent = 2;

struct Close {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

class Naive {
 public:
    bool open(const std::string& file) {
        sqlite3* db = nullptr;
        const bool opened = sqlite3_open(file.c_str(), &db) == SQLITE_OK;
        db_.reset(db);
        if (!opened || sqlite3_exec(db, schema, nullptr, nullptr, nullptr) != SQLITE_OK) return false;
        for (std::size_t i = 0; i < statements.size(); ++i) {
            sqlite3_stmt* statement = nullptr;
            if (sqlite3_prepare_v2(db, statements[i], -1, &statement, nullptr) != SQLITE_OK) return false;
            prepared_[i].reset(statement);
        }
        return true;
    }

    bool charge(Id key, std::int64_t at) {
        std::array<unsigned char, 16> bytes{};
        const std::uint64_t high = __builtin_bswap64(key.high);
        const std::uint64_t low = __builtin_bswap64(key.low);
        std::memcpy(bytes.data(), &high, 8);
        std::memcpy(bytes.data() + 8, &low, 8);
        sqlite3_bind_blob(prepared_[insert_event].get(), 1, bytes.data(), 16, SQLITE_STATIC);
        sqlite3_bind_int64(prepared_[insert_event].get(), 2, at);
        sqlite3_bind_int64(prepared_[update_agent].get(), 2, at);
        for (const auto& statement : prepared_) {
            const bool done = sqlite3_step(statement.get()) == SQLITE_DONE;
            sqlite3_reset(statement.get());
            if (!done) return false;
        }
        return true;
    }

    std::string error() const { return sqlite3_errmsg(db_.get()); }

 private:
    std::unique_ptr<sqlite3, Close> db_;
    std::array<std::unique_ptr<sqlite3_stmt, Close>, statements.size()> prepared_;
};

}  // namespace

NaiveResult run_naive(const std::string& file, double seconds) {
    NaiveResult result;
    Naive naive;
    if (!naive.open(file)) {
        result.problem = naive.error();
        return result;
    }
    Ids ids;
    const auto begun = Clock::now();
    const auto end = begun + as_duration(seconds);
    for (auto before = begun; before < end;) {
        ids.set_time();
        const Id key = ids.next();
        if (!naive.charge(key, micros(made_at(key)))) {
            result.problem = naive.error();
            return result;
        }
        const auto after = Clock::now();
        result.latency.add(nanos_between(before, after));
        ++result.charges;
        before = after;
    }
    result.seconds = seconds_since(begun);
    return result;
}

}  // namespace interlock::bench
