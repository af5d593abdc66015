#include "core/worktrees.h"

#include <fmt/format.h>

#include "core/check.h"
#include "core/limits.h"

namespace interlock::core {
namespace {

// The lowest block that nobody has; 0 when there is none.
std::int32_t free_ports(OrgState& state, const std::string& node) {
    std::int32_t candidate = limits::ports_first;
    for (const std::int32_t taken : state.ports_on(node)) {
        if (taken != candidate) break;
        candidate += limits::ports_per_worktree;
    }
    return candidate + limits::ports_per_worktree <= limits::ports_end ? candidate : 0;
}

Complaint check(const PutWorktree& command) {
    return first_of(check_label("node", command.node),
                    check_text("repository", command.repository, limits::text_bytes_max),
                    check_text("path", command.path, limits::text_bytes_max),
                    check_text("branch", command.branch, limits::text_bytes_max), check_label("base", command.base),
                    check_text("teardown", command.teardown, limits::metadata_bytes_max));
}

WorktreeReply refused(WorktreeStatus why, std::string detail) {
    return {.status = why, .port_base = 0, .detail = std::move(detail)};
}

}  // namespace

WorktreeReply put_worktree(OrgState& state, Stamp stamp, const PutWorktree& command) {
    if (auto complaint = check(command)) return refused(WorktreeStatus::invalid_request, *complaint);
    if (state.run(command.run) == nullptr) return refused(WorktreeStatus::run_not_found, "the run does not exist");
    const Worktree* found = state.worktree(command.run);
    if (found != nullptr && found->state == WorktreeState::open && found->base.empty() && !command.base.empty()) {
        Worktree worktree = *found;  // It began as a plan.
        worktree.base = command.base;
        worktree.repository = command.repository;
        const std::int32_t port_base = worktree.port_base;
        state.put_worktree(std::move(worktree));
        return {.status = WorktreeStatus::done, .port_base = port_base, .detail = {}};
    }
    if (found != nullptr && found->state == WorktreeState::open) {
        return {.status = WorktreeStatus::unchanged, .port_base = found->port_base, .detail = {}};
    }
    if (found == nullptr && state.worktree_count() >= limits::worktrees_per_org_max) {
        return refused(WorktreeStatus::too_many,
                       fmt::format("an org has at most {} worktrees; 'interlock claims gc' removes what is safe "
                                   "elsewhere",
                                   limits::worktrees_per_org_max));
    }

    // From here on it must be put.
    Worktree worktree{.run = command.run,
                      .node = command.node,
                      .repository = command.repository,
                      .path = command.path,
                      .branch = command.branch,
                      .base = command.base,
                      .teardown = command.teardown,
                      .port_base = free_ports(state, command.node),
                      .state = WorktreeState::open,
                      .saved_as = {},
                      .created_at = stamp.at};
    const std::int32_t port_base = worktree.port_base;
    state.put_worktree(std::move(worktree));
    state.feed.add(WorktreeMade{command.run, command.path, command.branch});
    return {.status = WorktreeStatus::done, .port_base = port_base, .detail = {}};
}

WorktreeReply drop_worktree(OrgState& state, Stamp, const DropWorktree& command) {
    if (auto complaint = check_text("saved_as", command.saved_as, limits::text_bytes_max)) {
        return refused(WorktreeStatus::invalid_request, *complaint);
    }
    const Worktree* found = state.worktree(command.run);
    if (found == nullptr || found->state != WorktreeState::open) {
        return refused(WorktreeStatus::worktree_not_found, "the worktree does not exist");
    }

    // From here on it must go.
    state.feed.add(WorktreeRemoved{command.run, found->path, command.saved_as});
    if (command.saved_as.empty()) {
        state.erase_worktree(command.run);
        return {.status = WorktreeStatus::done, .port_base = 0, .detail = {}};
    }
    Worktree worktree = *found;
    worktree.state = WorktreeState::saved;
    worktree.saved_as = command.saved_as;
    state.put_worktree(std::move(worktree));
    return {.status = WorktreeStatus::done, .port_base = 0, .detail = {}};
}

}  // namespace interlock::core
