// Where the Unix sockets of other programs are, for runs that are not to connect to them.
//
// The kernel tells the name that each socket was bound by. That name may be relative to a directory of the program that
// bound it, and the socket may have got further names since. They are looked for where they can be found at once: in
// the directories of all programs, and beside the names that are known. A socket that was moved to another directory is
// not found.
#pragma once

#include <string>
#include <vector>

namespace interlock::shim {

// Paths of the sockets that were bound in this network namespace.
std::vector<std::string> sockets_of_others();

}  // namespace interlock::shim
