// Removes a directory and everything in it, also directories that their owner made read-only. Follows no symbolic link
// and stays on the file system it began on. For trees that nobody changes any more.
#pragma once

#include <string>

namespace interlock::shim {

void remove_tree(const std::string& path);

}  // namespace interlock::shim
