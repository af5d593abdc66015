#include "server/up_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/shell.h"
#include "engine/clock.h"
#include "server/data_dir.h"
#include "server/ending_signals.h"
#include "server/listen_address.h"
#include "server/open_files.h"
#include "store/sqlite_file.h"

extern char** environ;

namespace interlock::server {
namespace {

constexpr std::chrono::seconds drain_timeout{10};
// For closing the store after that, because a database that hangs would keep the process for a minute.
constexpr std::chrono::seconds let_go_timeout{5};

// Ends the process if it does not end in time. Nothing is lost, because a response follows its commit, and other work
// is as after a kill -9.
class EndInTime {
 public:
    explicit EndInTime(Log& log) : log_(log), thread_([this] { wait(); }) {}
    ~EndInTime() {
        {
            const std::lock_guard lock(mutex_);
            ended_ = true;
        }
        changed_.notify_one();
        thread_.join();
    }
    EndInTime(const EndInTime&) = delete;
    EndInTime& operator=(const EndInTime&) = delete;

 private:
    void wait() {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, let_go_timeout, [this] { return ended_; })) return;
        log_.warn("ended_without_the_store", {{"seconds", std::int64_t{let_go_timeout.count()}}});
        std::_Exit(0);
    }

    Log& log_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false;
    std::thread thread_;  // Last: it uses the rest.
};

std::string greeting(Server& server, const UpOptions& options, const cli::CliOutput& output) {
    const std::string dir = options.server.data_dir;
    std::string text =
        fmt::format("{} {}\n  dashboard {}\n  data      {}\n", output.paint(cli::Style::bold, "Interlock is up:"),
                    server.url(), server.login_link(), dir);
    text +=
        fmt::format("  key       {} keys create --scope admin (for other machines and programs)\n", options.program);
    if (server.keeps_admin_key()) {
        text += fmt::format(
            "  note      {0}/admin.key is no longer needed, and every program of this user can read it; revoke it: "
            "{1} keys revoke \"$(cut -d_ -f2 {0}/admin.key)\"\n",
            shell_word(dir), options.program);
    }
    if (!options.server.store.empty() && std::filesystem::exists(store::database_path(dir))) {
        text += fmt::format(
            "  note      {} is not used because the store is the database; 'interlock migrate --help' shows how to "
            "copy "
            "one into the other\n",
            store::database_path(dir));
    }
    text += fmt::format(
        "\nTry:\n  {0} agents put writer --max-concurrent-runs 2\n  {0} budgets put daily --limit 10.00 --window day\n"
        "  {0} charges add writer 0.00075\n",
        options.program);
    return text;
}

int serve(UpOptions& options, const cli::CliOutput& output) {
    EndingSignals ending;
    ::umask(077);  // Only the owner can read new files.

    engine::Clock clock;
    Log log({.level_min = options.log_level == "debug"   ? LogLevel::debug
                          : options.log_level == "warn"  ? LogLevel::warn
                          : options.log_level == "error" ? LogLevel::error
                                                         : LogLevel::info,
             .format = options.log_format == "json" ? LogFormat::json : LogFormat::text,
             .clock = [&clock] { return clock.now(); },
             .write = [](std::string_view line) { (void)!::write(STDERR_FILENO, line.data(), line.size()); }});
    const auto say = [&](std::string_view text) {
        if (options.ready_fd >= 0) {
            (void)!::write(options.ready_fd, text.data(), text.size());
            ::close(options.ready_fd);
            options.ready_fd = -1;
        } else {
            fmt::print(output.out, "{}", text);
            std::fflush(output.out);
        }
    };

    options.server.open_files_of_runs = raise_open_files();
    auto server = Server::start(options.server, log);
    if (!server) {
        if (options.ready_fd >= 0) {
            say("!" + server.error());
        } else {
            output.error(server.error(), "");
        }
        return 1;
    }
    log.info("listening", {{"url", (*server)->url()}, {"data_dir", options.server.data_dir}});
    say(greeting(**server, options, output));

    log.info("ending", {{"signal", ending.wait()}});
    (*server)->drain(drain_timeout);
    {
        const EndInTime in_time(log);
        server->reset();
    }
    log.info("ended");
    return 0;
}

bool has_ended(pid_t pid, const std::string& started) { return process_start(pid) != started; }

// Starts a server in its own session, with a log file in the data directory. Returns when it is up or has failed.
int detach(const UpOptions& options, int argc, char** argv, const cli::CliOutput& output) {
    const auto problem = [&](const std::string& what, const std::string& hint = "") {
        output.error(what, hint);
        return 1;
    };
    if (const auto note = read_server_note(options.server.data_dir);
        note && !note->started.empty() && !has_ended(note->pid, note->started)) {
        fmt::print(output.out, "{} {}\n  dashboard {} login\n  data      {}\n",
                   output.paint(cli::Style::bold, "Interlock is already up:"), note->url, options.program,
                   options.server.data_dir);
        return 0;
    }
    if (!options.run.empty()) {
        return problem(fmt::format("a server started inside run {} would end with the run", options.run),
                       fmt::format("start it outside of runs: {} up --detach", options.program));
    }
    if (auto made = make_data_dir(options.server.data_dir); !made) return problem(made.error());
    const std::string log_path = options.server.data_dir + "/server.log";
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) return problem(std::strerror(errno));

    std::vector<std::string> words(argv, argv + argc);
    std::erase(words, "--detach");
    const std::string fd_text = std::to_string(ready[1]);
    words.push_back("--ready-fd");
    words.push_back(fd_text);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ready[1], ready[1]);  // Clears its close-on-exec.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    pid_t child = 0;
    const int failed = ::posix_spawn(&child, "/proc/self/exe", &actions, &attributes, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    ::close(ready[1]);
    if (failed != 0) return problem(std::strerror(failed));

    std::string said;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(ready[0], buffer, sizeof buffer)) != 0;) {
        if (got > 0) said.append(buffer, static_cast<std::size_t>(got));
        if (got < 0 && errno != EINTR) break;
    }
    ::close(ready[0]);
    if (said.empty()) return problem("the server ended while it started", "see its log " + log_path);
    if (said.starts_with('!')) return problem(said.substr(1));
    fmt::print(output.out, "{}\nLog: {}. '{} down' stops the server.\n", said, log_path, options.program);
    return 0;
}

}  // namespace

int up_command(UpOptions options, int argc, char** argv, const cli::CliOutput& output) {
    const auto address = parse_listen(options.listen);
    if (!address) {
        output.error(address.error(), "");
        return 2;
    }
    if (!address->host.empty()) options.server.host = address->host;
    options.server.port = address->port;
    std::error_code error;
    options.server.data_dir = std::filesystem::absolute(options.server.data_dir, error).lexically_normal().string();
    if (!options.server.socket.empty()) {
        options.server.socket = std::filesystem::absolute(options.server.socket, error).lexically_normal().string();
        const std::string directory = std::filesystem::path(options.server.socket).parent_path().string();
        struct stat there{};
        if (::stat(directory.c_str(), &there) == 0 && (there.st_mode & 0022) != 0 && (there.st_mode & S_ISVTX) == 0) {
            output.error(
                fmt::format("other users can write to {} and could put a socket of their own there", directory),
                fmt::format("chmod go-w {}, or choose another directory", shell_word(directory)));
            return 2;
        }
    }
    if (options.detach) return detach(options, argc, argv, output);
    return serve(options, output);
}

int down_command(const std::string& data_dir, double timeout_s, const cli::CliOutput& output) {
    const auto note = read_server_note(data_dir);
    if (!note || note->started.empty() || has_ended(note->pid, note->started)) {
        fmt::print(output.err, "no server is running on {}\n", data_dir);
        return 5;
    }
    if (::kill(note->pid, SIGTERM) != 0) {
        output.error(fmt::format("cannot stop process {}: {}", note->pid, std::strerror(errno)), "");
        return 1;
    }
    // Not a child, so waitpid() does not work; a pidfd tells when the process has ended.
    const int process = static_cast<int>(::syscall(SYS_pidfd_open, note->pid, 0));
    if (process >= 0) {
        pollfd gone{.fd = process, .events = POLLIN, .revents = 0};
        ::poll(&gone, 1, static_cast<int>(timeout_s * 1000));
        ::close(process);
    }
    if (!has_ended(note->pid, note->started)) {
        output.error(fmt::format("the server (process {}) has not ended after {} s because requests are in progress",
                                 note->pid, timeout_s),
                     "repeat the command with a longer --wait");
        return 1;
    }
    fmt::print(output.err, "the server at {} has ended\n", note->url);
    return 0;
}

}  // namespace interlock::server
