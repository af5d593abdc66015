#include "supervisor/spawn_shim.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

#include "supervisor/shim_image.h"
#include "supervisor/spawn_settings.h"

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

    SpawnSettings settings(SpawnSettings::Own::session);
    posix_spawn_file_actions_addopen(&settings.actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&settings.actions, STDIN_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&settings.actions, STDIN_FILENO, STDERR_FILENO);
    pid_t child = 0;
    const int failed = ::posix_spawn(&child, program.c_str(), &settings.actions, &settings.attributes, arguments.data(),
                                     environment.data());
    if (failed != 0) return fail(std::string(std::strerror(failed)));
    return child;
}

}  // namespace interlock::supervisor
