// The user's terminal, which the run borrows while it is in the foreground, as it would from a shell.
//
// The signals of job control (SIGTTOU before all) are blocked in the shim, so that it may set the terminal up while
// another group has it.
#pragma once

#include <sys/types.h>
#include <termios.h>

#include <string>
#include <string_view>

#include "shim/fd.h"

namespace interlock::shim {

class ControllingTty {
 public:
    // None.
    ControllingTty() = default;
    // The controlling terminal of this process, if it has one.
    static ControllingTty of_this_process();

    explicit operator bool() const { return static_cast<bool>(tty_); }
    // Whether our process group is the one that may read from it.
    bool ours() const;
    // Whether the run should have it from the start. If only its input or its output is the terminal, it may be part of
    // a pipeline whose other end needs it: then the run gets it when it asks.
    bool wanted_at_once() const;
    // False when it cannot be given.
    bool give(pid_t group);
    // With the modes that we found. Does nothing when `group` does not have it.
    void take_back(pid_t group);
    // Stops our whole process group, as the shell's Ctrl-Z would have. Returns when we are continued, or at once when
    // nobody is there who could continue us.
    void stop_ourselves(int signal);

 private:
    Fd tty_;
    termios modes_{};
    termios modes_of_run_{};
    bool has_modes_of_run_ = false;
};

// One line on stderr that is rewritten in place; where stderr is no terminal, one line for each change.
class StatusLine {
 public:
    void show(const std::string& text);
    void clear();

 private:
    std::string shown_;
};

// One line on stderr, from the program to its user.
void say(std::string_view text);

}  // namespace interlock::shim
