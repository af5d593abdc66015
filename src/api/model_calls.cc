// Calls to models, as the gateway saw them: newest first, and one with the money it moved.
#include <fmt/format.h>

#include "api/route.h"
#include "api/sql_query.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct CallView {
    core::CallId id;
    Instant at;
    std::string agent;
    std::string workflow;
    std::string provider;
    std::string model;
    std::string api_key;
    core::RunId run;
    core::SessionId session;
    core::Tags tags;
    std::string operation;
    std::string upstream;
    std::int32_t status = 0;
    std::optional<std::string> refusal;
    std::int32_t attempts = 0;
    core::HoldId hold;
    Money bound;
    Money cost;
    Usage usage;
    std::string price;
    bool estimated = false;
    bool unpriced = false;
    bool streamed = false;
    bool cached = false;
    std::optional<std::int64_t> first_byte_us;
    std::int64_t duration_us = 0;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(CallView, (),
                      (id, at, agent, workflow, provider, model, api_key, run, session, tags, operation, upstream,
                       status, refusal, attempts, hold, bound, cost, usage, price, estimated, unpriced, streamed,
                       cached, first_byte_us, duration_us, detail))

// What the last attempt's hold became.
struct HeldView {
    core::HoldId id;
    std::string status;
    Money amount;
    bool dispatched = false;
    Instant created_at;
    Instant closed_at;
};
BOOST_DESCRIBE_STRUCT(HeldView, (), (id, status, amount, dispatched, created_at, closed_at))

struct SettledView {
    core::Seq seq;
    Instant at;
    Money cost;  // With its corrections.
    Money overage;
    Usage usage;
    std::string price;
    bool estimated = false;
    bool unpriced = false;
    bool corrected = false;
};
BOOST_DESCRIBE_STRUCT(SettledView, (), (seq, at, cost, overage, usage, price, estimated, unpriced, corrected))

struct CallDetail : CallView {
    std::optional<HeldView> held;
    std::optional<SettledView> settled;
};
BOOST_DESCRIBE_STRUCT(CallDetail, (CallView), (held, settled))

CallView view_of(const core::ModelCall& call) {
    return {.id = call.id,
            .at = call.at,
            .agent = call.who.agent,
            .workflow = call.who.workflow,
            .provider = call.who.provider,
            .model = call.who.model,
            .api_key = call.who.api_key,
            .run = call.who.run,
            .session = call.who.session,
            .tags = call.who.tags,
            .operation = call.operation,
            .upstream = call.upstream,
            .status = call.status,
            .refusal = call.refusal.empty() ? std::nullopt : std::optional(call.refusal),
            .attempts = call.attempts,
            .hold = call.hold,
            .bound = Money::nanos(call.bound),
            .cost = Money::nanos(call.cost),
            .usage = call.usage,
            .price = call.price,
            .estimated = call.estimated,
            .unpriced = call.unpriced,
            .streamed = call.streamed,
            .cached = call.cached,
            .first_byte_us = call.first_byte_us == 0 ? std::nullopt : std::optional(call.first_byte_us),
            .duration_us = call.duration_us,
            .detail = call.detail};
}

// What the caller's key is bound to, as conditions: whatever it may not touch does not exist for it.
void bind(SqlQuery& question, const Principal& caller) {
    if (!caller.agent.empty()) question.where("agent =", caller.agent);
    if (!caller.run.value.empty()) question.where("run =", caller.run.value);
    if (!caller.budget.empty()) question.where("api_key =", caller.key_id);
}

Result<SqlQuery, Problem> read_question(const Call& call) {
    SqlQuery question;
    bind(question, call.caller);
    for (const char* name : {"agent", "model", "provider", "upstream"}) {
        if (const auto text = call.parameter(name); !text.empty())
            question.where(fmt::format("{} =", name), std::string(text));
    }
    if (const auto text = call.parameter("run"); !text.empty()) {
        const auto run = read_id<core::RunId>("run", text);
        if (!run) return fail(run.error());
        question.where("run =", run->value);
    }
    if (!call.parameter("status").empty()) {
        const auto status = read_count(call, "status", 0, 100, 599);
        if (!status) return fail(status.error());
        question.where("status =", *status);
    }
    if (const auto refused = call.parameter("refused"); !refused.empty()) {
        // A word of ours, or whether there is one at all.
        if (refused == "true" || refused == "false") {
            question.sql += refused == "true" ? "and refusal <> '' " : "and refusal = '' ";
        } else {
            question.sql += "and refusal <> '' ";  // What the index of refused calls is for.
            question.where("refusal =", std::string(refused));
        }
    }
    // Always from somewhere on: without a bound SQLite would rather walk over all calls than use the index of a few.
    Id before{~0ull, ~0ull};
    if (const auto text = call.parameter("after"); !text.empty()) {
        const auto id = read_id<core::CallId>("call", text);
        if (!id) return fail(invalid("after is not a cursor of this list"));
        before = id->value;
    }
    question.where("id <", before);
    return question;
}

ResponseTask list_calls(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    auto question = read_question(call);
    if (!question) co_return respond(call, question.error());
    question->in_order("id desc", *limit + 1);
    const core::OrgId org = call.caller.org;
    auto calls = co_await read(call, [org, question = *question](store::Snapshot& snapshot) {
        return store::read_rows<core::ModelCall>(snapshot, org, question.sql, question.parameters);
    });
    if (!calls) co_return respond(call, calls.error());
    std::vector<CallView> views;
    for (const core::ModelCall& each : *calls) views.push_back(view_of(each));
    co_return respond(page_of(std::move(views), *limit, [](const CallView& view) { return id_text(view.id); }));
}

Result<std::optional<CallDetail>, store::ReadError> read_call(store::Snapshot& snapshot, core::OrgId org,
                                                              const SqlQuery& question) {
    const auto call =
        store::first_of(store::read_rows<core::ModelCall>(snapshot, org, question.sql, question.parameters));
    if (!call) return fail(call.error());
    if (!*call) return std::optional<CallDetail>();
    CallDetail detail;
    static_cast<CallView&>(detail) = view_of(**call);
    const Id hold_id = (*call)->hold.value;
    if (hold_id.empty()) return detail;
    const auto hold = store::read_row<core::Hold>(snapshot, org, hold_id);
    if (!hold) return fail(hold.error());
    if (*hold) {
        const bool open = (*hold)->state == core::HoldState::open;
        detail.held = HeldView{.id = (*hold)->id,
                               .status = open ? "held" : boost::describe::enum_to_string((*hold)->state, ""),
                               .amount = Money::nanos((*hold)->bound.usd),
                               .dispatched = (*hold)->dispatched,
                               .created_at = (*hold)->created_at,
                               .closed_at = open ? far_past : (*hold)->closed_at};
    }
    const bool has_event = *hold && !(*hold)->event.value.empty();
    const auto event = store::read_row<core::CostEvent>(snapshot, org, has_event ? (*hold)->event.value : hold_id);
    if (!event) return fail(event.error());
    if (!*event) return detail;
    // A settlement that came late is the difference to the first event.
    const bool is_late = !(*event)->corrects.value.empty();
    const Id first = is_late ? (*event)->corrects.value : (*event)->key.value;
    const auto corrected = store::read_row<core::CorrectedCost>(snapshot, org, first);
    if (!corrected) return fail(corrected.error());
    detail.settled = SettledView{.seq = (*event)->seq,
                                 .at = (*event)->at,
                                 .cost = Money::nanos(*corrected ? (*corrected)->cost : (*event)->cost),
                                 .overage = Money::nanos((*event)->overage),
                                 .usage = is_late ? (*call)->usage : (*event)->usage,
                                 .price = (*event)->price,
                                 .estimated = (*event)->estimated,
                                 .unpriced = (*event)->unpriced,
                                 .corrected = corrected->has_value()};
    return detail;
}

ResponseTask get_call(Call& call) {
    const auto id = read_id<core::CallId>("call", call.names[0]);
    if (!id) co_return respond(call, id.error());
    SqlQuery question;
    question.where("id =", id->value);
    bind(question, call.caller);
    const core::OrgId org = call.caller.org;
    const auto detail =
        co_await read(call, [=](store::Snapshot& snapshot) { return read_call(snapshot, org, question); });
    if (!detail) co_return respond(call, detail.error());
    if (!*detail) co_return respond(call, not_found("call", call.names[0]));
    co_return respond(200, **detail, false);
}

}  // namespace

std::vector<ApiRoute> model_call_routes() {
    return {
        {.method = net::Method::get,
         .path = "/v1/calls",
         .needs = Access::read,
         .summary = "List model calls, newest first",
         .handler = list_calls,
         .narrowest = Bound::budget,
         .query = {"agent", "run", "provider", "model", "upstream", "status", "refused", "after", "limit"},
         .answer = page_schema<CallView>},
        {.method = net::Method::get,
         .path = "/v1/calls/{id}",
         .needs = Access::read,
         .summary = "Show a model call with its hold and cost",
         .handler = get_call,
         .narrowest = Bound::budget,
         .answer = schema_of<CallDetail>},
    };
}

}  // namespace interlock::api
