// Confines a run with Landlock: it can read what it always could, and write only where it was allowed to.
//
// Not confined are the network, signals, and what a descriptor that was inherited leads to. Kernels before 6.2 cannot
// keep truncate(2) from a file outside, and those before 5.19 let nothing be moved from one directory to another.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "shim/fd.h"

namespace interlock::shim {

// What is needed to confine oneself, made before the fork so that whatever is wrong can be said in a sentence. Beneath
// `writable` everything may be written; a path that is not there is an error. The usual devices may be written too.
std::variant<Fd, std::string> make_sandbox(const std::vector<std::string>& writable);
// Confines the calling process for good. False with errno when the kernel refuses.
bool enter_sandbox(const Fd& sandbox);

}  // namespace interlock::shim
