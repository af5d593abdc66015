// Holds: money set aside before it is known how much will be spent.
#include <fmt/format.h>

#include "api/attribution.h"
#include "api/route.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct HoldBody : AccountBody {
    static constexpr std::array required{"agent"};
    Money amount;
    std::int64_t tokens = 0;
    std::int64_t calls = 0;
    std::int64_t ttl_s = 60;
    bool dispatched = false;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(HoldBody, (AccountBody), (amount, tokens, calls, ttl_s, dispatched, key))

struct SettleBody {
    static constexpr std::array required{"cost"};
    Money cost;
    Usage usage;
    std::int64_t calls = 1;
    std::string price;
    bool estimated = false;
    bool unpriced = false;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(SettleBody, (), (cost, usage, calls, price, estimated, unpriced, key))

struct ExtendBody {
    std::int64_t ttl_s = 60;
    bool dispatched = false;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(ExtendBody, (), (ttl_s, dispatched, key))

struct HeldAnswer {
    core::HoldId id;
    std::string status = "held";
    Money amount;
    Instant expires_at;
    bool repeated = false;
};
BOOST_DESCRIBE_STRUCT(HeldAnswer, (), (id, status, amount, expires_at, repeated))

struct ExtendedAnswer {
    core::HoldId id;
    std::string status = "held";
    Instant expires_at;
    bool repeated = false;
};
BOOST_DESCRIBE_STRUCT(ExtendedAnswer, (), (id, status, expires_at, repeated))

struct SettledAnswer {
    core::HoldId id;
    std::string status = "settled";
    core::Seq seq;
    Money cost;
    Money overage;
    bool repeated = false;
};
BOOST_DESCRIBE_STRUCT(SettledAnswer, (), (id, status, seq, cost, overage, repeated))

struct ReleasedAnswer {
    core::HoldId id;
    std::string status = "released";
    bool repeated = false;
};
BOOST_DESCRIBE_STRUCT(ReleasedAnswer, (), (id, status, repeated))

struct PartView {
    std::string budget;
    AmountText amount;
};
BOOST_DESCRIBE_STRUCT(PartView, (), (budget, amount))

struct HoldView {
    core::HoldId id;
    std::string status;
    std::string agent;
    std::string workflow;
    std::string provider;
    std::string model;
    core::RunId run;
    core::SessionId session;
    core::Tags tags;
    Money amount;
    std::int64_t tokens = 0;
    std::int64_t calls = 0;
    bool dispatched = false;
    core::HoldOpener opened_by = core::HoldOpener::key;
    Instant created_at;
    Instant expires_at;
    Instant closed_at;
    std::vector<PartView> budgets;
};
BOOST_DESCRIBE_STRUCT(HoldView, (),
                      (id, status, agent, workflow, provider, model, run, session, tags, amount, tokens, calls,
                       dispatched, opened_by, created_at, expires_at, closed_at, budgets))

using BudgetMetrics = std::map<std::string, core::Metric>;

Result<BudgetMetrics, store::ReadError> metrics_of_budgets(store::Snapshot& snapshot, core::OrgId org) {
    const auto budgets = store::read_rows<core::Budget>(snapshot, org);
    if (!budgets) return fail(budgets.error());
    BudgetMetrics metrics;
    for (const core::Budget& budget : *budgets) metrics[budget.name] = budget.metric;
    return metrics;
}

HoldView view_of(const core::Hold& hold, const BudgetMetrics& metrics) {
    HoldView view{
        .id = hold.id,
        .status = hold.state == core::HoldState::open ? "held" : boost::describe::enum_to_string(hold.state, ""),
        .agent = hold.who.agent,
        .workflow = hold.who.workflow,
        .provider = hold.who.provider,
        .model = hold.who.model,
        .run = hold.who.run,
        .session = hold.who.session,
        .tags = hold.who.tags,
        .amount = Money::nanos(hold.bound.usd),
        .tokens = hold.bound.tokens,
        .calls = hold.bound.calls,
        .dispatched = hold.dispatched,
        .opened_by = hold.opened_by,
        .created_at = hold.created_at,
        .expires_at = hold.expires_at,
        .closed_at = hold.state == core::HoldState::open ? far_past : hold.closed_at,
        .budgets = {}};
    for (const core::HoldPart& part : hold.parts) {
        const auto found = metrics.find(part.budget);
        const core::Metric metric = found == metrics.end() ? core::Metric::usd : found->second;
        view.budgets.push_back({part.budget, {amount_text(metric, part.amount)}});
    }
    return view;
}

ResponseTask reserve(Call& call) {
    const auto body = read_body<HoldBody>(call);
    if (!body) co_return respond(call, body.error());
    if (auto problem = co_await check_account(call, attribution_of(call.caller, *body)))
        co_return respond(call, *problem);
    if (body->amount == Money() && body->tokens == 0 && body->calls == 0) {
        co_return respond(call, invalid("amount is missing; a hold reserves dollars, tokens or calls", "/amount"));
    }
    const auto done = co_await ask(
        call,
        core::Reserve{.hold = core::HoldId(call.parts.commands.fresh_id()),
                      .who = attribution_of(call.caller, *body),
                      .fence = body->fence,
                      .bound = {.usd = body->amount.nanos(), .tokens = body->tokens, .calls = body->calls, .runs = 0},
                      .ttl_s = body->ttl_s,
                      .dispatched = body->dispatched},
        body->key);
    if (!done) co_return respond(call, done.error());
    const auto& reply = done->as<core::ReserveReply>();
    co_return respond(
        201,
        HeldAnswer{
            .id = reply.hold, .amount = body->amount, .expires_at = reply.expires_at, .repeated = done->repeated},
        done->repeated);
}

// Whether the caller's key may see this hold. Keys that are bound to nothing are not asked to look.
net::Task<Result<core::HoldId, Problem>> reachable_hold(Call& call) {
    const auto id = read_id<core::HoldId>("hold", call.names[0]);
    if (!id || call.caller.bound() == Bound::nothing) co_return id;
    const core::OrgId org = call.caller.org;
    const Id wanted = id->value;
    const auto hold = co_await read(
        call, [=](store::Snapshot& snapshot) { return store::read_row<core::Hold>(snapshot, org, wanted); });
    if (!hold) co_return fail(hold.error());
    const bool mine = *hold && call.caller.may_see_agent((*hold)->who.agent) &&
                      (call.caller.run.value.empty() || (*hold)->who.run == call.caller.run) &&
                      (call.caller.budget.empty() || (*hold)->who.api_key == call.caller.key_id);
    if (!mine) co_return fail(not_found("hold", call.names[0]));
    co_return id;
}

ResponseTask settle(Call& call) {
    const auto id = co_await reachable_hold(call);
    if (!id) co_return respond(call, id.error());
    const auto body = read_body<SettleBody>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask(call,
                                   core::SettleHold{.hold = *id,
                                                    .cost = body->cost,
                                                    .usage = body->usage,
                                                    .calls = body->calls,
                                                    .price = body->price,
                                                    .estimated = body->estimated,
                                                    .unpriced = body->unpriced,
                                                    .by = actor_of(call.caller)},
                                   body->key);
    if (!done) co_return respond(call, done.error());
    const auto& reply = done->as<core::SettleReply>();
    co_return respond(
        200,
        SettledAnswer{
            .id = *id, .seq = reply.seq, .cost = reply.cost, .overage = reply.overage, .repeated = done->repeated},
        done->repeated);
}

ResponseTask release(Call& call) {
    const auto id = co_await reachable_hold(call);
    if (!id) co_return respond(call, id.error());
    const auto body = read_body<OnlyKey>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask(call, core::ReleaseHold{*id, actor_of(call.caller)}, body->key);
    if (!done) co_return respond(call, done.error());
    co_return respond(200, ReleasedAnswer{.id = *id, .repeated = done->repeated}, done->repeated);
}

ResponseTask extend(Call& call) {
    const auto id = co_await reachable_hold(call);
    if (!id) co_return respond(call, id.error());
    const auto body = read_body<ExtendBody>(call);
    if (!body) co_return respond(call, body.error());
    const auto done =
        co_await ask(call, core::ExtendHold{*id, body->ttl_s, body->dispatched, actor_of(call.caller)}, body->key);
    if (!done) co_return respond(call, done.error());
    co_return respond(
        200,
        ExtendedAnswer{.id = *id, .expires_at = done->as<core::HoldReply>().expires_at, .repeated = done->repeated},
        done->repeated);
}

ResponseTask get_hold(Call& call) {
    const auto id = co_await reachable_hold(call);
    if (!id) co_return respond(call, id.error());
    const core::OrgId org = call.caller.org;
    const Id wanted = id->value;
    const auto view =
        co_await read(call, [=](store::Snapshot& snapshot) -> Result<std::optional<HoldView>, store::ReadError> {
            const auto hold = store::read_row<core::Hold>(snapshot, org, wanted);
            if (!hold) return fail(hold.error());
            const auto metrics = metrics_of_budgets(snapshot, org);
            if (!metrics) return fail(metrics.error());
            return *hold ? std::optional(view_of(**hold, *metrics)) : std::nullopt;
        });
    if (!view) co_return respond(call, view.error());
    if (!*view) co_return respond(call, not_found("hold", call.names[0]));
    co_return respond(200, **view, false);
}

ResponseTask list_holds(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const std::string status(call.parameter("status").empty() ? "open" : call.parameter("status"));
    if (status != "open" && status != "settled" && status != "released") {
        co_return respond(call, invalid("status is '" + status + "'; it must be open, settled or released"));
    }
    const std::string agent(call.caller.agent.empty() ? call.parameter("agent") : std::string_view(call.caller.agent));
    Id after;
    if (const auto text = call.parameter("after"); !text.empty()) {
        const auto id = read_id<core::HoldId>("hold", text);
        if (!id) co_return respond(call, invalid("after is not a cursor of this list"));
        after = id->value;
    }
    const core::OrgId org = call.caller.org;
    const std::int64_t count = *limit;
    auto views = co_await read(call, [=](store::Snapshot& snapshot) -> Result<std::vector<HoldView>, store::ReadError> {
        const auto holds =
            store::read_rows<core::Hold>(snapshot, org,
                                         fmt::format("and state = '{}' and id > $2 {} order by id limit $3", status,
                                                     agent.empty() ? "" : "and agent = $4"),
                                         {after, count + 1, agent});
        if (!holds) return fail(holds.error());
        const auto metrics = metrics_of_budgets(snapshot, org);
        if (!metrics) return fail(metrics.error());
        std::vector<HoldView> views;
        for (const core::Hold& hold : *holds) views.push_back(view_of(hold, *metrics));
        return views;
    });
    if (!views) co_return respond(call, views.error());
    co_return respond(page_of(std::move(*views), count, [](const HoldView& view) { return id_text(view.id); }));
}

}  // namespace

std::vector<ApiRoute> hold_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::post,
         .path = "/v1/holds",
         .needs = act,
         .summary = "Reserve an amount",
         .handler = reserve,
         .narrowest = Bound::budget,
         .body = schema_of<HoldBody>,
         .example = R"({"agent": "writer", "amount": "0.25", "ttl_s": 60})",
         .answer = schema_of<HeldAnswer>,
         .status = 201},
        {.method = Method::get,
         .path = "/v1/holds",
         .needs = read,
         .summary = "List holds",
         .handler = list_holds,
         .narrowest = Bound::agent,
         .query = {"agent", "status", "after", "limit"},
         .answer = page_schema<HoldView>},
        {.method = Method::get,
         .path = "/v1/holds/{id}",
         .needs = read,
         .summary = "Show a hold",
         .handler = get_hold,
         .narrowest = Bound::budget,
         .answer = schema_of<HoldView>},
        {.method = Method::post,
         .path = "/v1/holds/{id}/settle",
         .needs = act,
         .summary = "Settle a hold: charge the actual cost and free the rest",
         .handler = settle,
         .narrowest = Bound::budget,
         .body = schema_of<SettleBody>,
         .example = R"({"cost": "0.2", "usage": {"input_tokens": 1200, "output_tokens": 400}})",
         .answer = schema_of<SettledAnswer>},
        {.method = Method::post,
         .path = "/v1/holds/{id}/release",
         .needs = act,
         .summary = "Release a hold",
         .handler = release,
         .narrowest = Bound::budget,
         .body = schema_of<OnlyKey>,
         .answer = schema_of<ReleasedAnswer>},
        {.method = Method::post,
         .path = "/v1/holds/{id}/extend",
         .needs = act,
         .summary = "Extend a hold",
         .handler = extend,
         .narrowest = Bound::budget,
         .body = schema_of<ExtendBody>,
         .example = R"({"ttl_s": 120, "dispatched": true})",
         .answer = schema_of<ExtendedAnswer>},
    };
}

}  // namespace interlock::api
