#include "supervisor/spawn_shim.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "supervisor/shim_image.h"
#include "supervisor/spawn_settings.h"

namespace interlock::supervisor {
namespace {

constexpr int secret_fd = 3;

}  // namespace

Result<shim::Fd, std::string> pipe_with(const std::string& text) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    shim::Fd read(ends[0]);
    const shim::Fd write(ends[1]);
    // A new pipe has room for far more than a secret, so this does not wait for a reader.
    if (!shim::write_all(write.get(), text))
        return fail(fmt::format("cannot write to a pipe: {}", std::strerror(errno)));
    return read;
}

Result<pid_t, std::string> spawn_shim(const std::string& data_dir, const std::string& run, const std::string& secret) {
    auto pipe = pipe_with(secret);
    if (!pipe) return fail(pipe.error());
    // Where no program can be run from memory, this one does the same.
    const auto image = shim_path();
    const std::string program = image ? *image : "/proc/self/exe";
    std::vector<std::string> words{"interlock-shim", data_dir, run, "--secret-fd", std::to_string(secret_fd)};
    if (!image) words.insert(words.begin() + 1, "shim");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::array<char*, 1> environment{nullptr};

    SpawnSettings settings(SpawnSettings::Own::session);
    posix_spawn_file_actions_addopen(&settings.actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&settings.actions, STDIN_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&settings.actions, STDIN_FILENO, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&settings.actions, pipe->get(), secret_fd);
    pid_t child = 0;
    const int failed = ::posix_spawn(&child, program.c_str(), &settings.actions, &settings.attributes, arguments.data(),
                                     environment.data());
    if (failed != 0) return fail(std::string(std::strerror(failed)));
    return child;
}

}  // namespace interlock::supervisor
