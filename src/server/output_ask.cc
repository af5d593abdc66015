#include "server/output_ask.h"

#include <algorithm>
#include <optional>

#include "base/calendar.h"
#include "core/org_state.h"
#include "store/read_rows.h"

namespace interlock::server {
namespace {

// Which model it will be is not known before it asks; the dear ones cost about this, in nano-dollars per token.
constexpr std::int64_t output_nanos_per_token = 25'000;
constexpr std::int64_t tokens_min = 2'048;
constexpr std::int64_t tokens_max = 32'000;

Result<std::optional<std::int64_t>, store::ReadError> least_free(store::Snapshot& snapshot, core::OrgId org,
                                                                 const core::Run& run, Instant now) {
    std::optional<std::int64_t> least;
    const auto lower = [&](std::int64_t free) { least = std::min(least.value_or(free), free); };
    if (run.ceiling > 0) lower(run.ceiling - run.settled);
    const auto budgets =
        store::read_rows<core::Budget>(snapshot, org, "and metric = 'usd' and hard = 1 and deleted = 0");
    if (!budgets) return fail(budgets.error());
    core::Attribution who = run.who;
    who.run = run.id;
    for (const core::Budget& budget : *budgets) {
        if (!core::covers(budget.scope, who)) continue;
        const WindowSpan span = window_at(budget.window, find_zone(budget.zone).value_or(utc()), now);
        const auto windows = store::read_rows<core::Window>(snapshot, org, "and budget = $2 and start_at = $3",
                                                            {budget.name, micros(span.start)});
        if (!windows) return fail(windows.error());
        const std::int64_t used = windows->empty() ? 0 : windows->front().settled + windows->front().held;
        lower(budget.limit_units - used);
    }
    return least;
}

}  // namespace

std::int64_t affordable_output(store::ReadPool& reads, core::OrgId org, const core::Run& run, Instant now) {
    const auto free = reads.with([&](store::Snapshot& snapshot) { return least_free(snapshot, org, run, now); });
    if (!free || !*free) return 0;
    // Half of it: the call has a prompt too.
    const std::int64_t tokens = std::max<std::int64_t>(0, **free) / 2 / output_nanos_per_token;
    return tokens >= tokens_max ? 0 : std::max(tokens, tokens_min);
}

}  // namespace interlock::server
