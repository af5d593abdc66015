// A control group of its own for a run: none of its processes can leave it without privilege, and all of them can be
// frozen or killed with one write. It is used when the system lets us; nothing depends on it.
#pragma once

#include <string>

#include "shim/fd.h"

namespace interlock::shim {

class Cgroup {
 public:
    Cgroup() = default;
    // Makes the directory. Without it, or when it is no control group of version 2, there is none: see `problem`.
    Cgroup(std::string path, std::string& problem);

    explicit operator bool() const { return !path_.empty(); }
    const std::string& path() const { return path_; }
    // To which the child writes "0" to join.
    Fd open_door() const;
    // Writes a bound of the group's. False where there is no group, or no controller for it.
    bool set(const char* file, const std::string& value) const { return write(file, value.c_str()); }
    bool kill() const;
    // These wait a moment for it to have happened: false when it did not, or cannot.
    bool freeze() const;
    bool thaw() const;
    // Yes also when it cannot be told.
    bool populated() const;
    // With the groups that the run made beneath it.
    void remove();

 private:
    bool write(const char* file, const char* text) const;
    bool events_say(const char* line) const;
    bool events_will_say(const char* line) const;

    std::string path_;
};

}  // namespace interlock::shim
