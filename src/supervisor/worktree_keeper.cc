#include "supervisor/worktree_keeper.h"

#include <filesystem>

#include <fmt/format.h>

#include "store/read_rows.h"
#include "supervisor/file_tree.h"
#include "supervisor/registration.h"
#include "supervisor/teardown.h"

namespace interlock::supervisor {
namespace {

namespace fs = std::filesystem;

// A part of a branch's name, made of what people call the run.
std::string branch_word(const std::string& text) {
    std::string word;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        if (plain || ((c == '-' || c == '.') && !word.empty() && word.back() != '.')) {
            word += c;
        } else if (!word.empty() && word.back() != '-') {
            word += '-';
        }
    }
    while (!word.empty() && (word.back() == '-' || word.back() == '.')) word.pop_back();
    if (word.ends_with(".lock")) word.resize(word.size() - 5);
    return word.empty() ? "run" : word.substr(0, 60);
}

GitWorktree on_disk(const core::Worktree& row) {
    return {.run = to_text("run", row.run.value),
            .repository = row.repository,
            .path = row.path,
            .directory = row.path,
            .branch = row.branch,
            .base = row.base,
            .teardown = row.teardown,
            .port_base = row.port_base};
}

const core::Place* workspace_of(const core::Run& run) {
    for (const core::Place& place : run.wanted) {
        if (place.kind == core::ClaimKind::workspace) return &place;
    }
    return nullptr;
}

// What git in the worktree of a sandboxed run writes outside of it: objects, refs, their logs, and the worktree's own
// git directory. Not the rest of the repository's git directory: its configuration and its hooks name programs.
std::vector<std::string> written_by_git(const std::string& common_dir, const std::string& run) {
    std::vector<std::string> writable;
    for (const char* name : {"/objects", "/refs", "/logs"}) {
        // A link could lead anywhere.
        if (is_directory(common_dir + name)) writable.push_back(common_dir + name);
    }
    if (const auto registration = find_registration(common_dir, run)) writable.push_back(registration->git_dir);
    return writable;
}

}  // namespace

Result<WorktreeKeeper::Made, std::string> WorktreeKeeper::make(core::RunId run, const std::string& workspace) {
    // 1. Whose it is: a further try of a run works in the worktree of the first.
    const auto row = options_.reads.with(
        [&](store::Snapshot& snapshot) { return store::read_row<core::Run>(snapshot, options_.org, run.value); });
    if (!row) return fail(row.error().detail);
    const core::Place* place = *row ? workspace_of(**row) : nullptr;
    if (place == nullptr) return fail(std::string("the run has no workspace"));
    const auto owner = id_from_text("run", fs::path(place->path).filename().string());
    const core::RunId whose = owner ? core::RunId(*owner) : run;

    const auto repository = find_repository(workspace);
    if (!repository) {
        if ((*row)->supervised) return fail(repository.error());
        std::error_code error;  // Whoever owns the run finds an empty directory, and fills it.
        fs::create_directories(place->path, error);
        if (error) return fail(fmt::format("{} cannot be made: {}", place->path, error.message()));
        return Made{.directory = place->path, .port_base = 0, .writable = {}};
    }

    // 2. The row, then the directory.
    const std::string text = to_text("run", whose.value);
    const std::string name = (*row)->name.empty() ? (*row)->who.agent : (*row)->name;
    core::PutWorktree put{.run = whose,
                          .node = options_.node,
                          .repository = repository->top,
                          .path = place->path,
                          .branch = fmt::format("interlock/{}/{}", branch_word(name), text),
                          .base = {},
                          .teardown = {}};
    const auto launch = options_.reads.with(
        [&](store::Snapshot& snapshot) { return store::read_row<core::Launch>(snapshot, options_.org, run.value); });
    if (!launch) return fail(launch.error().detail);
    if (*launch) put.teardown = (*launch)->process.teardown;
    const auto reply = tell(put);
    if (!reply) return fail(reply.error());
    const auto made = make_worktree(
        {.dir = workspace, .path = place->path, .branch = put.branch, .run = text, .lock_dir = options_.lock_dir});
    if (!made) {
        std::error_code error;
        if (!fs::exists(place->path, error)) (void)tell(core::DropWorktree{whose, {}});
        return fail(made.error());
    }
    put.base = made->base;
    put.repository = made->repository;
    if (auto told = tell(put); !told) return fail(told.error());
    return Made{.directory = made->directory,
                .port_base = reply->port_base,
                .writable = written_by_git(repository->common_dir, text),
                .readable = {repository->common_dir}};
}

Result<WorktreeKeeper::Kept, std::string> WorktreeKeeper::why(core::RunId run) {
    const auto row = find(run);
    if (!row) return fail(row.error());
    return Kept{reasons_to_keep(on_disk(*row), in_use(*row) ? Lease::held : Lease::none), disk_bytes(row->path)};
}

Result<std::string, std::string> WorktreeKeeper::remove(core::RunId run, Force force) {
    const auto row = find(run);
    if (!row) return fail(row.error());
    const auto removed =
        remove_worktree({.worktree = on_disk(*row),
                         .force = force,
                         .lease = in_use(*row) ? Lease::held : Lease::none,
                         .lock_dir = options_.lock_dir,
                         .tear_down = [&](const std::string& directory) { return tear_down(*row, directory); }});
    if (!removed) return fail(removed.error());
    if (auto told = tell(core::DropWorktree{run, removed->kept_ref}); !told) return fail(told.error());
    return removed->kept_ref;
}

Result<void, std::string> WorktreeKeeper::restore(core::RunId run) {
    const auto row = options_.reads.with(
        [&](store::Snapshot& snapshot) { return store::read_row<core::Worktree>(snapshot, options_.org, run.value); });
    if (!row) return fail(row.error().detail);
    if (!*row) return fail(fmt::format("nothing was saved of a worktree of {}", to_text("run", run.value)));
    const core::Worktree& found = **row;
    if (found.node != options_.node) return fail(fmt::format("it was on node '{}'; ask that one", found.node));
    if (found.state == core::WorktreeState::open) return fail(fmt::format("it is there: {}", found.path));
    const core::PutWorktree put{.run = run,
                                .node = options_.node,
                                .repository = found.repository,
                                .path = found.path,
                                .branch = found.branch,
                                .base = found.base,
                                .teardown = found.teardown};
    if (auto told = tell(put); !told) return fail(told.error());
    const auto restored = restore_worktree(found.repository, to_text("run", run.value), found.path, options_.lock_dir);
    if (restored) return {};
    (void)tell(core::DropWorktree{run, found.saved_as});
    return fail(restored.error());
}

Result<core::WorktreeReply, std::string> WorktreeKeeper::tell(core::CommandBody body) {
    const auto answer = options_.ask(std::move(body));
    const auto* reply = answer ? std::get_if<core::WorktreeReply>(&answer->reply) : nullptr;
    if (reply == nullptr) return fail(std::string("the store could not be asked; try again"));
    if (reply->status > core::WorktreeStatus::unchanged) return fail(reply->detail);
    return *reply;
}

Result<core::Worktree, std::string> WorktreeKeeper::find(core::RunId run) {
    auto row = options_.reads.with(
        [&](store::Snapshot& snapshot) { return store::read_row<core::Worktree>(snapshot, options_.org, run.value); });
    if (!row) return fail(row.error().detail);
    if (!*row || (*row)->state != core::WorktreeState::open) {
        return fail(fmt::format("there is no worktree of {}", to_text("run", run.value)));
    }
    if ((*row)->node != options_.node) return fail(fmt::format("it is on node '{}'; ask that one", (*row)->node));
    return std::move(**row);
}

Result<std::string, std::string> WorktreeKeeper::tear_down(const core::Worktree& worktree,
                                                           const std::string& directory) {
    const auto run = options_.reads.with([&](store::Snapshot& snapshot) {
        return store::read_row<core::Run>(snapshot, options_.org, worktree.run.value);
    });
    const auto launch = options_.reads.with([&](store::Snapshot& snapshot) {
        return store::read_row<core::Launch>(snapshot, options_.org, worktree.run.value);
    });
    if (!run || !launch) return fail(run ? launch.error().detail : run.error().detail);
    // Without them it is not known whether the run was in a sandbox.
    if (!*run || !*launch) return fail(std::string("the run that it belongs to is not stored any more"));
    const auto sandbox = decide_sandbox((*launch)->process, options_.sandbox());
    if (!sandbox) return fail(sandbox.error());
    const auto common_dir = common_dir_of(worktree.repository);
    if (!common_dir) return fail(common_dir.error());
    const std::string text = to_text("run", worktree.run.value);
    return carry_out({.run = **run,
                      .process = (*launch)->process,
                      .text = worktree.teardown,
                      .directory = directory,
                      .home = fmt::format("{}/runs/{}/teardown", options_.data_dir, text),
                      .environment = options_.environment,
                      .writable = written_by_git(*common_dir, text),
                      .readable = {*common_dir},
                      .port_base = worktree.port_base,
                      .sandbox = *sandbox,
                      .hidden = options_.hidden});
}

// Whether a run that has not ended works there, or will. What cannot be read is taken for a yes.
bool WorktreeKeeper::in_use(const core::Worktree& worktree) {
    const auto runs = options_.reads.with([&](store::Snapshot& snapshot) {
        return store::read_rows<core::Run>(snapshot, options_.org,
                                           "and state in ('queued', 'starting', 'running', 'paused')");
    });
    if (!runs) return true;
    for (const core::Run& run : *runs) {
        for (const core::Place& place : run.wanted) {
            const bool inside = place.path == worktree.path || place.path.starts_with(worktree.path + '/') ||
                                worktree.path.starts_with(place.path + '/');
            if (place.kind == core::ClaimKind::workspace && inside) return true;
        }
    }
    return false;
}

}  // namespace interlock::supervisor
