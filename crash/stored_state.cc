#include "crash/stored_state.h"

#include <algorithm>

#include <fmt/format.h>

#include "verify/verify.h"

namespace interlock::crash {

namespace {

class Digest {
 public:
    void add(const store::Value& value) {
        add_word(value.index());
        if (const auto* number = std::get_if<std::int64_t>(&value)) add_word(static_cast<std::uint64_t>(*number));
        if (const auto* bytes = std::get_if<std::string>(&value)) {
            add_word(bytes->size());
            add_word(std::hash<std::string>{}(*bytes));
        }
    }
    std::uint64_t value() const { return state_; }

 private:
    void add_word(std::uint64_t word) {
        state_ = (state_ ^ word) * 0x9E3779B97F4A7C15ull;
        state_ ^= state_ >> 29;
    }
    std::uint64_t state_ = 0x243F6A8885A308D3ull;
};

Id id_of(const store::Value& value) {
    const auto* bytes = std::get_if<std::string>(&value);
    Id id;
    if (bytes == nullptr || bytes->size() != 16) return id;
    const auto word = [&](std::size_t from) {
        std::uint64_t bits = 0;
        for (std::size_t i = from; i < from + 8; ++i) bits = bits << 8 | static_cast<unsigned char>((*bytes)[i]);
        return bits;
    };
    return {.high = word(0), .low = word(8)};
}

}  // namespace

Result<StoredState, std::string> read_state(store::Store& store) {
    auto snapshot = store.snapshot();
    if (!snapshot) return fail(snapshot.error().detail);
    return read_state(**snapshot);
}

Result<StoredState, std::string> read_state(store::Snapshot& snapshot) {
    StoredState state;
    const auto tables = snapshot.query(
        "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name",
        [&](const std::vector<store::Value>& row) { state.tables.push_back({.name = std::get<std::string>(row[0])}); });
    if (!tables) return fail(tables.error().detail);

    for (TableState& table : state.tables) {
        Digest digest;
        const bool has_keys = table.name == "ledger" || table.name == "answers";
        const auto read =
            snapshot.query(fmt::format("select * from {}", table.name), [&](const std::vector<store::Value>& row) {
                for (const store::Value& value : row) digest.add(value);
                if (has_keys) state.keys.push_back(id_of(row[1]));
                ++table.rows;
            });
        if (!read) return fail(read.error().detail);
        table.digest = digest.value();
    }
    std::ranges::sort(state.keys);
    return state;
}

bool StoredState::remembers(Id key) const { return std::ranges::binary_search(keys, key); }

std::string difference(const StoredState& is, const StoredState& should_be) {
    std::string text;
    for (std::size_t i = 0; i < std::max(is.tables.size(), should_be.tables.size()); ++i) {
        const TableState a = i < is.tables.size() ? is.tables[i] : TableState{};
        const TableState b = i < should_be.tables.size() ? should_be.tables[i] : TableState{};
        if (a == b) continue;
        text += fmt::format("{}{} has {} rows, should have {}{}", text.empty() ? "" : "; ", a.name, a.rows, b.rows,
                            a.rows == b.rows ? " with other contents" : "");
    }
    return text;
}

std::string counters_that_disagree(store::Snapshot& snapshot) {
    // Each counts the rows that are wrong.
    static constexpr std::pair<std::string_view, std::string_view> checks[] = {
        {"agent totals",
         "select count(*) from agent_totals t where (t.settled, t.events) <> (select coalesce(sum(cost), 0), count(*) "
         "from cost_events e where e.org = t.org and e.agent = t.agent)"},
        {"agents without totals",
         "select count(distinct agent) from cost_events where agent <> '' and agent not in (select agent from "
         "agent_totals)"},
        {"roll-ups",
         "select (select coalesce(sum(cost), 0) from rollups) <> (select coalesce(sum(cost), 0) from cost_events) or "
         "(select coalesce(sum(events), 0) from rollups) <> (select count(*) from cost_events)"},
        {"monthly window of the budget over everything",
         "select count(*) from budget_windows w where budget = 'everything' and settled <> (select coalesce(sum(cost), "
         "0) "
         "from cost_events e where e.org = w.org and counted_at >= w.start_at and counted_at < w.end_at)"},
        {"daily windows of agents",
         "select count(*) from budget_windows w where budget like '%-daily' and settled <> (select coalesce(sum(cost), "
         "0) from cost_events e where e.org = w.org and e.agent || '-daily' = w.budget and counted_at >= w.start_at "
         "and "
         "counted_at < w.end_at)"},
        {"sessions",
         "select count(*) from sessions s where (s.next_seq - s.first_seq, s.next_seq) <> (select count(*), "
         "coalesce(max(seq) + 1, s.first_seq) from messages m where m.org = s.org and m.session = s.id)"},
        {"claims of runs that are not live",
         "select count(*) from claims c where not exists (select 1 from runs r where r.org = c.org and r.id = c.run "
         "and "
         "r.state in ('starting', 'running', 'paused') and r.fence = c.fence)"},
        {"live runs without their claims",
         "select count(*) from runs r where state in ('starting', 'running', 'paused') and json_array_length(wanted) "
         "<> "
         "(select count(*) from claims c where c.org = r.org and c.run = r.id)"},
    };
    std::string text;
    for (const auto& [what, sql] : checks) {
        const auto read = snapshot.query(sql, [&, name = what](const std::vector<store::Value>& row) {
            if (std::get<std::int64_t>(row[0]) != 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
        });
        if (!read) return read.error().detail;
    }
    return text;
}

std::string verify_text(store::Store& store) {
    auto snapshot = store.snapshot();
    return snapshot ? verify_text(**snapshot) : snapshot.error().detail;
}

std::string verify_text(store::Snapshot& snapshot) {
    const auto report = verify::verify(snapshot, {.progress = {}, .seal_keys = {store::SealKey::from_text({})}});
    if (!report) return report.error().detail;
    for (const verify::PromiseReport& promise : report->promises) {
        if (promise.violations == 0) continue;
        const std::string example =
            promise.examples.empty() ? "" : ": " + promise.examples[0].row + ": " + promise.examples[0].what;
        return fmt::format("{} {}: {} violations{}", promise.id, promise.title, promise.violations, example);
    }
    return "";
}

}  // namespace interlock::crash
