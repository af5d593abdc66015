#include "supervisor/spawn_shim.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

#include "supervisor/shim_image.h"

namespace interlock::supervisor {

Result<pid_t, std::string> spawn_shim(const std::string& data_dir, const std::string& run) {
    // Where no program can be run from memory, this one does the same.
    const auto image = shim_path();
    const std::string program = image ? *image : "/proc/self/exe";
    std::vector<std::string> words{"interlock-shim", data_dir, run};
    if (!image) words.insert(words.begin() + 1, "shim");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
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
