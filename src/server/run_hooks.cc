#include "server/run_hooks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "base/shell.h"
#include "cli/output.h"
#include "server/up_command.h"
#include "shim/fd.h"
#include "supervisor/shim_image.h"
#include "supervisor/spawn_shim.h"

namespace interlock::server {
namespace {

bool is_free(std::uint16_t port) {
    const shim::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
}

cli::Failure cannot_hold(std::string_view why) {
    return {.exit = cli::ExitCode::refused,
            .code = "no_shim",
            .detail = fmt::format("the run cannot start in this terminal: {}", why)};
}

}  // namespace

cli::Outcome<void> start_server(const std::string& data_dir, const cli::CliOutput& output) {
    // Under a lock: a second caller finds the server of the first.
    std::error_code error;
    std::filesystem::create_directories(data_dir, error);
    const shim::Fd turn(::open((data_dir + "/start.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (turn) ::flock(turn.get(), LOCK_EX);
    UpOptions options;
    if (!is_free(4100)) options.listen = "127.0.0.1:0";
    options.detach = true;
    options.server.data_dir = data_dir;
    std::vector<std::string> words{"interlock", "up", "--detach", "--data-dir", data_dir, "--listen", options.listen};
    std::vector<char*> arguments = pointers(words);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> nowhere(std::fopen("/dev/null", "we"), &std::fclose);
    cli::CliOutput errors = output;
    errors.out = nowhere.get();
    if (up_command(options, static_cast<int>(words.size()), arguments.data(), errors) == 0) return {};
    return fail(
        cli::Failure{.exit = cli::ExitCode::not_reachable,
                     .code = "no_server",
                     .detail = "no server runs on this machine, and none could be started",
                     .hint = fmt::format("find the reason with: interlock up --data-dir {}", shell_word(data_dir))});
}

cli::Failure become_shim(const cli::Platform::Shim& shim) {
    std::vector<std::string> words{"interlock-shim", shim.data_dir, shim.run, "--foreground"};
    if (shim.quiet) words.push_back("--quiet");
    // The pipe is inherited, and the shim closes it before it starts anything.
    const auto secret = supervisor::pipe_with(shim.secret);
    if (!secret) return cannot_hold(secret.error());
    ::fcntl(secret->get(), F_SETFD, 0);
    words.insert(words.end(), {"--secret-fd", std::to_string(secret->get())});
    std::vector<std::string> variables = shim.environment;
    const std::vector<char*> environment = pointers(variables);
    if (const auto path = supervisor::shim_path()) {
        ::execve(path->c_str(), pointers(words).data(), environment.data());
    }
    // Where no program can be run from memory, this one does the same.
    words.insert(words.begin(), "interlock");
    words[1] = "shim";
    ::execve("/proc/self/exe", pointers(words).data(), environment.data());
    return cannot_hold(std::strerror(errno));
}

}  // namespace interlock::server
