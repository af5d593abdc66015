// What the run sees of the file system, made in a mount namespace of its own. The run cannot undo it: it gives
// up its capabilities (drop_capabilities()) in the namespace that owns these mounts, and below that they are locked.
//
// It needs mount_setattr(), which Linux has since 5.12.
#pragma once

#include <string>
#include <vector>

#include "shim/launch.h"
#include "shim/namespaces.h"

namespace interlock::shim {

// Paths of the Unix sockets that there are in this network namespace.
std::vector<std::string> sockets_of_others();

// `home` is the user's home directory, or empty; a sealed run does not see the sockets. False with errno when `part`
// could not be had.
bool make_view(const LaunchRequest& launch, const std::string& home, const std::vector<std::string>& sockets,
               Part& part);

// Where a run at level files may write, when its view is made.
std::vector<std::string> writable_places(const LaunchRequest& launch);

}  // namespace interlock::shim
