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

struct Refs {
    std::vector<Ref> lasting;  // Those that keep a commit after the worktree and its branch are gone; the newest first.
    std::vector<Ref> of_the_worktree;  // Of bisect and the like, in the worktree that was asked.
};

Result<Refs, std::string> refs_seen_by(const Git& git, const std::string& branch) {
    const auto listed =
        git.ask({"for-each-ref", "--sort=-committerdate", "--format=%(objectname) %(refname) %(symref)"});
    if (!listed) return fail(listed.error());
    Refs refs;
    for (const std::string& line : lines_of(*listed)) {
        const auto words = pieces(line, ' ');
        if (words.size() < 2) return fail(fmt::format("git for-each-ref answered what is not understood: {}", line));
        const std::string& name = words[1];
        const bool symbolic = words.size() > 2 && !words[2].empty();
        const bool own = std::ranges::any_of(std::array{"refs/bisect/", "refs/worktree/", "refs/rewritten/"},
                                             [&](const char* prefix) { return name.starts_with(prefix); });
        if (own) refs.of_the_worktree.push_back({.object = words[0], .name = name});
        // What only points to another ref keeps nothing by itself.
        const bool fleeting = own || symbolic || name.starts_with("refs/interlock/") || name == "refs/stash";
        if (!fleeting && name != branch_ref(branch)) refs.lasting.push_back({.object = words[0], .name = name});
    }
    return refs;
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
Result<void, std::string> add_reflogs(const Git& git, const std::string& git_dir, const WorktreeCommits& now,
                                      const std::string& branch, std::set<std::string>& positions) {
    std::vector<std::string> arguments = {"rev-list", "--walk-reflogs"};
    if (!now.head.empty()) arguments.push_back("HEAD");
    if (!now.branch_tip.empty()) arguments.push_back(branch_ref(branch));
    if (arguments.size() > 2) {
        arguments.push_back("--");
        const auto walked = git.ask(std::move(arguments));
        if (!walked) return fail(walked.error());
        for (std::string& commit : lines_of(*walked)) positions.insert(std::move(commit));
    }
    // git does not walk the reflog of a HEAD that has no commit (checkout --orphan), although there is one.
    if (now.head.empty()) {
        for (const std::string& line : lines_of(read_file(git_dir + "/logs/HEAD").value_or(""))) {
            const auto words = pieces(line, ' ');
            for (std::size_t i = 0; i < std::min<std::size_t>(words.size(), 2); ++i) {
                if (is_object_name(words[i])) positions.insert(words[i]);
            }
        }
    }
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
    const Git git = Git::of_worktree(common_dir, registration.git_dir, registration.path);
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
    if (auto added = add_reflogs(git, registration.git_dir, found, branch, positions); !added) {
        return fail(added.error());
    }
    add_operation_commits(registration.git_dir, positions);

    const auto refs = refs_seen_by(git, branch);
    if (!refs) return fail(refs.error());
    for (const Ref& ref : refs->of_the_worktree) positions.insert(ref.object);
    const auto commits = only_from(common_dir, refs->lasting, positions);
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
    const Git git = Git::of_repository(common_dir);
    const auto refs = refs_seen_by(git, branch);
    if (!refs) return fail(refs.error());
    std::size_t compared = 0;
    for (const Ref& ref : refs->lasting) {
        if (!ref.name.starts_with("refs/heads/") && !ref.name.starts_with("refs/remotes/")) continue;
        if (left.empty() || ++compared > compared_branches_max) break;
        for (const std::string& tip : commits.tips) {
            const auto listed = git.ask({"cherry", ref.object, tip});
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
    auto refs = refs_seen_by(Git::of_repository(common_dir), branch);
    if (!refs) return fail(std::move(refs.error()));
    if (!keeper.empty()) refs->lasting.push_back({.object = keeper, .name = {}});
    const auto found = only_from(common_dir, refs->lasting, std::set<std::string>(commits.begin(), commits.end()));
    if (!found) return fail(found.error());
    std::vector<std::string> unreachable;
    for (const auto& commit : *found) unreachable.push_back(commit.front());
    return unreachable;
}

}  // namespace interlock::supervisor
