// Places: from what a person calls a directory to what it is.
//
//   (1) `chain` is what `path` leads through, and both belong to the directory that was opened, however it is moved
//       meanwhile. What could not be seen as one is looked at again.
//   (2) `chain` begins with the directory's own identity (device:inode). Behind it stands that of every directory which
//       contains it: first along `path` up to the root, then along every other way that the mounts of this process lead
//       to it. So of two places, one contains the other exactly if its identity is in the other's chain, whatever
//       symbolic links, bind mounts and spellings they were named by.
//
// What cannot be seen from here: a mount in another mount namespace, and a file system that shows another one's
// directories as its own without saying so (FUSE, network). Named resources are for those. A mount that is made later
// is seen when one looks again (supervisor/held_places.h).
//
// resolve_workspace() holds nothing open: the directory can be moved or removed as soon as it returns. What a conflict
// is, and what follows from it, is decided in core/.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "core/rows.h"
#include "shim/fd.h"

namespace interlock::supervisor {

struct PlaceError {
    enum class Kind {
        not_found,        // No such directory, or a text that cannot name one.
        not_a_directory,  // There is something else.
        not_permitted,    // This process may not look there.
        too_deep,     // More than core::limits::place_depth_max directories, or a longer path than the system takes.
        unavailable,  // The system did not answer; trying again later may help.
    };
    Kind kind;
    std::string detail;  // For people: what, why, and what to do.
};

// A relative path begins at this process's working directory.
Result<core::Place, PlaceError> resolve_workspace(const std::string& path, core::ClaimMode mode,
                                                  const std::string& host);

// The same with the directory. While it is open, no other directory gets its identity.
struct OpenPlace {
    core::Place place;
    shim::Fd directory;            // O_PATH: nothing can be read or written by it.
    bool through_overlay = false;  // A directory can become an ancestor of it without a sign that could be watched.
};
Result<OpenPlace, PlaceError> open_workspace(const std::string& path, core::ClaimMode mode, const std::string& host);

// Where the open directory is now, also if it was moved or renamed.
Result<OpenPlace, PlaceError> look_again(const OpenPlace& open);

// The path of an open directory, as the kernel has it at this moment. Asks no file system, so it does not block.
std::optional<std::string> path_of(const shim::Fd& directory);
// Its device and inode.
std::optional<std::string> identity_of(const shim::Fd& directory);

// A thing that has a name and no directory, such as "deploy-prod". It is the same on every host.
core::Place named_resource(const std::string& name, core::ClaimMode mode);

// The same for as long as this machine has its /etc/machine-id, else its host name. The machine id is confidential by
// its manual page and never shown: this is a hash of it.
std::string this_host();

}  // namespace interlock::supervisor
