#include "supervisor/worktree_commits.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "supervisor/file_tree.h"

namespace interlock::supervisor {
namespace {

// Comparing changes takes time for every pair, so it is limited. What is beyond is taken as being nowhere else.
constexpr std::size_t compared_branches_max = 32;
constexpr std::size_t compared_tips_max = 16;

struct Ref {
    std::string object;
    std::string name;
};

// Refs of the repository that keep a commit after the worktree and its branch are gone; the newest first.
Result<std::vector<Ref>, std::string> other_refs(const std::string& common_dir, const std::string& branch) {
    const auto listed =
        Git::of_repository(common_dir)
            .ask({"for-each-ref", "--sort=-committerdate", "--format=%(objectname) %(refname) %(symref)"});
    if (!listed) return fail(listed.error());
    std::vector<Ref> refs;
    for (const std::string& line : lines_of(*listed)) {
        const auto words = pieces(line, ' ');
        if (words.size() < 2) return fail(fmt::format("git for-each-ref answered what is not understood: {}", line));
        const std::string& name = words[1];
        // What only points to another ref keeps nothing by itself, and bisect and the like belong to one worktree.
        const bool symbolic = words.size() > 2 && !words[2].empty();
        const bool fleeting =
            std::ranges::any_of(std::array{"refs/interlock/", "refs/bisect/", "refs/worktree/", "refs/rewritten/"},
                                [&](const char* prefix) { return name.starts_with(prefix); });
        if (symbolic || fleeting || name == "refs/stash" || name == branch_ref(branch)) continue;
        refs.push_back({.object = words[0], .name = name});
    }
    return refs;
}

bool is_object_name(std::string_view text) {
    return (text.size() == 40 || text.size() == 64) &&
           std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }) &&
           text.find_first_not_of('0') != std::string_view::npos;
}

// Commits that unfinished and past operations left in files of the worktree's git directory.
void add_operation_commits(const std::string& git_dir, std::set<std::string>& positions) {
    for (const char* name :
         {"ORIG_HEAD", "MERGE_HEAD", "MERGE_AUTOSTASH", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD",
          "rebase-merge/orig-head", "rebase-merge/autostash", "rebase-apply/orig-head", "rebase-apply/autostash"}) {
        for (const std::string& line : lines_of(read_file(git_dir + "/" + name).value_or(""))) {
            const std::string object = line.substr(0, line.find_first_of(" \t"));
            if (is_object_name(object)) positions.insert(object);
        }
    }
}

// Every commit that HEAD or the branch was at, as far as their reflogs go.
Result<void, std::string> add_reflog(const Git& git, const std::string& ref, std::set<std::string>& positions) {
    const auto exists = git.run({"reflog", "exists", ref});
    if (!exists) return fail(exists.error());
    if (exists->exit_code != 0) return {};
    const auto walked = git.ask({"rev-list", "--walk-reflogs", ref, "--"});
    if (!walked) return fail(walked.error());
    for (std::string& commit : lines_of(*walked)) positions.insert(std::move(commit));
    return {};
}

Result<void, std::string> add_own_refs(const Git& git, std::set<std::string>& positions) {
    const auto listed =
        git.ask({"for-each-ref", "--format=%(objectname)", "refs/worktree/", "refs/rewritten/", "refs/bisect/"});
    if (!listed) return fail(listed.error());
    for (std::string& object : lines_of(*listed)) positions.insert(std::move(object));
    return {};
}

// The lines of rev-list --parents.
Result<std::vector<std::vector<std::string>>, std::string> only_from(const std::string& common_dir,
                                                                     const std::vector<Ref>& others,
                                                                     const std::set<std::string>& positions) {
    if (positions.empty()) return {};
    std::string wanted;
    for (const std::string& position : positions) wanted += position + "\n";
    for (const Ref& ref : others) wanted += "^" + ref.object + "\n";
    const auto listed = Git::of_repository(common_dir).ask({"rev-list", "--parents", "--stdin"}, std::move(wanted));
    if (!listed) return fail(listed.error());
    std::vector<std::vector<std::string>> commits;
    for (const std::string& line : lines_of(*listed)) commits.push_back(pieces(line, ' '));
    return commits;
}

}  // namespace

Result<WorktreeCommits, std::string> commits_of(const Registration& registration, const std::string& common_dir,
                                                const std::string& branch) {
    const Git git = Git::of_worktree(registration.git_dir, registration.path);
    WorktreeCommits found;
    auto head = git.object("HEAD^{commit}");
    if (!head) return fail(std::move(head.error()));
    auto tip = git.object(branch_ref(branch) + "^{commit}");
    if (!tip) return fail(std::move(tip.error()));
    const auto head_ref = git.run({"symbolic-ref", "--quiet", "HEAD"});
    if (!head_ref) return fail(head_ref.error());
    found.head = std::move(*head);
    found.branch_tip = std::move(*tip);
    found.head_ref = head_ref->out.substr(0, head_ref->out.find('\n'));

    std::set<std::string> positions;
    for (const std::string& commit : {found.head, found.branch_tip}) {
        if (!commit.empty()) positions.insert(commit);
    }
    for (const std::string& ref : {std::string("HEAD"), branch_ref(branch)}) {
        if (auto added = add_reflog(git, ref, positions); !added) return fail(added.error());
    }
    if (auto added = add_own_refs(git, positions); !added) return fail(added.error());
    add_operation_commits(registration.git_dir, positions);

    const auto others = other_refs(common_dir, branch);
    if (!others) return fail(others.error());
    const auto commits = only_from(common_dir, *others, positions);
    if (!commits) return fail(commits.error());
    std::set<std::string> parents;
    for (const auto& commit : *commits) parents.insert(commit.begin() + 1, commit.end());
    for (const auto& commit : *commits) {
        found.unreachable.push_back(commit.front());
        if (!parents.contains(commit.front())) found.tips.push_back(commit.front());
    }
    return found;
}

Result<std::vector<std::string>, std::string> without_equivalent(const WorktreeCommits& commits,
                                                                 const std::string& common_dir,
                                                                 const std::string& branch) {
    std::set<std::string> left(commits.unreachable.begin(), commits.unreachable.end());
    if (left.empty() || commits.tips.size() > compared_tips_max) return commits.unreachable;
    const auto others = other_refs(common_dir, branch);
    if (!others) return fail(others.error());
    std::size_t compared = 0;
    for (const Ref& ref : *others) {
        if (!ref.name.starts_with("refs/heads/") && !ref.name.starts_with("refs/remotes/")) continue;
        if (left.empty() || ++compared > compared_branches_max) break;
        for (const std::string& tip : commits.tips) {
            const auto listed = Git::of_repository(common_dir).ask({"cherry", ref.object, tip});
            if (!listed) return fail(listed.error());
            for (const std::string& line : lines_of(*listed)) {
                if (line.starts_with("- ")) left.erase(line.substr(2));
            }
        }
    }
    return std::vector<std::string>(left.begin(), left.end());
}

Result<std::vector<std::string>, std::string> unreachable_but_for(const std::string& common_dir,
                                                                  const std::string& branch,
                                                                  const std::vector<std::string>& commits,
                                                                  const std::string& keeper) {
    auto others = other_refs(common_dir, branch);
    if (!others) return fail(std::move(others.error()));
    if (!keeper.empty()) others->push_back({.object = keeper, .name = {}});
    const auto found = only_from(common_dir, *others, std::set<std::string>(commits.begin(), commits.end()));
    if (!found) return fail(found.error());
    std::vector<std::string> unreachable;
    for (const auto& commit : *found) unreachable.push_back(commit.front());
    return unreachable;
}

}  // namespace interlock::supervisor
