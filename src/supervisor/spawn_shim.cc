#include "supervisor/spawn_shim.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include <fmt/format.h>

#include "supervisor/shim_image.h"

namespace interlock::supervisor {

Result<pid_t, std::string> spawn_shim(const std::string& data_dir, const std::string& run) {
    const auto image = shim_fd();
    if (!image) return fail(image.error());
    const std::string program = fmt::format("/proc/self/fd/{}", *image);
    std::array<std::string, 3> words{"interlock-shim", data_dir, run};
    std::array<char*, 4> arguments{words[0].data(), words[1].data(), words[2].data(), nullptr};
    std::array<char*, 1> environment{nullptr};

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    pid_t child = 0;
    const int failed =
        ::posix_spawn(&child, program.c_str(), &actions, &attributes, arguments.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0) return fail(std::string(std::strerror(failed)));
    return child;
}

}  // namespace interlock::supervisor
