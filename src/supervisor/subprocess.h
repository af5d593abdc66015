// A program that is started, waited for and gone: its exit code and what it wrote.
//
//   (1) Nothing of this process leaks into the program: no descriptor, no blocked or ignored signal, and of the
//       environment only the few variables that say where things are (PATH, HOME, the language, and where git keeps the
//       user's settings). Passwords, proxies, the ssh agent and the GIT_DIR of the server's caller are not among them.
//   (2) When run_program() returns, the program has ended, and so has every process that stayed in its process group.
//       If this process dies first, the kernel sends the program SIGTERM, so that git removes its lock files.
//   (3) No shell reads the arguments.
//
// It blocks; call it on a worker thread. Nobody else in the process may reap the child (waitpid of -1, or SIGCHLD
// ignored): the outcome would be lost, and an error says so.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace interlock::supervisor {

struct ProgramOptions {
    std::string dir = {};               // The working directory; empty: that of this process.
    std::vector<std::string> env = {};  // "NAME=value", on top of what (1) lets through.
    std::chrono::milliseconds timeout = std::chrono::seconds(60);
    std::string input = {};                                  // What the program reads from its standard input.
    std::size_t output_max = std::size_t{64} * 1024 * 1024;  // More is an error, and the program is killed.
    int confinement = -1;  // A Landlock ruleset that the program enters before it starts; -1: none.
    // Whether a wait for a FIFO is an error: the program reads files that a run may have replaced by one.
    bool waits_for_no_fifo = false;
};

struct SubprocessResult {
    int exit_code = 0;  // 128 + the signal's number when a signal ended it, as a shell says it.
    std::string out;
    std::string err;  // Its beginning, where it is long.
};

// The value of a variable of this process's environment that programs get too; empty when it is not set.
std::string passed_variable(std::string_view name);

// The program of that name in a directory of the PATH that is named from the root: what lies where the program is to
// work is not meant. Empty when there is none; a name with a slash is itself.
std::string find_program(const std::string& name);

// The error is a sentence: not found, timed out, wrote too much. A program that ended by itself is never an error.
Result<SubprocessResult, std::string> run_program(const std::vector<std::string>& argv,
                                                  const ProgramOptions& options = {});

}  // namespace interlock::supervisor
