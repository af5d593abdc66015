// A Landlock ruleset for git: it may execute no program but git itself, and write only beneath the named paths. It may
// read only there and beneath further paths. A repository can name objects and refs of another one, by alternates and
// by links, which a run that may not read the other one would get in a worktree.
//
// For programs this is the second lock. The first is that git sees no configuration of a repository
// (repository_view.h). Where the kernel has no Landlock, there is no ruleset and the first lock stands alone.
#pragma once

#include <string>
#include <vector>

#include "supervisor/open_file.h"

namespace interlock::supervisor {

struct GitReads {
    std::vector<std::string> directories = {};  // Empty: everything can be read.
    std::vector<std::string> files = {};        // A directory among them is skipped: a repository may have named it.
};

// For ProgramOptions::confinement. Holds no descriptor where there is no Landlock. A path that is not there is skipped.
// What git needs of the system is readable in any case.
OpenFile confine_git(const std::vector<std::string>& writable, const GitReads& readable = {});

}  // namespace interlock::supervisor
