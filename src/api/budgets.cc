// Budgets: what may be spent, by whom, in which window, and what is left of it.
#include <algorithm>

#include <fmt/format.h>

#include "api/route.h"
#include "base/calendar.h"
#include "core/budgets.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct BudgetBody {
    static constexpr std::array required{"limit"};
    core::Scope scope;
    core::Metric metric = core::Metric::usd;
    WindowKind window = WindowKind::month;
    std::string timezone = "UTC";
    AmountText limit;
    bool hard = true;
    std::vector<std::int32_t> warn;
    core::OnExhausted on_exhausted = core::OnExhausted::refuse;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(BudgetBody, (), (scope, metric, window, timezone, limit, hard, warn, on_exhausted, key))

struct LimitBody {
    static constexpr std::array required{"limit"};
    AmountText limit;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(LimitBody, (), (limit, key))

struct WindowView {
    WindowKind kind = WindowKind::month;
    Instant start;
    Instant end;
};
BOOST_DESCRIBE_STRUCT(WindowView, (), (kind, start, end))

struct BudgetView {
    std::string name;
    JsonText scope;  // Only what it states.
    core::Metric metric = core::Metric::usd;
    std::string timezone;
    AmountText limit;
    bool hard = true;
    std::vector<std::int32_t> warn;
    core::OnExhausted on_exhausted = core::OnExhausted::refuse;
    Instant created_at;
    std::optional<std::string> frozen;
    AmountText settled;
    AmountText held;
    AmountText free;
    std::int64_t open_holds = 0;
    bool exhausted = false;
    WindowView window;
};
BOOST_DESCRIBE_STRUCT(BudgetView, (),
                      (name, scope, metric, timezone, limit, hard, warn, on_exhausted, created_at, frozen, settled,
                       held, free, open_holds, exhausted, window))

struct PastWindow {
    Instant start;
    Instant end;
    AmountText limit;
    AmountText settled;
    AmountText held;
};
BOOST_DESCRIBE_STRUCT(PastWindow, (), (start, end, limit, settled, held))

std::string stated_text(const core::Scope& scope) {
    std::string out;
    char before = '{';
    boost::mp11::mp_for_each<wire_detail::DescribedMembers<core::Scope>>([&](auto member) {
        using Member = std::remove_cvref_t<decltype(scope.*member.pointer)>;
        if (scope.*member.pointer == Member{}) return;
        out += fmt::format("{}\"{}\":", before, member.name);
        put_json(out, scope.*member.pointer);
        before = ',';
    });
    return before == '{' ? "{}" : out + "}";
}

// A window that nothing has happened in has no row yet.
Result<core::Window, store::ReadError> read_window(store::Snapshot& snapshot, core::OrgId org,
                                                   const core::Budget& budget, Instant start) {
    const auto found = store::first_of(store::read_rows<core::Window>(
        snapshot, org, "and budget = $2 and start_at = $3", {budget.name, micros(start)}));
    if (!found) return fail(found.error());
    return found->value_or(core::Window{});
}

Result<BudgetView, store::ReadError> view_of(store::Snapshot& snapshot, core::OrgId org, const core::Budget& budget,
                                             Instant now) {
    const WindowSpan span = window_at(budget.window, find_zone(budget.zone).value_or(utc()), now);
    const auto found = read_window(snapshot, org, budget, span.start);
    if (!found) return fail(found.error());
    const core::Window& window = *found;
    const auto holds = store::read_number(
        snapshot, org,
        "select count(distinct hold) from hold_parts where org = $1 and budget = $2 and window_start = $3",
        {budget.name, micros(span.start)});
    if (!holds) return fail(holds.error());
    const auto amount = [&](std::int64_t units) { return AmountText{amount_text(budget.metric, units)}; };
    const std::int64_t free = std::max<std::int64_t>(0, budget.limit_units - window.settled - window.held);
    return BudgetView{.name = budget.name,
                      .scope = {stated_text(budget.scope)},
                      .metric = budget.metric,
                      .timezone = budget.zone,
                      .limit = amount(budget.limit_units),
                      .hard = budget.hard,
                      .warn = budget.warn,
                      .on_exhausted = budget.on_exhausted,
                      .created_at = budget.created_at,
                      .frozen = budget.frozen.empty() ? std::nullopt : std::optional(budget.frozen),
                      .settled = amount(window.settled),
                      .held = amount(window.held),
                      .free = amount(free),
                      .open_holds = *holds,
                      .exhausted = window.exhausted,
                      .window = {budget.window, span.start, span.end}};
}

bool may_see(const Principal& caller, const core::Budget& budget) {
    if (!caller.budget.empty()) return caller.budget == budget.name;
    return caller.agent.empty() || budget.scope.agent.empty() || budget.scope.agent == caller.agent;
}

// What `view_of` makes of the budget of that name.
template <class View>
ResponseTask show_as(Call& call, std::string name, int status, bool repeated,
                     Result<View, store::ReadError> (*view_of)(store::Snapshot& snapshot, core::OrgId org,
                                                               const core::Budget& budget, Instant now)) {
    const Principal caller = call.caller;
    const Instant now = call.parts.commands.now();
    const auto view =
        co_await read(call, [=](store::Snapshot& snapshot) -> Result<std::optional<View>, store::ReadError> {
            const auto budget = store::read_row<core::Budget>(snapshot, caller.org, name);
            if (!budget) return fail(budget.error());
            if (!*budget || (*budget)->deleted || !may_see(caller, **budget)) return std::optional<View>();
            auto found = view_of(snapshot, caller.org, **budget, now);
            if (!found) return fail(found.error());
            return std::optional(std::move(*found));
        });
    if (!view) co_return respond(call, view.error());
    if (!*view) co_return respond(call, not_found("budget", name));
    co_return respond(status, **view, repeated);
}

ResponseTask show_budget(Call& call, std::string name, int status, bool repeated) {
    return show_as<BudgetView>(call, std::move(name), status, repeated, view_of);
}

ResponseTask get_budget(Call& call) { return show_budget(call, call.names[0], 200, false); }

ResponseTask list_budgets(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const std::string after(call.parameter("after"));
    const Principal caller = call.caller;
    const Instant now = call.parts.commands.now();
    const std::int64_t count = *limit;
    auto views =
        co_await read(call, [=](store::Snapshot& snapshot) -> Result<std::vector<BudgetView>, store::ReadError> {
            // What a bound key may not see is left out before the page is cut.
            const std::int64_t most = caller.bound() == Bound::nothing ? count + 1 : INT64_MAX;
            const auto budgets = store::read_rows<core::Budget>(
                snapshot, caller.org, "and deleted = 0 and name > $2 order by name limit $3", {after, most});
            if (!budgets) return fail(budgets.error());
            std::vector<BudgetView> views;
            for (const core::Budget& budget : *budgets) {
                if (static_cast<std::int64_t>(views.size()) > count) break;
                if (!may_see(caller, budget)) continue;
                auto view = view_of(snapshot, caller.org, budget, now);
                if (!view) return fail(view.error());
                views.push_back(std::move(*view));
            }
            return views;
        });
    if (!views) co_return respond(call, views.error());
    co_return respond(page_of(std::move(*views), count, [](const BudgetView& view) { return view.name; }));
}

ResponseTask list_windows(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const auto after = read_count(call, "after", INT64_MAX, INT64_MIN, INT64_MAX);
    if (!after) co_return respond(call, after.error());
    const Principal caller = call.caller;
    const std::string name = call.names[0];
    const std::int64_t count = *limit;
    const std::int64_t before = *after;
    struct Found {
        std::optional<core::Budget> budget;
        std::vector<core::Window> windows;
    };
    auto found = co_await read(call, [=](store::Snapshot& snapshot) -> Result<Found, store::ReadError> {
        auto budget = store::read_row<core::Budget>(snapshot, caller.org, name);
        if (!budget) return fail(budget.error());
        auto windows = store::read_rows<core::Window>(
            snapshot, caller.org, "and budget = $2 and start_at < $3 order by start_at desc limit $4",
            {name, before, count + 1});
        if (!windows) return fail(windows.error());
        return Found{std::move(*budget), std::move(*windows)};
    });
    if (!found) co_return respond(call, found.error());
    if (!found->budget || !may_see(caller, *found->budget)) co_return respond(call, not_found("budget", name));
    const core::Metric metric = found->budget->metric;
    auto page = page_of(std::move(found->windows), count,
                        [](const core::Window& window) { return std::to_string(micros(window.start_at)); });
    Page<PastWindow> shown{{}, page.next};
    for (const core::Window& window : page.items) {
        shown.items.push_back({window.start_at,
                               window.end_at,
                               {amount_text(metric, window.limit_units)},
                               {amount_text(metric, window.settled)},
                               {amount_text(metric, window.held)}});
    }
    co_return respond(shown);
}

// ---- the line of a window -----------------------------------------------------------------------------------------

struct LinePoint {
    Instant at;
    AmountText settled;  // When this stretch of time began.
};
BOOST_DESCRIBE_STRUCT(LinePoint, (), (at, settled))

struct LineView {
    std::string budget;
    core::Metric metric = core::Metric::usd;
    AmountText limit;
    Instant start;
    Instant end;
    AmountText settled;
    AmountText held;
    std::vector<LinePoint> points;
    AmountText rate_per_hour;
    Instant used_up_at;                   // At this rate, if that is before the window turns.
    std::optional<AmountText> projected;  // At the window's end; none where it has no end.
};
BOOST_DESCRIBE_STRUCT(LineView, (),
                      (budget, metric, limit, start, end, settled, held, points, rate_per_hour, used_up_at, projected))

// What the last quarter of the elapsed window says of the rest. An hour of silence in the morning says little, and so
// do the first seconds of a day: it is never less than a quarter of an hour.
struct SpendPace {
    std::int64_t spent = 0;
    Duration in = std::chrono::minutes(15);

    // `spent` goes on for this long.
    std::int64_t over(Duration time) const { return scaled(spent, time.count(), in.count()); }
    // How long `amount` lasts; nothing is spent, and it lasts forever.
    std::optional<Duration> until(std::int64_t amount) const {
        if (spent == 0) return std::nullopt;
        return Duration(scaled(amount, in.count(), spent));
    }

 private:
    static std::int64_t scaled(std::int64_t amount, std::int64_t by, std::int64_t of) {
        const __int128 result = static_cast<__int128>(amount) * by / of;
        return result > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(result);
    }
};

SpendPace pace_of(const core::Budget& budget, const core::Window& window, const std::vector<core::SpendMark>& marks,
                  Instant start, Instant began, Instant now) {
    const Duration bucket = core::bucket_of(budget.window);
    const Instant from = std::max(began, now - std::max({(now - began) / 4, bucket, SpendPace{}.in}));
    // What was settled is known for the moments at which buckets begin: the first mark from there on says it.
    const Instant since = start + (from - start) / bucket * bucket;
    const auto mark = std::ranges::lower_bound(marks, since, {}, &core::SpendMark::at);
    if (mark == marks.end()) return {};
    return {.spent = window.settled - mark->settled, .in = std::max(SpendPace{}.in, now - since)};
}

Result<LineView, store::ReadError> line_of(store::Snapshot& snapshot, core::OrgId org, const core::Budget& budget,
                                           Instant now) {
    const WindowSpan span = window_at(budget.window, find_zone(budget.zone).value_or(utc()), now);
    const auto found = read_window(snapshot, org, budget, span.start);
    if (!found) return fail(found.error());
    const core::Window& window = *found;
    const auto marks = store::read_rows<core::SpendMark>(snapshot, org, "and budget = $2 and start_at = $3 order by at",
                                                         {budget.name, micros(span.start)});
    if (!marks) return fail(marks.error());

    const auto amount = [&](std::int64_t units) { return AmountText{amount_text(budget.metric, units)}; };
    const bool turns = span.end != far_future;
    // A window of all time has no beginning that a line could be drawn from.
    const Instant began = turns ? span.start : marks->empty() ? now : marks->front().at;
    const SpendPace pace = pace_of(budget, window, *marks, span.start, began, now);
    const Duration rest = std::max(Duration(0), span.end - now);
    LineView view{.budget = budget.name,
                  .metric = budget.metric,
                  .limit = amount(budget.limit_units),
                  .start = span.start,
                  .end = span.end,
                  .settled = amount(window.settled),
                  .held = amount(window.held),
                  .points = {},
                  .rate_per_hour = amount(pace.over(std::chrono::hours(1))),
                  .used_up_at = far_past,
                  .projected = {}};
    if (turns) view.points.push_back({span.start, amount(0)});
    for (const core::SpendMark& mark : *marks) {
        if (!turns || mark.at > span.start) view.points.push_back({mark.at, amount(mark.settled)});
    }
    const std::int64_t free = std::max<std::int64_t>(0, budget.limit_units - window.settled - window.held);
    const auto lasts = pace.until(free);
    if (lasts && *lasts < rest) view.used_up_at = now + *lasts;
    std::int64_t projected = 0;
    if (__builtin_add_overflow(window.settled, pace.over(rest), &projected)) projected = INT64_MAX;
    if (turns) view.projected = amount(projected);
    return view;
}

ResponseTask get_line(Call& call) { return show_as<LineView>(call, call.names[0], 200, false, line_of); }

Result<std::int64_t, Problem> limit_in(core::Metric metric, const AmountText& text) {
    const auto limit = amount_from_text(metric, text.text);
    if (limit) return *limit;
    return fail(invalid(
        fmt::format("limit is '{}'; for metric {} it must be {}", text.text, to_json(metric),
                    metric == core::Metric::usd ? "dollars with at most nine decimals: \"10.00\"" : "a whole number"),
        "/limit"));
}

// All but the limit stays as it is. Somebody who changes the rest at the same moment may find it changed back.
ResponseTask put_limit(Call& call) {
    const auto body = read_body<LimitBody>(call);
    if (!body) co_return respond(call, body.error());
    const core::OrgId org = call.caller.org;
    const std::string name = call.names[0];
    const auto budget = co_await read(
        call, [=](store::Snapshot& snapshot) { return store::read_row<core::Budget>(snapshot, org, name); });
    if (!budget) co_return respond(call, budget.error());
    if (!*budget || (*budget)->deleted) co_return respond(call, not_found("budget", name));
    const core::Budget& row = **budget;
    const auto limit = limit_in(row.metric, body->limit);
    if (!limit) co_return respond(call, limit.error());
    const auto done = co_await ask(call,
                                   core::PutBudget{.name = name,
                                                   .scope = row.scope,
                                                   .metric = row.metric,
                                                   .window = row.window,
                                                   .zone = row.zone,
                                                   .limit_units = *limit,
                                                   .hard = row.hard,
                                                   .warn = row.warn,
                                                   .on_exhausted = row.on_exhausted},
                                   body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show_budget(call, name, 200, done->repeated);
}

ResponseTask put_budget(Call& call) {
    const auto body = read_body<BudgetBody>(call);
    if (!body) co_return respond(call, body.error());
    const auto limit = limit_in(body->metric, body->limit);
    if (!limit) co_return respond(call, limit.error());
    const auto done = co_await ask(call,
                                   core::PutBudget{.name = call.names[0],
                                                   .scope = body->scope,
                                                   .metric = body->metric,
                                                   .window = body->window,
                                                   .zone = body->timezone,
                                                   .limit_units = *limit,
                                                   .hard = body->hard,
                                                   .warn = body->warn,
                                                   .on_exhausted = body->on_exhausted},
                                   body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show_budget(call, call.names[0], 200, done->repeated);
}

ResponseTask delete_budget(Call& call) {
    const auto done = co_await ask(call, core::DeleteBudget{call.names[0]});
    co_return done ? no_content(done->repeated) : respond(call, done.error());
}

ResponseTask unfreeze_budget(Call& call) {
    const auto body = read_body<OnlyKey>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask(call, core::UnfreezeBudget{call.names[0]}, body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show_budget(call, call.names[0], 200, done->repeated);
}

}  // namespace

std::vector<ApiRoute> budget_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::get,
         .path = "/v1/budgets",
         .needs = read,
         .summary = "List budgets with their settled, held and free amounts",
         .handler = list_budgets,
         .narrowest = Bound::budget,
         .query = {"after", "limit"},
         .answer = page_schema<BudgetView>},
        {.method = Method::get,
         .path = "/v1/budgets/{name}",
         .needs = read,
         .summary = "Show a budget",
         .handler = get_budget,
         .narrowest = Bound::budget,
         .answer = schema_of<BudgetView>},
        {.method = Method::put,
         .path = "/v1/budgets/{name}",
         .needs = operate,
         .summary = "Create or change a budget",
         .handler = put_budget,
         .body = schema_of<BudgetBody>,
         .example =
             R"({"scope": {"agent": "writer"}, "metric": "usd", "window": "day", "timezone": "UTC", "limit": "10.00",)"
             R"( "hard": true, "warn": [50, 80], "on_exhausted": "refuse"})",
         .answer = schema_of<BudgetView>},
        {.method = Method::delete_,
         .path = "/v1/budgets/{name}",
         .needs = operate,
         .summary = "Delete a budget; its past windows are kept",
         .handler = delete_budget,
         .status = 204},
        {.method = Method::get,
         .path = "/v1/budgets/{name}/windows",
         .needs = read,
         .summary = "List the windows of a budget, newest first",
         .handler = list_windows,
         .narrowest = Bound::budget,
         .query = {"after", "limit"},
         .answer = page_schema<PastWindow>},
        {.method = Method::get,
         .path = "/v1/budgets/{name}/line",
         .needs = read,
         .summary = "Show the spending of a budget's current window and its projection",
         .handler = get_line,
         .narrowest = Bound::budget,
         .answer = schema_of<LineView>},
        {.method = Method::put,
         .path = "/v1/budgets/{name}/limit",
         .needs = operate,
         .summary = "Change only the limit of a budget",
         .handler = put_limit,
         .body = schema_of<LimitBody>,
         .example = R"({"limit": "20.00"})",
         .answer = schema_of<BudgetView>},
        {.method = Method::post,
         .path = "/v1/budgets/{name}/unfreeze",
         .needs = operate,
         .summary = "Unfreeze a budget",
         .handler = unfreeze_budget,
         .body = schema_of<OnlyKey>,
         .answer = schema_of<BudgetView>},
    };
}

}  // namespace interlock::api
