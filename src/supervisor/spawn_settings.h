// How programs are started here: no signal is blocked or ignored in them, and what is sent to this process's group does
// not reach them.
#pragma once

#include <signal.h>
#include <spawn.h>

namespace interlock::supervisor {

class SpawnSettings {
 public:
    enum class Own { group, session };

    explicit SpawnSettings(Own own) {
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        sigset_t none;
        sigset_t all;
        sigemptyset(&none);
        sigfillset(&all);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setpgroup(&attributes, 0);
        const int apart = own == Own::group ? POSIX_SPAWN_SETPGROUP : POSIX_SPAWN_SETSID;
        posix_spawnattr_setflags(&attributes,
                                 static_cast<short>(apart | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    }
    ~SpawnSettings() {
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
    }
    SpawnSettings(const SpawnSettings&) = delete;
    SpawnSettings& operator=(const SpawnSettings&) = delete;

    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
};

}  // namespace interlock::supervisor
