// On whose account a request acts, and whether its key may.
#pragma once

#include <optional>

#include "api/call.h"
#include "core/rows.h"

namespace interlock::api {

// What every request that spends or reserves says of its account.
struct AccountBody {
    std::string agent;
    core::RunId run;
    core::Fence fence;
    core::SessionId session;
    std::string workflow;
    std::string provider;
    std::string model;
    core::Tags tags;
};
BOOST_DESCRIBE_STRUCT(AccountBody, (), (agent, run, fence, session, workflow, provider, model, tags))

// What the caller's key is bound to is added, and the key itself is always named: budgets can be on keys.
inline core::Attribution attribution_of(const Principal& caller, const AccountBody& body) {
    return {.agent = body.agent,
            .workflow = body.workflow,
            .provider = body.provider,
            .model = body.model,
            .api_key = caller.key_id,
            .run = body.run.value.empty() ? caller.run : body.run,
            .session = body.session,
            .tags = body.tags};
}

// For the core, which decides what keys below operator may do.
core::Actor actor_of(const Principal& caller);

// Whether the caller's key may act on this account. Whatever a bound key may not touch does not exist for it; keys that
// are bound to nothing are let through unread, because the rules check the rest.
net::Task<std::optional<Problem>> check_account(Call& call, core::Attribution who);

}  // namespace interlock::api
