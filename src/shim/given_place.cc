#include "shim/given_place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace interlock::shim {

namespace {

bool is_same(const struct stat& given, const struct stat& found) {
    return (given.st_dev == found.st_dev && given.st_ino == found.st_ino) || (errno = ESTALE, false);
}

}  // namespace

bool is_given(const LaunchRequest& launch, const Fd& directory) {
    if (launch.place < 0) return true;
    struct stat given{}, found{};
    return fstat(launch.place, &given) == 0 && fstat(directory.get(), &found) == 0 && is_same(given, found);
}

bool enter_given(const LaunchRequest& launch) {
    // By its path also where it was given: in the run's own view of the files, a descriptor from outside would lead out
    // of the view. So the directory is entered, and what was entered is compared. That takes no descriptor, of which
    // the run may have few.
    if (chdir(launch.dir.c_str()) != 0) return false;
    struct stat given{}, found{};
    return launch.place < 0 || (fstat(launch.place, &given) == 0 && stat(".", &found) == 0 && is_same(given, found));
}

}  // namespace interlock::shim
