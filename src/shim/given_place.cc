#include "shim/given_place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace interlock::shim {

bool is_given(const Launch& launch, const Fd& directory) {
    if (launch.place < 0) return true;
    struct stat given{}, found{};
    if (fstat(launch.place, &given) != 0 || fstat(directory.get(), &found) != 0) return false;
    return (given.st_dev == found.st_dev && given.st_ino == found.st_ino) || (errno = ESTALE, false);
}

bool enter_given(const Launch& launch) {
    // By its path also where it was given: in the run's own view of the files, a descriptor from outside would lead out
    // of the view. So the directory is opened once, and what was opened is compared and entered.
    const Fd found(open(launch.dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    return found && is_given(launch, found) && fchdir(found.get()) == 0;
}

}  // namespace interlock::shim
