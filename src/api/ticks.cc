// Ticks: what a schedule will do, and what it has done.
#include <charconv>

#include <fmt/format.h>

#include "api/route.h"
#include "api/sql_query.h"
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

struct PastTick {
    std::string schedule;
    std::int64_t number = 0;  // Of what became of its ticks and wakes; rises.
    Instant at;
    core::TickOutcome outcome = core::TickOutcome::fired;
    Instant tick = far_past;  // Of a wake: the moment it came.
    core::RunId run;
    std::optional<core::RunState> run_status;
    std::int64_t late_ms = 0;  // From the tick to what became of it; jitter is part of it.
    std::optional<std::string> reason;
};
BOOST_DESCRIBE_STRUCT(PastTick, (), (schedule, number, at, outcome, tick, run, run_status, late_ms, reason))

Result<std::vector<PastTick>, store::ReadError> read_ticks(store::Snapshot& snapshot, core::OrgId org,
                                                           const SqlQuery& question) {
    const auto rows = store::read_rows<core::ScheduleTick>(snapshot, org, question.sql, question.parameters);
    if (!rows) return fail(rows.error());
    std::vector<PastTick> ticks;
    for (const core::ScheduleTick& row : *rows) {
        PastTick& tick = ticks.emplace_back(
            PastTick{.schedule = row.schedule,
                     .number = row.number,
                     .at = row.at,
                     .outcome = row.outcome,
                     .tick = row.tick,
                     .run = row.run,
                     .run_status = {},
                     .late_ms = std::chrono::duration_cast<std::chrono::milliseconds>(row.at - row.tick).count(),
                     .reason = row.reason.empty() ? std::nullopt : std::optional(row.reason)});
        if (tick.run.value.empty()) continue;
        const auto run = store::read_row<core::Run>(snapshot, org, tick.run.value);
        if (!run) return fail(run.error());
        if (*run) tick.run_status = (*run)->state;
    }
    return ticks;
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

ResponseTask get_next(Call& call) {
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

ResponseTask get_history(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const auto before = read_count(call, "after", INT64_MAX, 1, INT64_MAX);
    if (!before) co_return respond(call, before.error());
    const auto schedule = co_await find_schedule(call);
    if (!schedule) co_return respond(call, schedule.error());
    SqlQuery question;
    question.where("schedule =", schedule->name);
    question.where("number <", *before);
    // One of the same name that was deleted before has a history of its own.
    question.where("at >=", micros(schedule->created_at));
    question.in_order("number desc", *limit + 1);
    const core::OrgId org = call.caller.org;
    auto ticks =
        co_await read(call, [org, question](store::Snapshot& snapshot) { return read_ticks(snapshot, org, question); });
    if (!ticks) co_return respond(call, ticks.error());
    co_return respond(
        page_of(std::move(*ticks), *limit, [](const PastTick& tick) { return std::to_string(tick.number); }));
}

// "1793491200000000.17.nightly": where the next page begins.
std::string cursor_of(const PastTick& tick) {
    return fmt::format("{}.{}.{}", micros(tick.at), tick.number, tick.schedule);
}

struct Cursor {
    std::int64_t at = INT64_MAX;
    std::int64_t number = INT64_MAX;
    std::string schedule;
};
Result<Cursor, Problem> read_cursor(std::string_view text) {
    Cursor cursor;
    const char* end = text.data() + text.size();
    const auto at = std::from_chars(text.data(), end, cursor.at);
    if (at.ec == std::errc() && at.ptr != end && *at.ptr == '.') {
        const auto number = std::from_chars(at.ptr + 1, end, cursor.number);
        if (number.ec == std::errc() && number.ptr != end && *number.ptr == '.') {
            cursor.schedule.assign(number.ptr + 1, end);
            return cursor;
        }
    }
    return fail(invalid("after is not a cursor of this list"));
}

ResponseTask list_ticks(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const auto from = read_instant(call, "from", far_past);
    if (!from) co_return respond(call, from.error());
    const auto to = read_instant(call, "to", far_future);
    if (!to) co_return respond(call, to.error());
    std::optional<Cursor> after;
    if (const auto text = call.parameter("after"); !text.empty()) {
        const auto cursor = read_cursor(text);
        if (!cursor) co_return respond(call, cursor.error());
        after = *cursor;
    }
    SqlQuery question;
    const std::string schedule(call.parameter("schedule"));
    if (!schedule.empty()) question.where("schedule =", schedule);
    question.where("at >=", micros(*from));
    // The index is entered at one bound only: a page further on must not begin at the newest tick again.
    question.where("at <", after && after->at < micros(*to) ? after->at + 1 : micros(*to));
    if (!call.caller.agent.empty()) {
        question.where("schedule in (select name from schedules where org = $1 and agent =", call.caller.agent);
        question.sql += ") ";
    }
    if (after) {
        const std::size_t first = question.parameters.size() + 2;
        question.parameters.insert(question.parameters.end(), {after->at, after->schedule, after->number});
        question.sql += fmt::format("and (at, schedule, number) < (${}, ${}, ${}) ", first, first + 1, first + 2);
    }
    question.in_order(schedule.empty() ? "at desc, schedule desc, number desc" : "at desc, number desc", *limit + 1);
    const core::OrgId org = call.caller.org;
    auto ticks =
        co_await read(call, [org, question](store::Snapshot& snapshot) { return read_ticks(snapshot, org, question); });
    if (!ticks) co_return respond(call, ticks.error());
    co_return respond(page_of(std::move(*ticks), *limit, cursor_of));
}

}  // namespace

std::vector<ApiRoute> tick_routes() {
    return {
        {.method = net::Method::get,
         .path = "/v1/schedules/{name}/next",
         .needs = Access::read,
         .summary = "List the next times of a schedule",
         .handler = get_next,
         .narrowest = Bound::agent,
         .query = {"count"},
         .answer = page_schema<TickView>},
        {.method = net::Method::get,
         .path = "/v1/schedules/{name}/history",
         .needs = Access::read,
         .summary = "List the past ticks of a schedule and their outcomes, newest first",
         .handler = get_history,
         .narrowest = Bound::agent,
         .query = {"after", "limit"},
         .answer = page_schema<PastTick>},
        {.method = net::Method::get,
         .path = "/v1/ticks",
         .needs = Access::read,
         .summary = "List the past ticks of all schedules and their outcomes, newest first",
         .handler = list_ticks,
         .narrowest = Bound::agent,
         .query = {"from", "to", "schedule", "after", "limit"},
         .answer = page_schema<PastTick>},
    };
}

}  // namespace interlock::api
