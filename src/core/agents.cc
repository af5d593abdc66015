#include "core/agents.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/check.h"
#include "core/limits.h"
#include "core/runs.h"

namespace interlock::core {
namespace {

constexpr std::string_view operator_pause = "operator";

AgentReply no_agent(const std::string& name) {
    return {.status = AgentStatus::agent_not_found, .detail = fmt::format("there is no agent '{}'", name)};
}

Complaint check_roots(std::string_view what, const std::vector<std::string>& roots, std::size_t roots_max) {
    if (roots.size() > roots_max) {
        return fmt::format("{} has {} directories; at most {} are allowed", what, roots.size(), roots_max);
    }
    Complaint complaint;
    for (const std::string& root : roots) complaint = first_of(complaint, check_path(what, root));
    return complaint;
}

}  // namespace

OrgReply create_org(OrgState& state, Stamp stamp, const CreateOrg& command) {
    if (auto complaint = check_name("name", command.name)) {
        return {.status = OrgStatus::invalid_request, .detail = *complaint};
    }
    if (state.org) {
        if (state.org->name == command.name) return {.status = OrgStatus::already_there, .detail = {}};
        return {.status = OrgStatus::name_taken, .detail = fmt::format("the org is named '{}'", state.org->name)};
    }

    // From here on the org must be made.
    state.org = Org{.name = command.name, .created_at = stamp.at, .last_fence = {}, .last_ticket = 0};
    state.org_changed = true;
    state.feed.add(OrgCreated{command.name});
    return {.status = OrgStatus::created, .detail = {}};
}

AgentReply put_agent(OrgState& state, Stamp stamp, const PutAgent& command) {
    Complaint complaint =
        first_of(check_name("name", command.name), check_tags(command.tags),
                 check_range("max_concurrent_runs", command.max_concurrent_runs, 0, limits::concurrent_runs_max));
    if (command.command.size() > limits::command_words_max) {
        complaint = fmt::format("command has {} words; at most {} are allowed", command.command.size(),
                                limits::command_words_max);
    }
    for (const std::string& word : command.command) {
        complaint = first_of(complaint, check_text("a word of command", word, limits::text_bytes_max));
    }
    complaint = first_of(complaint, check_process(command.process), check_retry(command.retry),
                         check_label("provider", command.provider));
    if (!command.process.command.empty()) complaint = "process has a command; set the command of the agent itself";
    for (const std::string& resource : command.workplace.resources) {
        complaint = first_of(complaint, check_name("a resource's name", resource));
    }
    complaint = first_of(complaint, check_roots("roots", command.roots, limits::roots_per_agent_max),
                         check_roots("resolved_roots", command.resolved_roots, limits::roots_per_agent_max + 1));
    if (command.child_agents.size() > limits::child_agents_max) {
        complaint = first_of(complaint, Complaint(fmt::format("child_agents has {} names; at most {} are allowed",
                                                              command.child_agents.size(), limits::child_agents_max)));
    }
    for (const std::string& name : command.child_agents) {
        complaint = first_of(complaint, check_name("a name in child_agents", name));
    }
    if (complaint) return {.status = AgentStatus::invalid_request, .detail = *complaint};
    const Agent* found = state.agent(command.name);
    if (found == nullptr && state.agent_count() >= limits::agents_per_org_max) {
        return {.status = AgentStatus::too_many,
                .detail = fmt::format("an org has at most {} agents", limits::agents_per_org_max)};
    }
    if (found != nullptr && !found->archived && found->command == command.command &&
        found->max_concurrent_runs == command.max_concurrent_runs && found->tags == command.tags &&
        found->process == command.process && found->retry == command.retry && found->workplace == command.workplace &&
        found->provider == command.provider && found->capture == command.capture && found->roots == command.roots &&
        found->resolved_roots == command.resolved_roots && found->child_agents == command.child_agents) {
        return {.status = AgentStatus::unchanged, .detail = {}};
    }

    // From here on the agent must be put.
    Agent agent = found != nullptr ? *found : Agent{};
    if (found == nullptr) {
        agent.name = command.name;
        agent.created_at = stamp.at;
        state.agent_totals.insert({.agent = command.name, .last_event_at = far_past});
    }
    agent.command = command.command;
    agent.max_concurrent_runs = command.max_concurrent_runs;
    agent.tags = command.tags;
    agent.process = command.process;
    agent.retry = command.retry;
    agent.workplace = command.workplace;
    agent.provider = command.provider;
    agent.capture = command.capture;
    agent.roots = command.roots;
    agent.resolved_roots = command.resolved_roots;
    agent.child_agents = command.child_agents;
    agent.archived = false;
    state.put_agent(std::move(agent));
    state.feed.add(AgentChanged{command.name, command.max_concurrent_runs});
    state.line_may_move = true;
    return {.status = AgentStatus::done, .detail = {}};
}

AgentReply pause_agent(OrgState& state, Stamp stamp, const PauseAgent& command) {
    if (auto complaint = check_line("reason", command.reason)) {
        return {.status = AgentStatus::invalid_request, .detail = *complaint};
    }
    const Agent* found = working_agent(state, command.name);
    if (found == nullptr) return no_agent(command.name);
    if (std::ranges::any_of(found->pauses, [](const AgentPause& pause) { return pause.by == operator_pause; })) {
        return {.status = AgentStatus::unchanged, .detail = {}};
    }

    // From here on it must pause.
    Agent agent = *found;
    agent.pauses.push_back({std::string(operator_pause), command.reason, stamp.at, far_future});
    state.put_agent(std::move(agent));
    state.feed.add(AgentPaused{command.name, std::string(operator_pause), command.reason});
    return {.status = AgentStatus::done, .detail = {}};
}

AgentReply resume_agent(OrgState& state, Stamp, const ResumeAgent& command) {
    const Agent* found = working_agent(state, command.name);
    if (found == nullptr) return no_agent(command.name);
    if (found->pauses.empty()) return {.status = AgentStatus::unchanged, .detail = {}};

    // From here on it must resume.
    Agent agent = *found;
    agent.pauses.clear();
    state.put_agent(std::move(agent));
    state.feed.add(AgentResumed{command.name, std::string(operator_pause)});
    state.line_may_move = true;
    return {.status = AgentStatus::done, .detail = {}};
}

AgentReply archive_agent(OrgState& state, Stamp, const ArchiveAgent& command) {
    const Agent* found = working_agent(state, command.name);
    if (found == nullptr) return no_agent(command.name);
    const std::size_t unfinished = state.live_of_agent(command.name) + state.queued_of_agent(command.name);
    if (unfinished > 0) {
        return {
            .status = AgentStatus::has_unfinished_runs,
            .detail = fmt::format("agent '{}' has {} unfinished runs; cancel them first", command.name, unfinished)};
    }

    // From here on it must go.
    Agent agent = *found;
    agent.archived = true;
    agent.pauses.clear();
    state.put_agent(std::move(agent));
    state.feed.add(AgentArchived{command.name});
    return {.status = AgentStatus::done, .detail = {}};
}

KeyReply create_key(OrgState& state, Stamp stamp, const CreateKey& command) {
    static constexpr std::string_view known_scopes[] = {"admin", "operator", "agent", "read"};
    Complaint complaint =
        first_of(check_name("id", command.id), check_name("hash", command.hash), check_line("note", command.note));
    if (command.scopes.empty())
        complaint = first_of(complaint, Complaint("a key needs a scope: admin, operator, agent or read"));
    for (const std::string& scope : command.scopes) {
        if (std::ranges::find(known_scopes, scope) == std::end(known_scopes)) {
            complaint = first_of(complaint,
                                 Complaint(fmt::format("'{}' is not a scope: admin, operator, agent or read", scope)));
        }
    }
    if (complaint) return {.status = KeyStatus::invalid_request, .id = command.id, .detail = *complaint};
    if (state.api_keys.find(command.id) != nullptr) {
        return {.status = KeyStatus::key_exists,
                .id = command.id,
                .detail = fmt::format("key '{}' already exists", command.id)};
    }
    if (!command.agent.empty() && working_agent(state, command.agent) == nullptr) {
        return {.status = KeyStatus::agent_not_found,
                .id = command.id,
                .detail = fmt::format("there is no agent '{}'", command.agent)};
    }
    if (!command.budget.empty() && state.live_budget(command.budget) == nullptr) {
        return {.status = KeyStatus::budget_not_found,
                .id = command.id,
                .detail = fmt::format("there is no budget '{}'", command.budget)};
    }
    if (state.api_keys.size() >= limits::keys_per_org_max) {
        return {.status = KeyStatus::too_many,
                .id = command.id,
                .detail = fmt::format("an org has at most {} keys", limits::keys_per_org_max)};
    }

    // From here on the key must be made.
    state.api_keys.insert({.id = command.id,
                           .hash = command.hash,
                           .scopes = command.scopes,
                           .agent = command.agent,
                           .run = command.run,
                           .budget = command.budget,
                           .note = command.note,
                           .created_at = stamp.at,
                           .revoked_at = far_past});
    state.feed.add(KeyCreated{command.id});
    return {.status = KeyStatus::done, .id = command.id, .detail = {}};
}

KeyReply revoke_key(OrgState& state, Stamp stamp, const RevokeKey& command) {
    const ApiKey* found = state.api_keys.find(command.id);
    if (found == nullptr) {
        return {.status = KeyStatus::key_not_found,
                .id = command.id,
                .detail = fmt::format("there is no key '{}'", command.id)};
    }
    if (found->revoked_at != far_past) return {.status = KeyStatus::unchanged, .id = command.id, .detail = {}};

    // From here on it must be revoked.
    state.api_keys.edit(command.id).revoked_at = stamp.at;
    state.feed.add(KeyRevoked{command.id});
    return {.status = KeyStatus::done, .id = command.id, .detail = {}};
}

CapReply set_cap(OrgState& state, Stamp, const SetCap& command) {
    Complaint complaint = check_label("name", command.name);
    if ((command.kind == CapKind::org) != command.name.empty()) {
        complaint = "a cap of a provider or node needs a name, and the cap of the org has none";
    }
    if (command.max_live) {
        complaint = first_of(complaint, check_range("max_live", *command.max_live, 0, limits::concurrent_runs_max));
    }
    if (complaint) return {.status = CapStatus::invalid_request, .detail = *complaint};
    const KeyOf<Cap> key{command.kind, command.name};
    const Cap* found = state.caps.find(key);
    if (found == nullptr && command.max_live && state.caps.size() >= limits::caps_per_org_max) {
        return {.status = CapStatus::too_many,
                .detail = fmt::format("an org has at most {} caps", limits::caps_per_org_max)};
    }
    const bool same = found != nullptr ? command.max_live == found->max_live : !command.max_live;
    if (same) return {.status = CapStatus::unchanged, .detail = {}};

    // From here on the cap must be set.
    if (!command.max_live) {
        state.caps.erase(key);
    } else if (found != nullptr) {
        state.caps.edit(key).max_live = *command.max_live;
    } else {
        state.caps.insert({command.kind, command.name, *command.max_live});
    }
    state.feed.add(CapChanged{command.kind, command.name, command.max_live.value_or(-1)});
    state.line_may_move = true;
    return {.status = CapStatus::done, .detail = {}};
}

const Agent* working_agent(OrgState& state, const std::string& name) {
    const Agent* agent = state.agent(name);
    return agent != nullptr && !agent->archived ? agent : nullptr;
}

std::string budget_pause(const std::string& budget) { return "budget:" + budget; }

void pause_by_budget(OrgState& state, Stamp stamp, const std::string& name, const std::string& budget, Instant until) {
    const Agent* found = working_agent(state, name);
    const std::string by = budget_pause(budget);
    if (found == nullptr) return;
    if (std::ranges::any_of(found->pauses, [&](const AgentPause& pause) { return pause.by == by; })) return;
    const std::string reason = fmt::format("budget '{}' is exhausted", budget);
    Agent agent = *found;
    agent.pauses.push_back({by, reason, stamp.at, until});
    state.put_agent(std::move(agent));
    state.feed.add(AgentPaused{name, by, reason});
}

void lift_pause(OrgState& state, const std::string& name, const std::string& by) {
    Agent agent = *state.agent(name);
    if (std::erase_if(agent.pauses, [&](const AgentPause& pause) { return pause.by == by; }) == 0) return;
    state.put_agent(std::move(agent));
    state.feed.add(AgentResumed{name, by});
}

bool lift_ended_pauses(OrgState& state, Stamp stamp, const std::string& name) {
    std::vector<std::string> ended;
    for (const AgentPause& pause : state.agent(name)->pauses) {
        if (pause.until <= stamp.at) ended.push_back(pause.by);
    }
    for (const std::string& by : ended) lift_pause(state, name, by);
    return !ended.empty();
}

std::string paused_because(const Agent& agent) {
    const AgentPause& first = agent.pauses.front();
    return fmt::format("agent '{}' is paused by {}{}{}", agent.name, first.by, first.reason.empty() ? "" : ": ",
                       first.reason);
}

}  // namespace interlock::core
