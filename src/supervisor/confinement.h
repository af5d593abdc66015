// A Landlock ruleset for git: it may execute no program but git itself, and write only beneath the named paths.
//
// This is the second lock. The first is that git sees no configuration of a repository (repository_view.h). Where the
// kernel has no Landlock, there is no ruleset and the first lock stands alone.
#pragma once

#include <string>
#include <vector>

#include "supervisor/open_file.h"

namespace interlock::supervisor {

// For ProgramOptions::confinement. Holds no descriptor where there is no Landlock. A path that is not there is skipped.
OpenFile confine_git(const std::vector<std::string>& writable);

}  // namespace interlock::supervisor
