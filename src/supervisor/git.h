// git, as a program that is asked. Which repository it looks at is said in each call, never found by chance.
//
// No hook, editor, pager, prompt, file watcher or automatic garbage collection is started: they would be programs of
// the repository's users, run by the server, while a lock is held. What a run needs to be set up belongs to the run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "supervisor/subprocess.h"

namespace interlock::supervisor {

class Git {
 public:
    // Whatever repository `dir` lies in.
    static Git in(const std::string& dir);
    // The repository itself, without any worktree.
    static Git of_repository(const std::string& common_dir);
    // One worktree, by its own git directory: it stays that one, even if `path` is replaced.
    static Git of_worktree(const std::string& git_dir, const std::string& path);

    // Copies that differ in one thing.
    Git with_env(std::string variable) const;
    Git with_setting(std::string setting) const;  // "core.fsync=all"
    Git with_lock(int fd) const;                  // The program holds the lock for as long as it lives.
    Git with_output_max(std::size_t bytes) const;

    // However it ended.
    Result<Finished, std::string> run(std::vector<std::string> arguments, std::string input = {}) const;
    // What it wrote. Any exit code but 0 is an error, with git's own words.
    Result<std::string, std::string> ask(std::vector<std::string> arguments, std::string input = {}) const;
    // The same for a command that answers with one line, which may contain line ends if it is a path.
    Result<std::string, std::string> line(std::vector<std::string> arguments) const;
    // The object that a name stands for; empty when there is no such name.
    Result<std::string, std::string> object(const std::string& name) const;

 private:
    std::vector<std::string> where_;
    std::vector<std::string> settings_;
    ProgramOptions options_;
};

// Why a git that ended with another exit code than 0 says it did.
std::string in_its_own_words(std::string_view command, const Finished& finished);

// What stands between the separators; the last one ends the text and begins no piece.
std::vector<std::string> pieces(std::string_view text, char separator);

// The pieces of a path-valued answer are separated by NUL, of any other by line ends.
inline std::vector<std::string> lines_of(std::string_view text) { return pieces(text, '\n'); }

}  // namespace interlock::supervisor
