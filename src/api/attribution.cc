#include "api/attribution.h"

#include <fmt/format.h>

#include "api/run_view.h"
#include "api/sessions.h"
#include "core/check.h"
#include "core/org_state.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

// What the account names, as far as it is there and the caller may reach it.
struct Named {
    std::optional<core::Run> run;
    std::optional<core::Session> session;
    std::optional<core::Budget> budget;
};

Result<Named, store::ReadError> read_named(store::Snapshot& snapshot, const Principal& caller,
                                           const core::Attribution& who) {
    auto run = store::read_row<core::Run>(snapshot, caller.org, who.run.value);
    if (!run) return fail(run.error());
    if (*run) {
        const auto seen = may_see(snapshot, caller, **run);
        if (!seen) return fail(seen.error());
        if (!*seen) run->reset();
    }
    auto session = store::read_row<core::Session>(snapshot, caller.org, who.session.value);
    if (!session) return fail(session.error());
    if (*session) {
        const auto reachable = may_reach(snapshot, caller, **session);
        if (!reachable) return fail(reachable.error());
        if (!*reachable) session->reset();
    }
    auto budget = store::read_row<core::Budget>(snapshot, caller.org, caller.budget);
    if (!budget) return fail(budget.error());
    return Named{std::move(*run), std::move(*session), std::move(*budget)};
}

std::optional<Problem> check(const Principal& caller, const core::Attribution& who, const Named& named) {
    if (!caller.may_see_agent(who.agent)) return not_found("agent", who.agent);
    if (!who.run.value.empty() && !named.run) return not_found("run", id_text(who.run));
    if (!who.session.value.empty() && !named.session) return not_found("session", id_text(who.session));
    if (caller.budget.empty()) return std::nullopt;
    if (named.budget && !named.budget->deleted && core::covers(named.budget->scope, who)) return std::nullopt;
    return Problem{
        .status = 403,
        .code = "forbidden",
        .detail = fmt::format("the API key is limited to budget '{}', which does not cover this", caller.budget)};
}

}  // namespace

core::Actor actor_of(const Principal& caller) {
    if (caller.may(Access::operate)) return {.kind = core::ActorKind::trusted};
    return {.kind = core::ActorKind::key, .key = caller.key_id, .agent = caller.agent};
}

net::Task<std::optional<Problem>> check_account(Call& call, core::Attribution who) {
    // The rules check it too, but a long text would be copied for the workers and hashed for the engine first.
    if (auto complaint = core::check_attribution(who)) {
        co_return pointed(invalid(std::move(*complaint)), call.request.body);
    }
    if (call.caller.bound() == Bound::nothing) co_return std::nullopt;
    const Principal caller = call.caller;
    const auto named =
        co_await read(call, [caller, who](store::Snapshot& snapshot) { return read_named(snapshot, caller, who); });
    co_return named ? check(caller, who, *named) : named.error();
}

}  // namespace interlock::api
