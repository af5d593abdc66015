#include "gateway/budget_refusal.h"

#include <fmt/format.h>
#include <boost/describe/enum_to_string.hpp>

#include "base/calendar.h"
#include "base/ensure.h"
#include "base/id.h"
#include "base/shell.h"

namespace interlock::gateway {
namespace {

std::string amount(core::Metric metric, std::int64_t units) {
    if (metric == core::Metric::usd) return "$" + to_text(Money::nanos(units));
    return fmt::format("{} {}", units, boost::describe::enum_to_string(metric, ""));
}

std::string limit_text(const core::BudgetRefusal& no) {
    return no.metric == core::Metric::usd ? to_text(Money::nanos(no.limit_units)) : std::to_string(no.limit_units);
}

std::string budget_sentence(const core::BudgetRefusal& no, Reader reader) {
    std::string text = fmt::format(
        "Budget '{}' does not have enough left: its limit is {}, {} is spent and {} is held; "
        "this call may need {}.",
        no.budget, amount(no.metric, no.limit_units), amount(no.metric, no.settled), amount(no.metric, no.held),
        amount(no.metric, no.requested));
    if (no.window_end < far_future) text += fmt::format(" The window turns at {}.", to_iso8601(no.window_end));
    // Stands for the ceiling of a run, where the core names the run in a budget's place.
    if (id_from_text("run", no.budget)) {
        text += " It is the run's own ceiling: a person can start the run again with a higher one.";
    } else if (reader == Reader::agent) {
        text += " A person can raise it.";
    } else {
        text += fmt::format(" To raise it: {} (now {}).",
                            shell_command({"interlock", "budgets", "limit", no.budget, "AMOUNT"}), limit_text(no));
    }
    return text;
}

constexpr std::string_view run_is_over = "the run that this call is for is not live any more";

}  // namespace

bool may_fit_later(const core::ReserveReply& reply) {
    if (reply.status == core::ReserveStatus::concurrency_limit) return true;
    if (reply.status != core::ReserveStatus::budget_exceeded || !reply.budget) return false;
    const core::BudgetRefusal& no = *reply.budget;
    return no.held > 0 && no.requested <= no.limit_units - no.settled;
}

CallRefusal call_refusal(const core::ReserveReply& reply, const core::Attribution& who, const Upstream& upstream,
                         Reader reader) {
    const auto advise = [&](std::string_view for_agents, const std::string& for_operators) {
        return fmt::format("{}. {}", reply.detail, reader == Reader::agent ? std::string(for_agents) : for_operators);
    };
    switch (reply.status) {
        case core::ReserveStatus::budget_exceeded:
            return {RefusalKind::budget, RefusalCode::budget_exceeded,
                    reply.budget ? budget_sentence(*reply.budget, reader) : reply.detail};
        case core::ReserveStatus::budget_frozen:
            return {RefusalKind::budget, RefusalCode::budget_frozen,
                    advise("A person has to look.",
                           fmt::format("A person has to look: {}, then {}",
                                       shell_command({"interlock", "budgets", "show", reply.budget->budget}),
                                       shell_command({"interlock", "budgets", "unfreeze", reply.budget->budget})))};
        case core::ReserveStatus::agent_paused:
            return {RefusalKind::budget, RefusalCode::agent_paused,
                    advise("A person can resume it.",
                           "To go on: " + shell_command({"interlock", "agents", "resume", who.agent}))};
        case core::ReserveStatus::concurrency_limit:
            return {RefusalKind::rate_limited, RefusalCode::concurrency_limit,
                    advise("Try again later; a person can raise the cap.",
                           "To raise it: " +
                               shell_command({"interlock", "caps", "set", "provider/" + upstream.provider, "MAX"})),
                    1};
        case core::ReserveStatus::agent_not_found:
            if (who.agent.empty()) {
                return {RefusalKind::bad_request, RefusalCode::agent_missing,
                        "this key belongs to no agent: use an agent's key (interlock keys create --scope agent --agent "
                        "NAME), a run's, or name the agent in the header x-interlock-agent"};
            }
            return {RefusalKind::bad_request, RefusalCode::agent_not_found,
                    fmt::format("there is no agent '{}'; make it: {}", who.agent,
                                shell_command({"interlock", "agents", "put", who.agent}))};
        case core::ReserveStatus::run_not_found:
            return {RefusalKind::unauthorized, RefusalCode::run_not_found, std::string(run_is_over)};
        case core::ReserveStatus::stale_fence:
            return {RefusalKind::unauthorized, RefusalCode::stale_fence, std::string(run_is_over)};
        case core::ReserveStatus::run_ended:
            return {RefusalKind::unauthorized, RefusalCode::run_ended, std::string(run_is_over)};
        case core::ReserveStatus::session_not_found:
            return {RefusalKind::bad_request, RefusalCode::session_not_found, "there is no such session"};
        case core::ReserveStatus::too_many:
            return {RefusalKind::busy, RefusalCode::too_many, reply.detail, 1};
        case core::ReserveStatus::invalid_request:
            return {RefusalKind::bad_request, RefusalCode::invalid_request, reply.detail};
        case core::ReserveStatus::hold_exists:
            return {RefusalKind::bad_request, RefusalCode::hold_exists, reply.detail};
        case core::ReserveStatus::amount_too_large:
            return {RefusalKind::bad_request, RefusalCode::amount_too_large, reply.detail};
        case core::ReserveStatus::held:
            break;
    }
    ensure(false, "a hold that was given is no refusal");
    return {};
}

}  // namespace interlock::gateway
