// What the server wants started, read from its `launch` message.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "shim/message.h"

namespace interlock::shim {

struct Limit {
    std::string text;  // As it was written, for whoever is told that it failed.
    int resource = 0;  // Of each process, as setrlimit() has it. -1: there is none of the kind.
    rlim_t value = 0;
    // Of all processes of the run together, in its control group; null: there is none of the kind.
    const char* group_file = nullptr;
};

// What a run can reach beside its workspace. docs/sandbox.md says what each level bounds.
enum class AppliedSandboxLevel { off, guarded, files, sealed };
const char* name_of(AppliedSandboxLevel level);

struct LaunchRequest {
    std::vector<std::string> args;
    std::vector<std::string> env;  // "NAME=value".
    std::string dir;
    bool dir_is_held = false;     // The server has sent `place` along.
    int place = -1;               // The directory that `dir` must lead to; -1: any.
    std::string home;             // The directory of the run: `output` and `tmp` are in it.
    std::int64_t timeout_ms = 0;  // 0: as long as it takes.
    std::int64_t grace_ms = 10'000;
    std::int64_t beat_ms = 1'000;
    std::int64_t log_max = 0;  // 0: everything is kept.
    int nice = 0;
    std::vector<Limit> limits;
    AppliedSandboxLevel level = AppliedSandboxLevel::off;
    int port = 0;                       // At level sealed: where its entrance is; 0: it has none.
    std::vector<std::string> hidden;    // Directories and sockets of the server's. Only the run's own parts are there.
    std::vector<std::string> writable;  // At level files, beside its directory.
    std::vector<std::string> readable;  // At level files, beside the system's directories.
    std::string note;                   // What a person at the terminal should know about its level.
    std::string cgroup;                 // "" when none is wanted.
};

// What is wrong with it, in a sentence, when it is no launch. Keys that are not known come from a newer server and are
// left alone.
std::variant<LaunchRequest, std::string> read_launch(const ShimMessage& message);

}  // namespace interlock::shim
