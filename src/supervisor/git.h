// git, as a program that is asked. Which repository it looks at is said in each call, never found by chance.
//
//   (1) git starts no program that a repository names: no filter, hook, helper, transport, file watcher, editor or
//       pager. of_repository() and of_worktree() show it the repository through a RepositoryView, which has no
//       configuration that names one.
//   (2) git fetches nothing: no protocol is allowed.
//   (3) Where the kernel has Landlock, git can execute no program but itself, and writes only in the repository and in
//       the worktree.
//
// Files are written as they are stored: filters such as git-lfs do not run.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "supervisor/open_file.h"
#include "supervisor/repository_view.h"
#include "supervisor/subprocess.h"

namespace interlock::supervisor {

class Git {
 public:
    // The repository that `dir` lies in, with its own configuration. Only for what git answers from names and
    // configuration alone: it must read no file of a worktree and no object, so that it has nothing to start.
    static Git in(const std::string& dir);
    // The repository itself, without any worktree.
    static Git of_repository(const std::string& common_dir);
    // One worktree, by its own git directory: it stays that one, even if `path` is replaced.
    static Git of_worktree(const std::string& common_dir, const std::string& git_dir, const std::string& path);

    // Copies that differ in one thing.
    Git with_env(std::string variable) const;
    Git with_setting(std::string setting) const;  // "core.fsync=all"
    Git with_output_max(std::size_t bytes) const;

    // What the repository says about its files and objects; see RepositoryView. Empty for in().
    std::string setting(std::string_view key) const;

    // However it ended.
    Result<SubprocessResult, std::string> run(std::vector<std::string> arguments, std::string input = {}) const;
    // What it wrote. Any exit code but 0 is an error, with git's own words.
    Result<std::string, std::string> ask(std::vector<std::string> arguments, std::string input = {}) const;
    // The same for a command that answers with one line, which may contain line ends if it is a path.
    Result<std::string, std::string> line(std::vector<std::string> arguments) const;
    // The object that a name stands for; empty when there is no such name.
    Result<std::string, std::string> object(const std::string& name) const;

 private:
    void look_through_a_view(const std::string& common_dir, const std::string& git_dir);

    std::shared_ptr<const Result<RepositoryView, std::string>> view_;
    std::shared_ptr<const OpenFile> confinement_;
    std::vector<std::string> settings_;
    ProgramOptions options_;
};

// Why a git that ended with another exit code than 0 says it did.
std::string in_its_own_words(std::string_view command, const SubprocessResult& finished);

// 40 or 64 hexadecimal digits, not all of them 0.
bool is_object_name(std::string_view text);

// What stands between the separators; the last one ends the text and begins no piece.
std::vector<std::string> pieces(std::string_view text, char separator);

// The pieces of a path-valued answer are separated by NUL, of any other by line ends.
inline std::vector<std::string> lines_of(std::string_view text) { return pieces(text, '\n'); }

}  // namespace interlock::supervisor
