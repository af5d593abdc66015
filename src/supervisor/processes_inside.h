// Which processes of this machine use something in a directory: as working or root directory, as program, mapped or
// open file. What /proc says of them is believed; see worktrees.h for what cannot be seen there. This process and shims
// hold the directories of their runs open and do nothing in them, so they do not count.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.h"

namespace interlock::supervisor {

struct ProcessInside {
    pid_t pid;
    std::string program;  // Its short name.
    std::string use;      // "its working directory is /a/b"
};

struct ProcessesInside {
    std::vector<ProcessInside> inside;
    std::size_t unseen = 0;  // Processes of other users that may not be looked at.
};

// How this process uses something in the directory; empty: it does not, or it may not be looked at.
std::string use_of_directory(pid_t pid, const std::string& path);

// `path` is canonical.
Result<ProcessesInside, std::string> processes_inside(const std::string& path);

}  // namespace interlock::supervisor
