#include "verify/verify.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <set>

#include "verify/feed_walk.h"
#include "verify/findings.h"
#include "verify/ledger.h"
#include "verify/reader.h"
#include "verify/runs.h"
#include "verify/seals.h"
#include "verify/sessions.h"
#include "verify/text.h"

namespace interlock::verify {
namespace {

constexpr std::array<std::string_view, 21> tables{
    "orgs",      "agents",   "agent_totals", "api_keys",    "caps",      "budgets",     "budget_windows",
    "sessions",  "messages", "runs",         "claims",      "holds",     "cost_events", "rollups",
    "schedules", "answers",  "feed_pages",   "spend_marks", "run_steps", "ticks",       "seals"};

// Every org that has a row anywhere, found by stepping from one to the next: no table is read through for it.
std::set<std::int64_t> find_orgs(SnapshotReader& reader, Findings& findings) {
    std::set<std::int64_t> known;
    std::set<std::int64_t> all;
    for (const std::string_view table : tables) {
        std::optional<std::int64_t> last = -1;
        while (last) {
            const std::string sql = fmt::format("select org from {} where org > {} order by org limit 1", table, *last);
            last.reset();
            reader.each("orgs", sql, [&](ColumnReader row) { last = row.integer(); });
            if (!last) continue;
            if (table == "orgs") known.insert(*last);
            if (all.insert(*last).second && !known.contains(*last)) {
                findings.violated(Promise::nobody_forgotten, row_of(std::string(table), *last, {}),
                                  "there is no such org");
            }
        }
    }
    return all;
}

// One key is one command, and one command leaves a cost event or an answer.
void check_keys(std::int64_t org, SnapshotReader& reader, Findings& findings) {
    const std::string sql = fmt::format(
        "select a.key from answers a join cost_events e on e.org = a.org and e.key = a.key where a.org = {}", org);
    reader.each("answers", sql, [&](ColumnReader row) {
        findings.violated(Promise::nothing_twice, row_of("answers", org, {{"key", stored(row.id())}}),
                          "there is a cost event with the same key");
    });
}

void check_org(std::int64_t org, const Options& options, SnapshotReader& reader, Findings& findings) {
    // 1. The feed, because it says how the rest came to be.
    FeedWalk feed(org, reader, findings);
    feed.walk();

    // 2. Budgets, and what is set aside under them now.
    LedgerCheck ledger(org, reader, findings, feed);
    ledger.read_budgets();
    RunsCheck runs(org, reader, findings, feed, ledger);
    runs.read_agents();
    runs.read_claims();
    runs.read_holds();

    // 3. The ledger, once. From here on every sum is known.
    ledger.read_calls();
    ledger.read_cost_events();
    check_keys(org, reader, findings);
    ledger.check_holds();
    ledger.check_corrections();
    ledger.check_calls();

    // 4. Everything that must agree with it.
    runs.read_steps();
    runs.read_trees();
    runs.read_runs();
    ledger.check_marks();
    ledger.check_windows();
    ledger.check_agent_totals();
    ledger.check_rollups();
    check_sessions(org, reader, findings, ledger);
    runs.check_claims();
    runs.check_caps();
    runs.check_fences();
    runs.check_left_over();
    runs.check_ticks();
    feed.finish_ticks();
    check_text(org, reader, findings);
    check_seals(org, options.seal_keys, reader, findings);

    findings.report().cost_events += ledger.event_count();
    ++findings.report().orgs;
}

}  // namespace

Result<Report, store::ReadError> verify(store::Snapshot& snapshot, const Options& options) {
    SnapshotReader reader(snapshot, options.progress);
    Findings findings(options.examples_max);
    for (const std::int64_t org : find_orgs(reader, findings)) check_org(org, options, reader, findings);
    if (reader.error()) return fail(*reader.error());
    return findings.take();
}

}  // namespace interlock::verify
