// What a shim knows about its run, in a file that survives it: whoever comes later finds out whether the run still has
// processes, and how it ended.
//
//   (1) The file is replaced as a whole: a reader sees one state or another, never a mixture.
//   (2) Nothing of the run's environment is in it.
//
// It is not forced to the disk. What it says is about processes, and those do not survive a power loss either.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "shim/protocol.h"

namespace interlock::shim {

struct ShimState {
    pid_t pid = 0;      // The shim.
    std::string start;  // Its start time.
    std::string boot;
    std::string run;
    ShimPhase phase = ShimPhase::waiting;
    pid_t child_pid = 0;
    std::string child_start;
    std::string cgroup;  // "" when there is none.
    // 1: it stopped itself with the job in its terminal. 0: it did not. -1: a shim before version 3 did not say.
    int suspended = -1;
    // As in `ended`; none and 0 before that.
    How how = How::none;
    int code = 0;
    CodeIs code_is = CodeIs::unknown;
    std::string detail;
    std::int64_t user_ms = 0;
    std::int64_t system_ms = 0;
    std::int64_t max_rss_kb = 0;
    // The output: how long it is, and which part in its middle was given up.
    std::int64_t log_end = 0;
    std::int64_t hole_begin = 0;
    std::int64_t hole_end = 0;

    friend bool operator==(const ShimState&, const ShimState&) = default;
};

// Into `directory`/state. False when it could not be written; the state before it is then still there.
bool write_state(const std::string& directory, const ShimState& state);
// Empty when there is none, or what is there is no state.
std::optional<ShimState> read_state(const std::string& directory);

}  // namespace interlock::shim
