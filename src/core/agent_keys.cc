#include "core/agent_keys.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/agents.h"
#include "core/ledger.h"
#include "core/limits.h"
#include "core/places.h"
#include "core/run_tree.h"

namespace interlock::core {
namespace {

// As they were resolved when an operator set them, so that a link that is changed later widens nothing. An agent that
// an older version stored has them as they were written: a link leads out of those.
std::vector<std::string> roots_of(const Agent& agent) {
    if (!agent.resolved_roots.empty()) return agent.resolved_roots;
    std::vector<std::string> roots = agent.roots;
    if (!agent.process.directory.empty()) roots.push_back(agent.process.directory);
    return roots;
}

bool is_in_worktree_of(OrgState& state, const std::string& agent, std::string path) {
    while (path.size() > 1) {
        if (const Worktree* worktree = state.worktree_at(path)) {
            const Run* run = state.run(worktree->run);
            return run != nullptr && run->who.agent == agent;
        }
        const std::size_t parent_end = path.rfind('/');
        path.resize(parent_end == std::string::npos ? 0 : parent_end);
    }
    return false;
}

}  // namespace

Complaint beyond_key(const AdmitRun& command) {
    using namespace limits;
    if (command.priority < -priority_below_operator_max || command.priority > priority_below_operator_max) {
        return fmt::format("priority is {}; an API key below operator may state from {} to {}", command.priority,
                           -priority_below_operator_max, priority_below_operator_max);
    }
    if (command.lease_s > lease_s_below_operator_max) {
        return fmt::format(
            "lease_s is {}; an API key below operator may state at most {}; send heartbeats to keep a "
            "run for longer",
            command.lease_s, lease_s_below_operator_max);
    }
    if (command.names_server && !command.process) {
        return fmt::format(
            "node '{}' is a server, and its cap counts only runs that it starts; omit node, or use an "
            "operator's key",
            command.node);
    }
    return std::nullopt;
}

namespace {

class Roots {
 public:
    Roots(OrgState& state, const Agent& agent) : state_(state), agent_(agent), roots_(roots_of(agent)) {}

    Complaint check(std::string_view what, const std::string& path) const {
        if (is_inside(path)) return std::nullopt;
        return fmt::format(
            "{}'{}' is outside the directories that agent '{}' may claim with an API key below operator: {}; an "
            "operator adds one with: interlock agents put {} --root DIR",
            what, path, agent_.name,
            roots_.empty() ? "it has neither workspace nor roots" : fmt::format("{}", fmt::join(roots_, ", ")),
            agent_.name);
    }
    Complaint check(const Place& place) const {
        return place.kind == ClaimKind::workspace ? check("", place.path) : std::nullopt;
    }

 private:
    bool is_inside(const std::string& path) const {
        const auto is_in = [&](const std::string& root) { return is_at_or_below(path, root); };
        return std::ranges::any_of(roots_, is_in) || is_in_worktree_of(state_, agent_.name, path);
    }

    OrgState& state_;
    const Agent& agent_;
    const std::vector<std::string> roots_;
};

}  // namespace

Complaint outside_roots(OrgState& state, const Agent& agent, const std::vector<Place>& places) {
    const Roots roots(state, agent);
    Complaint complaint;
    for (const Place& place : places) complaint = first_of(complaint, roots.check(place));
    return complaint;
}

Complaint outside_roots(OrgState& state, const Agent& agent, const AdmitRun& command) {
    // What its parent has bounds a child. An agent for which an operator set directories stays in them also then.
    if (!command.parent.value.empty() && roots_of(agent).empty()) return std::nullopt;
    const Roots roots(state, agent);
    Complaint complaint = outside_roots(state, agent, command.places);
    if (command.isolate_into) complaint = first_of(complaint, roots.check(*command.isolate_into));
    // What the server starts works where an operator has set its agent up.
    if (command.process || !command.worktrees) return complaint;
    for (const std::string& path : command.repository) {
        complaint = first_of(complaint, roots.check("the worktree would have a repository whose part ", path));
    }
    return complaint;
}

Complaint beyond_bounds(OrgState& state, const Run& run) {
    if (auto complaint = outside_parent(state, run)) return complaint;
    if (run.who.api_key.empty() || is_operators_key(state, run.who.api_key)) return std::nullopt;
    const Agent* agent = working_agent(state, run.who.agent);
    if (agent == nullptr || (!run.parent.value.empty() && roots_of(*agent).empty())) return std::nullopt;
    return outside_roots(state, *agent, run.wanted);
}

}  // namespace interlock::core
