// Ticks: what a schedule will do, and what it has done.
#include <fmt/format.h>

#include "api/route.h"
#include "core/feed.h"
#include "core/org_state.h"
#include "core/schedules.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct TickView {
    Instant tick;
    Instant at;  // With its jitter.
};
BOOST_DESCRIBE_STRUCT(TickView, (), (tick, at))

enum class TickOutcome { fired, skipped, coalesced };
BOOST_DESCRIBE_ENUM(TickOutcome, fired, skipped, coalesced)

struct PastTick {
    core::Seq seq;
    Instant at;
    TickOutcome outcome = TickOutcome::fired;
    Instant tick = far_past;  // Of a wake: the moment it came.
    core::RunId run;
    std::optional<core::RunState> run_status;
    std::optional<std::int64_t> late_ms;  // From the tick to what became of it; jitter is part of it.
    std::optional<std::string> reason;
};
BOOST_DESCRIBE_STRUCT(PastTick, (), (seq, at, outcome, tick, run, run_status, late_ms, reason))

// What an event says of a schedule, if it is about that one.
std::optional<PastTick> past_tick(const core::Event& event, const std::string& schedule) {
    PastTick past;
    if (const auto* fired = std::get_if<core::ScheduleFired>(&event); fired && fired->schedule == schedule) {
        past.tick = fired->tick;
        past.run = fired->run;
        return past;
    }
    if (const auto* skipped = std::get_if<core::ScheduleSkipped>(&event); skipped && skipped->schedule == schedule) {
        past.outcome = TickOutcome::skipped;
        past.tick = skipped->tick;
        past.reason = skipped->reason;
        return past;
    }
    if (const auto* joined = std::get_if<core::WakeCoalesced>(&event); joined && joined->schedule == schedule) {
        past.outcome = TickOutcome::coalesced;
        past.run = joined->run;
        return past;
    }
    return std::nullopt;
}

struct History {
    std::vector<PastTick> ticks;       // Newest first.
    std::optional<std::int64_t> rest;  // Where to read on: there may be more before this number.
};

// The page's events about the schedule that are before `before`, newest first.
Result<void, store::ReadError> add_page(const core::FeedPage& page, const core::Schedule& schedule, std::int64_t before,
                                        std::vector<PastTick>& ticks) {
    const auto events = core::events_of(page);
    if (!events) return fail(store::ReadError{"a page of the feed makes no sense"});
    for (std::size_t i = events->size(); i-- > 0;) {
        const core::Seq seq(page.first_seq.value + static_cast<std::int64_t>(i));
        if (seq.value >= before) continue;
        auto past = past_tick((*events)[i], schedule.name);
        if (!past) continue;
        past->seq = seq;
        past->at = page.at;
        if (past->tick != far_past) {
            past->late_ms = std::chrono::duration_cast<std::chrono::milliseconds>(page.at - past->tick).count();
        }
        ticks.push_back(std::move(*past));
    }
    return {};
}

// The feed has no index by schedule, so one question reads so many pages and no more; whoever wants more asks again
// where it ended.
Result<History, store::ReadError> read_history(store::Snapshot& snapshot, core::OrgId org,
                                               const core::Schedule& schedule, std::int64_t before, std::size_t limit) {
    constexpr std::int64_t pages_at_a_time = 64;
    constexpr std::int64_t pages_max = 16'384;
    History history;
    std::int64_t from = before;
    for (std::int64_t read = 0; history.ticks.size() <= limit; read += pages_at_a_time) {
        if (read >= pages_max) {
            history.rest = from;
            break;
        }
        // From the page that has the number before this one, backwards.
        const auto pages = store::read_rows<core::FeedPage>(
            snapshot, org,
            "and last_seq <= coalesce((select min(last_seq) from feed_pages where org = $1 and last_seq >= $2), $2) "
            "order by last_seq desc limit $3",
            {from - 1, pages_at_a_time});
        if (!pages) return fail(pages.error());
        bool ends = static_cast<std::int64_t>(pages->size()) < pages_at_a_time;
        for (const core::FeedPage& page : *pages) {
            // One of the same name that was deleted before has a history of its own.
            ends = ends || page.at < schedule.created_at;
            if (page.at < schedule.created_at) break;
            if (const auto added = add_page(page, schedule, before, history.ticks); !added) return fail(added.error());
            from = page.first_seq.value;
        }
        if (ends) break;
    }
    if (history.ticks.size() > limit) {
        history.ticks.resize(limit);
        history.rest = history.ticks.back().seq.value;
    }
    for (PastTick& tick : history.ticks) {
        if (tick.run.value.empty()) continue;
        const auto run = store::read_row<core::Run>(snapshot, org, tick.run.value);
        if (!run) return fail(run.error());
        if (*run) tick.run_status = (*run)->state;
    }
    return history;
}

// The schedule that is asked about, if the caller may know of it.
net::Task<Result<core::Schedule, Problem>> find_schedule(Call& call) {
    const core::OrgId org = call.caller.org;
    const std::string name = call.names[0];
    auto schedule = co_await read(
        call, [=](store::Snapshot& snapshot) { return store::read_row<core::Schedule>(snapshot, org, name); });
    if (!schedule) co_return fail(schedule.error());
    if (!*schedule || (*schedule)->deleted || !call.caller.may_see_agent((*schedule)->agent)) {
        co_return fail(not_found("schedule", name));
    }
    co_return std::move(**schedule);
}

Answered get_next(Call& call) {
    const auto count = read_count(call, "count", 5, 1, 1000);
    if (!count) co_return respond(call, count.error());
    const auto schedule = co_await find_schedule(call);
    if (!schedule) co_return respond(call, schedule.error());
    Page<TickView> page;
    for (const Instant tick : core::next_ticks(*schedule, static_cast<std::size_t>(*count))) {
        page.items.push_back({tick, core::due_at(*schedule, tick)});
    }
    co_return respond(page);
}

Answered get_history(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const auto before = read_count(call, "after", INT64_MAX, 1, INT64_MAX);
    if (!before) co_return respond(call, before.error());
    const auto schedule = co_await find_schedule(call);
    if (!schedule) co_return respond(call, schedule.error());
    const core::OrgId org = call.caller.org;
    const auto history = co_await read(
        call, [org, schedule = *schedule, from = *before, most = static_cast<std::size_t>(*limit)](
                  store::Snapshot& snapshot) { return read_history(snapshot, org, schedule, from, most); });
    if (!history) co_return respond(call, history.error());
    Page<PastTick> page{history->ticks, {}};
    if (history->rest) page.next = std::to_string(*history->rest);
    co_return respond(page);
}

}  // namespace

std::vector<Route> tick_routes() {
    return {
        {.method = net::Method::get,
         .path = "/v1/schedules/{name}/next",
         .needs = Access::read,
         .summary = "When a schedule is due next",
         .handler = get_next,
         .narrowest = Bound::agent,
         .query = {"count"},
         .answer = page_schema<TickView>},
        {.method = net::Method::get,
         .path = "/v1/schedules/{name}/history",
         .needs = Access::read,
         .summary = "What became of a schedule's ticks and wakes, newest first",
         .handler = get_history,
         .narrowest = Bound::agent,
         .query = {"after", "limit"},
         .answer = page_schema<PastTick>},
    };
}

}  // namespace interlock::api
