// On whose account a request acts, and whether its key may.
#pragma once

#include <optional>

#include "api/call.h"
#include "core/rows.h"

namespace interlock::api {

// From a body with agent, run, session, workflow, provider, model and tags. What the caller's key is bound to is
// added, and the key itself is always named: budgets can be on keys.
template <class Body>
core::Attribution attribution_of(const Caller& caller, const Body& body) {
    return {.agent = body.agent,
            .workflow = body.workflow,
            .provider = body.provider,
            .model = body.model,
            .api_key = caller.key_id,
            .run = body.run.value.empty() ? caller.run : body.run,
            .session = body.session,
            .tags = body.tags};
}

// Whether a key that is bound to a budget spends from it: the budget must cover the account. Reads the budget.
net::Task<std::optional<Problem>> check_budget(Call& call, core::Attribution who);

// Whatever a bound key may not touch does not exist for it.
template <class Body>
std::optional<Problem> check_binding(const Caller& caller, const Body& body) {
    if (!caller.may_see_agent(body.agent)) return not_found("agent", body.agent);
    if (!caller.run.value.empty() && !body.run.value.empty() && body.run != caller.run) {
        return not_found("run", id_text(body.run));
    }
    return std::nullopt;
}

}  // namespace interlock::api
