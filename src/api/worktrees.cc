// Worktrees: the copies of repositories that runs were given, what keeps them, and taking them away.
#include <fmt/format.h>

#include "api/route.h"
#include "api/run_view.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct WorktreeView {
    core::RunId run;
    std::string agent;
    std::optional<core::RunState> status;  // Of the run.
    std::string node;
    std::string repository;
    std::string path;
    std::string branch;
    std::string base;
    std::int32_t port_base = 0;
    core::WorktreeState state = core::WorktreeState::open;
    std::optional<std::string> saved_as;
    Instant created_at;
    bool here = false;  // On the disk of the node that answers.
};
BOOST_DESCRIBE_STRUCT(WorktreeView, (),
                      (run, agent, status, node, repository, path, branch, base, port_base, state, saved_as, created_at,
                       here))

// With what was seen on the disk; nothing of it where it is not here to be seen.
struct WorktreeDetail : WorktreeView {
    std::optional<std::int64_t> bytes;
    std::vector<WorktreeReason> reasons;
    std::optional<bool> removable;
};
BOOST_DESCRIBE_STRUCT(WorktreeDetail, (WorktreeView), (bytes, reasons, removable))

struct CollectBody {
    bool remove = false;
    bool force = false;
    std::vector<core::RunId> runs;
};
BOOST_DESCRIBE_STRUCT(CollectBody, (), (remove, force, runs))

enum class CollectAction { would_remove, removed, kept, failed };
BOOST_DESCRIBE_ENUM(CollectAction, would_remove, removed, kept, failed)

struct Collected {
    core::RunId run;
    std::string path;
    CollectAction action = CollectAction::kept;
    std::vector<WorktreeReason> reasons;
    std::optional<std::string> saved_as;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(Collected, (), (run, path, action, reasons, saved_as, detail))

struct KnownWorktree {
    core::Worktree worktree;
    std::optional<core::Run> run;
};

Result<std::vector<KnownWorktree>, store::ReadError> read_known(store::Snapshot& snapshot, core::OrgId org,
                                                                std::vector<core::Worktree> worktrees) {
    std::vector<KnownWorktree> known;
    for (core::Worktree& worktree : worktrees) {
        auto run = store::read_row<core::Run>(snapshot, org, worktree.run.value);
        if (!run) return fail(run.error());
        known.push_back({std::move(worktree), std::move(*run)});
    }
    return known;
}

// Those the caller may see; all, or the one of a run.
net::Task<Result<std::vector<KnownWorktree>, Problem>> read_worktrees(Call& call, std::optional<core::RunId> only) {
    const core::OrgId org = call.caller.org;
    auto known =
        co_await read(call, [=](store::Snapshot& snapshot) -> Result<std::vector<KnownWorktree>, store::ReadError> {
            auto rows = only ? store::read_rows<core::Worktree>(snapshot, org, "and run = $2", {only->value})
                             : store::read_rows<core::Worktree>(snapshot, org, "order by run");
            if (!rows) return fail(rows.error());
            return read_known(snapshot, org, std::move(*rows));
        });
    if (!known) co_return fail(known.error());
    std::erase_if(*known, [&](const KnownWorktree& each) {
        return !call.caller.may_see_agent(each.run ? std::string_view(each.run->who.agent) : "");
    });
    co_return std::move(*known);
}

net::Task<Result<KnownWorktree, Problem>> read_worktree(Call& call, core::RunId run) {
    auto known = co_await read_worktrees(call, run);
    if (!known) co_return fail(known.error());
    if (known->empty()) co_return fail(not_found("worktree", id_text(run)));
    co_return std::move(known->front());
}

bool is_here(const Call& call, const core::Worktree& worktree) { return worktree.node == call.parts.node; }

WorktreeView view_of(const Call& call, const KnownWorktree& known) {
    const core::Worktree& worktree = known.worktree;
    return {.run = worktree.run,
            .agent = known.run ? known.run->who.agent : "",
            .status = known.run ? std::optional(known.run->state) : std::nullopt,
            .node = worktree.node,
            .repository = worktree.repository,
            .path = worktree.path,
            .branch = worktree.branch,
            .base = worktree.base,
            .port_base = worktree.port_base,
            .state = worktree.state,
            .saved_as = stated(worktree.saved_as),
            .created_at = worktree.created_at,
            .here = is_here(call, worktree)};
}

ResponseTask list_worktrees(Call& call) {
    const auto known = co_await read_worktrees(call, {});
    if (!known) co_return respond(call, known.error());
    Page<WorktreeView> page;
    for (const KnownWorktree& each : *known) page.items.push_back(view_of(call, each));
    co_return respond(page);
}

net::Task<Result<WorktreeLook, std::string>> look_at(Call& call, core::RunId run) {
    co_return co_await net::run_on(call.parts.workers,
                                   [&places = call.parts.workplaces, run] { return places.look_at_worktree(run); });
}

ResponseTask show_worktree(Call& call, core::RunId run) {
    const auto known = co_await read_worktree(call, run);
    if (!known) co_return respond(call, known.error());
    WorktreeDetail detail;
    static_cast<WorktreeView&>(detail) = view_of(call, *known);
    if (detail.here && known->worktree.state == core::WorktreeState::open) {
        auto seen = co_await look_at(call, run);
        if (!seen) co_return respond(call, unavailable("cannot read the worktree: " + seen.error()));
        detail.bytes = seen->bytes;
        detail.removable = seen->reasons.empty();
        detail.reasons = std::move(seen->reasons);
    }
    co_return respond(200, detail, false);
}

ResponseTask get_worktree(Call& call) {
    const auto run = read_id<core::RunId>("worktree", call.names[0]);
    if (!run) co_return respond(call, run.error());
    co_return co_await show_worktree(call, *run);
}

net::Task<Collected> collect(Call& call, KnownWorktree known, bool remove, bool force) {
    const core::RunId run = known.worktree.run;
    Collected collected{.run = run,
                        .path = known.worktree.path,
                        .action = CollectAction::kept,
                        .reasons = {},
                        .saved_as = {},
                        .detail = {}};
    if (!is_here(call, known.worktree)) {
        collected.detail = fmt::format("on the disk of node '{}'", known.worktree.node);
        co_return collected;
    }
    if (!remove) {
        auto seen = co_await look_at(call, run);
        if (!seen) {
            collected.action = CollectAction::failed;
            collected.detail = seen.error();
            co_return collected;
        }
        collected.action = seen->reasons.empty() ? CollectAction::would_remove : CollectAction::kept;
        collected.reasons = std::move(seen->reasons);
        co_return collected;
    }
    auto removal = co_await net::run_on(call.parts.workers, [&places = call.parts.workplaces, run, force] {
        return places.remove_worktree(run, force);
    });
    if (!removal) {
        collected.action = CollectAction::failed;
        collected.detail = removal.error();
        co_return collected;
    }
    collected.action = removal->removed ? CollectAction::removed : CollectAction::kept;
    collected.reasons = std::move(removal->reasons);
    collected.saved_as = stated(removal->saved_as);
    collected.detail = std::move(removal->detail);
    co_return collected;
}

// One after the other: each may take a while on a worker, and the workers are for everybody.
ResponseTask post_collect(Call& call) {
    const auto body = read_body<CollectBody>(call);
    if (!body) co_return respond(call, body.error());
    if (body->force && body->runs.empty()) {
        co_return respond(call, invalid("force needs runs: the runs whose worktrees to remove", "/force"));
    }
    std::vector<KnownWorktree> wanted;
    if (body->runs.empty()) {
        auto all = co_await read_worktrees(call, {});
        if (!all) co_return respond(call, all.error());
        wanted = std::move(*all);
        std::erase_if(wanted,
                      [](const KnownWorktree& each) { return each.worktree.state != core::WorktreeState::open; });
    }
    for (const core::RunId run : body->runs) {
        auto known = co_await read_worktree(call, run);
        if (!known) co_return respond(call, known.error());
        if (known->worktree.state != core::WorktreeState::open) {
            co_return respond(call, Problem{.status = 409,
                                            .code = "wrong_state",
                                            .detail = fmt::format("the worktree of {} has already been removed; its "
                                                                  "content is saved as {}",
                                                                  id_text(run), known->worktree.saved_as)});
        }
        wanted.push_back(std::move(*known));
    }
    Page<Collected> page;
    for (KnownWorktree& each : wanted) {
        page.items.push_back(co_await collect(call, std::move(each), body->remove, body->force));
    }
    co_return respond(page);
}

ResponseTask post_restore(Call& call) {
    const auto run = read_id<core::RunId>("worktree", call.names[0]);
    if (!run) co_return respond(call, run.error());
    const auto body = read_body<OnlyKey>(call);
    if (!body) co_return respond(call, body.error());
    const auto known = co_await read_worktree(call, *run);
    if (!known) co_return respond(call, known.error());
    if (!is_here(call, known->worktree)) {
        co_return respond(call, co_await of_another_node(call, known->worktree.node, "the worktree"));
    }
    // Whoever asks twice has what they want already.
    if (known->worktree.state != core::WorktreeState::open) {
        const auto done = co_await net::run_on(
            call.parts.workers, [&places = call.parts.workplaces, id = *run] { return places.restore_worktree(id); });
        if (!done) {
            co_return respond(call, Problem{.status = 409, .code = "refused", .detail = done.error()});
        }
    }
    co_return co_await show_worktree(call, *run);
}

}  // namespace

std::vector<ApiRoute> worktree_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::get,
         .path = "/v1/worktrees",
         .needs = read,
         .summary = "List the worktrees of runs",
         .handler = list_worktrees,
         .narrowest = Bound::agent,
         .answer = page_schema<WorktreeView>},
        {.method = Method::get,
         .path = "/v1/worktrees/{id}",
         .needs = read,
         .summary = "Show the worktree of a run and why it is kept",
         .handler = get_worktree,
         .narrowest = Bound::agent,
         .answer = schema_of<WorktreeDetail>},
        {.method = Method::post,
         .path = "/v1/worktrees/gc",
         .needs = operate,
         .summary = "Remove worktrees without unsaved work, or list them",
         .handler = post_collect,
         .body = schema_of<CollectBody>,
         .example = R"({"remove": false})",
         .answer = page_schema<Collected>},
        {.method = Method::post,
         .path = "/v1/worktrees/{id}/restore",
         .needs = operate,
         .summary = "Restore a removed worktree with its saved work",
         .handler = post_restore,
         .body = schema_of<OnlyKey>,
         .answer = schema_of<WorktreeDetail>},
    };
}

}  // namespace interlock::api
