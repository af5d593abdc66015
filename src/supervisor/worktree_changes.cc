#include "supervisor/worktree_changes.h"

#include <atomic>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <fmt/format.h>

#include "supervisor/file_tree.h"

namespace interlock::supervisor {
namespace {

// Takes the marks off under which git would not look at a file that is there. Where a file with skip-worktree is not on
// disk, the mark is a sparse checkout's, and the file is not missing.
Result<void, std::string> look_at_everything(const Git& git, const std::string& path) {
    const auto listed = git.ask({"ls-files", "-v", "-z"});
    if (!listed) return fail(listed.error());
    std::string assumed;
    std::string skipped;
    for (const std::string& entry : pieces(*listed, '\0')) {
        if (entry.size() < 3) continue;
        const std::string name = entry.substr(2);
        const bool skips = entry[0] == 'S' || entry[0] == 's';
        if (entry[0] >= 'a' && entry[0] <= 'z') assumed += name + '\0';
        if (skips && status_of(path + "/" + name)) skipped += name + '\0';
    }
    for (const auto& [names, option] :
         {std::pair(&assumed, "--no-assume-unchanged"), std::pair(&skipped, "--no-skip-worktree")}) {
        if (names->empty()) continue;
        const auto done = git.ask({"update-index", option, "-z", "--stdin"}, *names);
        if (!done) return fail(done.error());
    }
    return {};
}

// What stands behind the given number of words.
std::string behind_words(std::string_view text, int words) {
    for (; words > 0 && !text.empty(); --words) text.remove_prefix(std::min(text.find(' '), text.size() - 1) + 1);
    return std::string(text);
}

}  // namespace

Result<IndexCopy, std::string> IndexCopy::make(const Registration& registration) {
    // Beside the index, because a split index looks for its other half there.
    static std::atomic<unsigned> count = 0;
    const std::string name = fmt::format("interlock-index-{}-{}", getpid(), ++count);
    const std::string path = registration.git_dir + "/" + name;
    IndexCopy copy(Git::of_worktree(registration.common_dir, registration.git_dir, registration.path)
                       .with_env("GIT_INDEX_FILE=" + path),
                   path);
    // Without an index git sees every file as removed from it, and so do we. git tells by the age of the index which
    // files it has to read: a copy that looked newer would hide changes that were made right after the original was
    // written. A run can write in this directory, so what stands under the new name goes.
    unlink(path.c_str());
    if (auto copied = copy_within(registration.git_dir, "index", name); !copied) return fail(copied.error());
    if (auto looked = look_at_everything(copy.git_, registration.path); !looked) return fail(looked.error());
    return copy;
}

IndexCopy::~IndexCopy() {
    if (path_.empty()) return;
    unlink(path_.c_str());
    unlink((path_ + ".lock").c_str());
}

Result<std::vector<ChangedFile>, std::string> changed_files(const IndexCopy& index) {
    // Of a submodule only its commit is compared: to look at its files, git would start a git with the submodule's own
    // configuration. Repositories inside a worktree keep it anyway.
    const auto status = index.git().ask({"status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames",
                                         "--ignored=no", "--ignore-submodules=dirty"});
    if (!status) return fail(status.error());
    std::vector<ChangedFile> files;
    for (const std::string& entry : pieces(*status, '\0')) {
        switch (entry.empty() ? '\0' : entry.front()) {
            case '1':
                files.push_back({.name = behind_words(entry, 8), .submodule = behind_words(entry, 2).front() == 'S'});
                break;
            case 'u':
                files.push_back({.name = behind_words(entry, 10), .submodule = behind_words(entry, 2).front() == 'S'});
                break;
            case '?':
                files.push_back({.name = behind_words(entry, 1), .untracked = true});
                break;
            default:
                return fail(fmt::format("git status answered what is not understood: {}", entry));
        }
    }
    return files;
}

}  // namespace interlock::supervisor
