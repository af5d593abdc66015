#include "supervisor/teardown.h"

#include <chrono>
#include <filesystem>

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "shim/message.h"
#include "shim/task.h"
#include "supervisor/file_tree.h"
#include "supervisor/git.h"
#include "supervisor/launching.h"
#include "supervisor/shim_image.h"
#include "supervisor/subprocess.h"

namespace interlock::supervisor {
namespace {

constexpr std::int64_t teardown_timeout_s = 60;
constexpr std::int32_t teardown_grace_s = 5;
constexpr std::int64_t teardown_log_max = 1 << 20;
// For the shim to end what does not end by itself.
constexpr auto shim_timeout = std::chrono::seconds(teardown_timeout_s + teardown_grace_s + 30);

std::string last_line_of(const std::string& text) {
    const auto lines = pieces(text, '\n');
    return lines.empty() ? "" : ": " + lines.back().substr(0, 200);
}

}  // namespace

Result<std::string, std::string> carry_out(const Teardown& teardown) {
    std::error_code error;
    std::filesystem::create_directories(teardown.home, error);
    if (error) return fail(fmt::format("cannot make {}: {}", teardown.home, error.message()));
    chmod(teardown.home.c_str(), 0700);
    const std::string output = teardown.home + "/output";
    unlink(output.c_str());

    core::ProcessSpec process = teardown.process;
    process.command = {"/bin/sh", "-c", teardown.text};
    process.setup.clear();
    process.adapter.clear();
    process.pass_env.clear();  // What the run was handed from the server's environment, it had for its own time.
    process.foreground = false;
    // Bounds of the run's control group, which it had for itself.
    for (const char* name : {"cpu_percent", "memory", "pids"}) process.limits.erase(name);
    process.timeout_s = teardown_timeout_s;
    process.grace_s = teardown_grace_s;
    const shim::ShimMessage launch = launch_message(teardown.run, process,
                                                    {.home = teardown.home,
                                                     .directory = teardown.directory,
                                                     .environment = teardown.environment,
                                                     .url = {},
                                                     .key = {},
                                                     .port_base = teardown.port_base,
                                                     .sandbox = teardown.sandbox,
                                                     .hidden = teardown.hidden,
                                                     .writable = teardown.writable,
                                                     .readable = teardown.readable,
                                                     .cgroup = {},
                                                     .log_bytes_max = teardown_log_max});

    const auto image = shim_path();
    std::vector<std::string> words{image ? *image : "/proc/self/exe", shim::task_option};
    if (!image) words.insert(words.begin() + 1, "shim");
    const auto finished = run_program(words, {.timeout = shim_timeout, .input = shim::encode(launch)});
    if (!finished) return fail(finished.error());
    if (finished->exit_code != 0) return fail(finished->out);
    if (finished->out.empty()) return std::string();
    return fmt::format("the teardown {}{}", finished->out, last_line_of(read_file(output).value_or("")));
}

}  // namespace interlock::supervisor
