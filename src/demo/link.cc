#include "demo/link.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <boost/describe/enum_to_string.hpp>

#include "base/ensure.h"
#include "core/state_machine.h"

extern char** environ;

namespace interlock::demo {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;
constexpr auto as_values = asio::as_tuple(asio::use_awaitable);

// What was acknowledged is kept in memory until it is asked again: some fifty megabytes of it.
constexpr std::size_t remembered_max = 200'000;
constexpr int asked_again_at_once_max = 256;
constexpr std::size_t lost_named_max = 3;
constexpr auto retry_after = 20ms;
constexpr auto give_up_after = 3s;
// Between the last answer that is heard and the kill. The engine goes on working meanwhile, so some of what it does is
// never heard of: the interesting case.
constexpr auto deaf_before_kill = 5ms;
constexpr auto end_after_max = 20s;

asio::awaitable<void> wait(asio::io_context& io, Steady::duration time) {
    asio::steady_timer timer(io, time);
    co_await timer.async_wait(as_values);
}

std::string how_it_ended(int status) {
    if (WIFSIGNALED(status))
        return fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return fmt::format("ended by itself with status {}", WEXITSTATUS(status));
}

}  // namespace

struct Link::Connection {
    Connection(asio::io_context& io, int fd)
        : socket(io, asio::local::stream_protocol(), fd), more(io, Steady::time_point::max()) {}

    asio::local::stream_protocol::socket socket;
    std::string unsent;
    asio::steady_timer more;  // Cancelled when there is something to send.
    Frames frames;
    bool deaf = false;
    bool ended = false;  // The other end is closed.
    bool finishing = false;
};

Link::Link(asio::io_context& io, std::string directory) : io_(io), directory_(std::move(directory)) {}

Link::~Link() {
    if (pid_ > 0) end_process(SIGKILL);
}

Id Link::fresh_id() { return ids_.next(std::chrono::floor<Duration>(std::chrono::system_clock::now())); }

// ---- the process --------------------------------------------------------------------------------------------------

asio::awaitable<Result<void, std::string>> Link::start() {
    const auto fd = spawn();
    if (!fd) co_return fail(fd.error());
    connection_ = std::make_shared<Connection>(io_, *fd);
    opened_ = std::make_shared<Mailbox<std::string>>(io_);
    asio::co_spawn(io_, listen(connection_), rethrow);
    asio::co_spawn(io_, talk(connection_), rethrow);
    if (const std::string why = co_await opened_->take(); !why.empty()) co_return fail(why);
    ready_ = true;
    for (const auto& [number, pending] : pending_) send(pending.question);
    co_return Result<void, std::string>();
}

Result<int, std::string> Link::spawn() {
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return fail(fmt::format("cannot make a socket: {}", std::strerror(errno)));
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    // A group of its own: Ctrl-C is for us, and we end the process in good order.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    std::string words[] = {"interlock", "demo-worker", "--data-dir", directory_};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    const int error = posix_spawn(&pid_, "/proc/self/exe", &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error == 0) return ends[0];
    close(ends[0]);
    pid_ = -1;
    return fail(fmt::format("cannot start a second process of this program: {}", std::strerror(error)));
}

// Of our own child that nobody else waits for: the pid cannot be anybody else's meanwhile.
int Link::end_process(int signal) {
    ensure(pid_ > 0, "there is a process to end");
    int status = 0;
    if (signal != 0) kill(pid_, signal);
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
}

asio::awaitable<void> Link::kill_process() {
    connection_->deaf = true;  // Invariant (2).
    co_await wait(io_, deaf_before_kill);
    if (pid_ <= 0) co_return;  // It was quicker.
    end_process(SIGKILL);
    ready_ = false;
    connection_->socket.close();
    connection_->more.cancel();
    for (auto& [number, pending] : pending_) pending.was_in_flight = true;
    tally_.in_flight = static_cast<std::int64_t>(pending_.size());
    tally_.remembered = static_cast<std::int64_t>(acknowledged_.size());
    remembering_ = false;
    commits_before_ += std::exchange(commits_, 0);
}

asio::awaitable<bool> Link::finish() {
    connection_->finishing = true;
    boost::system::error_code ignored;
    connection_->socket.shutdown(asio::socket_base::shutdown_send, ignored);
    const auto patience = Steady::now() + end_after_max;
    while (!connection_->ended && Steady::now() < patience) co_await wait(io_, 5ms);
    const int status = end_process(connection_->ended ? 0 : SIGKILL);
    connection_->more.cancel();
    co_return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void Link::lost_process() {
    const std::string how = how_it_ended(end_process(0));
    opened_->put("Interlock's process " + how);
    failure_ = "Interlock's process " + how;
}

// ---- asking -------------------------------------------------------------------------------------------------------

asio::awaitable<core::Reply> Link::ask(core::CommandBody body) {
    const auto box = std::make_shared<Mailbox<core::Reply>>(io_);
    const core::CommandKey key(fresh_id());
    post({.number = ++last_number_, .key = key, .body = encode(body)}, [this, box](const DemoAnswer& heard) {
        auto reply = decode<core::Reply>(heard.reply);
        ensure(reply.has_value(), "both ends are the same program");
        const Pending& pending = pending_.at(heard.number);
        if (pending.was_in_flight) ++(heard.repeated ? tally_.had_been_done : tally_.done_later);
        if (remembering_ && core::succeeded(*reply)) {
            ++tally_.acknowledged;
            acknowledged_.push_back({pending.question.key, pending.question.body, heard.reply});
            if (acknowledged_.size() > remembered_max) acknowledged_.pop_front();
        }
        ++answers_;
        box->put(std::move(*reply));
    });
    co_return co_await box->take();
}

asio::awaitable<core::Fence> Link::granted(core::RunId run) {
    const auto box = std::make_shared<Mailbox<core::Fence>>(io_);
    in_line_[run] = box;
    const core::Fence fence = co_await box->take();
    in_line_.erase(run);
    co_return fence;
}

void Link::tire_of_waiting() {
    for (auto& [run, box] : in_line_) box->put(core::Fence());
}

void Link::ask_everything_again() {
    while (asked_again_open_ < asked_again_at_once_max && !acknowledged_.empty()) ask_next_again();
}

void Link::ask_next_again() {
    const Acknowledged first = std::move(acknowledged_.front());
    acknowledged_.pop_front();
    ++asked_again_open_;
    const auto on_heard = [this, reply = first.reply](const DemoAnswer& heard) {
        --asked_again_open_;
        ++tally_.asked_again;
        if (heard.repeated && heard.reply == reply) {
            ++tally_.found;
        } else if (tally_.lost.size() < lost_named_max) {
            tally_.lost.push_back(fmt::format("The command with key {} was {}.",
                                              to_text("key", pending_.at(heard.number).question.key.value),
                                              heard.repeated ? "answered otherwise" : "not known any more"));
        }
        ask_everything_again();
    };
    post({.number = ++last_number_, .key = first.key, .body = first.body}, on_heard);
}

void Link::post(DemoCommand question, std::function<void(const DemoAnswer&)> on_heard) {
    send(question);
    const std::uint64_t number = question.number;
    pending_.emplace(number, Pending{std::move(question), std::move(on_heard)});
}

void Link::send(const DemoCommand& question) {
    if (!ready_) return;  // It is pending: the next process gets it.
    append_frame(connection_->unsent, encode(question));
    connection_->more.cancel();
}

asio::awaitable<void> Link::talk(std::shared_ptr<Connection> connection) {
    std::string sending;
    while (connection->socket.is_open() && !connection->ended) {
        if (connection->unsent.empty()) co_await connection->more.async_wait(as_values);
        sending.clear();
        sending.swap(connection->unsent);
        const auto [error, count] = co_await asio::async_write(connection->socket, asio::buffer(sending), as_values);
        if (error) co_return;  // Whoever listens finds out why.
    }
}

// ---- hearing ------------------------------------------------------------------------------------------------------

asio::awaitable<void> Link::listen(std::shared_ptr<Connection> connection) {
    std::string bytes(65536, '\0');
    while (true) {
        const auto [error, count] = co_await connection->socket.async_read_some(asio::buffer(bytes), as_values);
        if (connection->deaf) co_return;
        if (error) break;
        connection->frames.add(std::string_view(bytes).substr(0, count));
        while (const auto frame = connection->frames.next()) {
            const auto message = decode<DemoEvent>(*frame);
            ensure(message.has_value(), "both ends are the same program");
            hear(*message);
        }
    }
    connection->ended = true;
    connection->more.cancel();
    if (!connection->finishing) lost_process();
}

void Link::hear(const DemoEvent& message) {
    struct Hear {
        Link& link;
        void operator()(const StoreOpened&) { link.opened_->put(""); }
        void operator()(const StoreNotOpened& no) { link.opened_->put(no.why); }
        void operator()(const DemoAnswer& heard) { link.hear(heard); }
        void operator()(const Granted& granted) {
            const auto waiting = link.in_line_.find(granted.run);
            if (waiting != link.in_line_.end()) waiting->second->put(granted.fence);
        }
        void operator()(const Commits& commits) { link.commits_ = commits.count; }
    };
    std::visit(Hear{*this}, message);
}

void Link::hear(const DemoAnswer& heard) {
    const auto found = pending_.find(heard.number);
    ensure(found != pending_.end(), "a question is answered once");
    if (heard.error) return hear_error(heard);
    failing_since_.reset();
    found->second.on_heard(heard);
    pending_.erase(heard.number);
}

void Link::hear_error(const DemoAnswer& heard) {
    const char* name = boost::describe::enum_to_string(*heard.error, "unknown");
    if (*heard.error == engine::SubmitError::key_reused) {
        failure_ = "a key that came back with the same content was taken for a reused one";
        return;
    }
    if (!failing_since_) failing_since_ = Steady::now();
    if (Steady::now() - *failing_since_ > give_up_after) {
        struct statvfs disk{};
        const bool full = statvfs(directory_.c_str(), &disk) == 0 && disk.f_bavail * disk.f_frsize < (1u << 20);
        failure_ = fmt::format("the store in '{}' takes nothing more ({}){}", directory_, name,
                               full ? ": the disk is full" : "");
        return;
    }
    asio::co_spawn(io_, send_later(connection_, heard.number), rethrow);
}

asio::awaitable<void> Link::send_later(std::shared_ptr<Connection> connection, std::uint64_t number) {
    co_await wait(io_, retry_after);
    // Another process has been sent everything that is pending when it opened.
    if (connection == connection_) send(pending_.at(number).question);
}

}  // namespace interlock::demo
