// Undoing what was never handed out.
#pragma once

#include <string>

#include "base/result.h"
#include "supervisor/registration.h"

namespace interlock::supervisor {

// Its files and its own git directory. The branch stays.
Result<void, std::string> discard_half_made(const Registration& registration);

// That, the branch if it is still where it began, and the note of where that was.
Result<void, std::string> forget_worktree(const std::string& common_dir, const std::string& run,
                                          const std::string& branch);

}  // namespace interlock::supervisor
