#include "net/http_server.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <map>
#include <thread>

#include "base/ensure.h"
#include "net/asio_types.h"
#include "net/http_connection.h"
#include "net/local_socket.h"
#include "net/tls.h"

namespace interlock::net {
namespace {

// A program that is started beside the server holds none of its connections. Asio makes sockets without the mark.
void close_on_exec(int socket) { ::fcntl(socket, F_SETFD, FD_CLOEXEC); }

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;

// Connections that may be open beyond connections_max for as long as it takes to say 503. Beyond these we just hang up.
constexpr std::size_t turned_away_max = 256;
// After an accept that failed for want of descriptors or memory.
constexpr std::chrono::milliseconds accept_pause{100};
constexpr std::chrono::milliseconds poll_pause{2};

ListenError not_possible(std::string detail) { return {ListenError::Kind::not_possible, std::move(detail)}; }

}  // namespace

struct HttpServer::Parts {
    Parts(Options options, Handler handler, Log& log) : state(std::move(options), std::move(handler), log) {}

    Result<std::uint16_t, ListenError> listen();
    Result<void, ListenError> listen_locally();
    Task<void> accept(Acceptor& from, std::shared_ptr<Visitor> visitor = {});
    Task<void> accept_visitors(std::shared_ptr<Acceptor> entrance, std::shared_ptr<Visitor> visitor);
    static Task<void> tick(Loop& loop);
    // Runs it on every loop's thread, for every connection there.
    void for_each_connection(void (HttpConnection::*what)());
    bool wait_until_closed(std::chrono::milliseconds timeout) const;

    HttpServerState state;
    std::vector<std::unique_ptr<Loop>> loops;
    std::optional<LocalListener> local;
    std::optional<Acceptor> acceptor;  // Of the first loop, like the next.
    std::optional<Acceptor> local_acceptor;
    std::map<std::string, std::shared_ptr<Acceptor>> entrances;
    std::vector<std::thread> threads;
};

bool is_tcp_listener(int socket) {
    int listens = 0, family = 0, kind = 0;
    socklen_t size = sizeof(int);
    return ::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens == 1 &&
           ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family == AF_INET &&
           ::getsockopt(socket, SOL_SOCKET, SO_TYPE, &kind, &size) == 0 && kind == SOCK_STREAM;
}

HttpServer::HttpServer(Options options, Handler handler, Log& log)
    : parts_(std::make_unique<Parts>(std::move(options), std::move(handler), log)) {}

Result<std::uint16_t, ListenError> HttpServer::start() {
    ensure(parts_->loops.empty(), "a server is started once");
    const Options& options = parts_->state.options;
    if (options.tls) {
        auto tls = make_server_tls(*options.tls);
        if (!tls) return fail(not_possible(tls.error()));
        parts_->state.tls = std::move(*tls);
    }
    const std::size_t threads =
        options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
    for (std::size_t i = 0; i < threads; ++i) parts_->loops.push_back(std::make_unique<Loop>(parts_->state));
    auto port = parts_->listen();
    if (port && !options.local_path.empty()) {
        if (auto listening = parts_->listen_locally(); !listening) port = fail(listening.error());
    }
    if (!port) {
        parts_->acceptor.reset();
        parts_->loops.clear();
        return port;
    }

    // From here on the server runs.
    asio::co_spawn(parts_->loops.front()->context, parts_->accept(*parts_->acceptor), asio::detached);
    if (parts_->local_acceptor) {
        asio::co_spawn(parts_->loops.front()->context, parts_->accept(*parts_->local_acceptor), asio::detached);
    }
    for (const auto& loop : parts_->loops) {
        asio::co_spawn(loop->context, Parts::tick(*loop), asio::detached);
        parts_->threads.emplace_back([&context = loop->context] {
            ::pthread_setname_np(::pthread_self(), "http");
            context.run();
        });
    }
    return port;
}

HttpServer::~HttpServer() {
    for (const auto& loop : parts_->loops) loop->context.stop();
    for (std::thread& thread : parts_->threads) thread.join();
    parts_->acceptor.reset();
    parts_->local_acceptor.reset();
    parts_->entrances.clear();
}

Result<std::uint16_t, ListenError> HttpServer::Parts::listen() {
    Loop& loop = *loops.front();
    error_code error;
    tcp::resolver resolver(loop.context);
    const auto found = resolver.resolve(state.options.host, std::to_string(state.options.port),
                                        tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (error || found.empty()) return fail(not_possible(state.options.host + ": " + error.message()));

    const tcp::endpoint endpoint = *found.begin();
    acceptor.emplace(loop.context);
    acceptor->open(endpoint.protocol(), error);
    // Lets a restarted server have its port back at once. It does not let two servers share one.
    if (!error) close_on_exec(acceptor->native_handle());
    if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor->bind(endpoint, error);
    if (!error) acceptor->listen(tcp::acceptor::max_listen_connections, error);
    if (!error) return acceptor->local_endpoint().port();

    acceptor.reset();
    const std::string detail = state.options.host + ":" + std::to_string(state.options.port) + ": " + error.message();
    if (error == asio::error::address_in_use) return fail(ListenError{ListenError::Kind::address_in_use, detail});
    return fail(not_possible(detail));
}

// The rest of the server knows one kind of socket. Its reads and writes do not depend on the kind of address.
Result<void, ListenError> HttpServer::Parts::listen_locally() {
    auto listening = LocalListener::open(state.options.local_path, state.options.local_users ? 0666 : 0600);
    if (!listening) return fail(not_possible(listening.error()));
    local.emplace(std::move(*listening));
    const int socket = local->release();
    error_code error;
    local_acceptor.emplace(loops.front()->context);
    local_acceptor->assign(tcp::v4(), socket, error);
    if (!error) return {};
    ::close(socket);
    local_acceptor.reset();
    return fail(not_possible(state.options.local_path + ": " + error.message()));
}

// Deals connections out to the loops in turn.
Task<void> HttpServer::Parts::accept(Acceptor& from, std::shared_ptr<Visitor> visitor) {
    Loop& own = *loops.front();
    Timer pause(own.context);
    for (std::size_t next = 0; !state.draining; next = (next + 1) % loops.size()) {
        Loop& loop = *loops[next];
        Socket socket(loop.context);
        error_code error;
        co_await from.async_accept(socket, asio::redirect_error(use_task, error));
        if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor) co_return;
        if (error) {
            state.log.warn("accept_failed", {{"error", error.message()}});
            pause.expires_after(accept_pause);
            co_await pause.async_wait(asio::redirect_error(use_task, error));
            continue;
        }
        close_on_exec(socket.native_handle());
        if (is_local(socket.native_handle())) {
            const auto user = peer_user(socket.native_handle());
            const bool is_other = user != ::geteuid() && user != uid_t{0};
            if (is_other && !(user && state.options.local_users && state.options.local_users(*user))) continue;
        }
        ++own.counters.accepted;
        // A visitor that opens many keeps no other client out.
        if (visitor && visitor->connections >= state.options.connections_per_visitor_max) {
            ++own.counters.turned_away;
            continue;
        }
        if (visitor) ++visitor->connections;
        const std::size_t open = ++state.connections;
        const Admission admission = open > state.options.connections_max ? Admission::turned_away : Admission::admitted;
        if (admission == Admission::turned_away) ++own.counters.turned_away;
        if (open > state.options.connections_max + turned_away_max) {
            if (visitor) --visitor->connections;
            --state.connections;
            continue;
        }
        asio::post(loop.context, [&loop, admission, visitor, accepted = std::move(socket)]() mutable {
            serve_connection(loop, std::move(accepted), admission, std::move(visitor));
        });
    }
}

// Keeps the acceptor for as long as it is waited on.
Task<void> HttpServer::Parts::accept_visitors(std::shared_ptr<Acceptor> entrance, std::shared_ptr<Visitor> visitor) {
    co_await accept(*entrance, std::move(visitor));
}

void HttpServer::open_entrance(std::string visitor, int listener) {
    close_entrance(visitor);
    Loop& loop = *parts_->loops.front();
    asio::post(loop.context, [this, &loop, visitor = std::move(visitor), listener] {
        const auto acceptor = std::make_shared<Acceptor>(loop.context);
        error_code error;
        acceptor->assign(tcp::v4(), listener, error);
        if (error) ::close(listener);
        if (error || parts_->state.draining) return;
        close_on_exec(listener);
        parts_->entrances[visitor] = acceptor;
        asio::co_spawn(loop.context, parts_->accept_visitors(acceptor, std::make_shared<Visitor>(visitor)),
                       asio::detached);
    });
}

void HttpServer::close_entrance(std::string visitor) {
    asio::post(parts_->loops.front()->context, [this, visitor = std::move(visitor)] {
        const auto found = parts_->entrances.find(visitor);
        if (found == parts_->entrances.end()) return;
        error_code ignored;
        found->second->close(ignored);
        parts_->entrances.erase(found);
    });
}

Task<void> HttpServer::Parts::tick(Loop& loop) {
    Timer timer(loop.context);
    while (true) {
        const auto unix_time = std::chrono::system_clock::now().time_since_epoch();
        loop.set_date(std::chrono::duration_cast<std::chrono::seconds>(unix_time).count());
        const SteadyTime now = std::chrono::steady_clock::now();
        for (HttpConnection& connection : loop.connections) connection.tick(now);

        error_code ignored;
        timer.expires_after(loop.server.options.tick);
        co_await timer.async_wait(asio::redirect_error(use_task, ignored));
    }
}

bool HttpServer::drain(std::chrono::milliseconds timeout) {
    if (parts_->loops.empty()) return true;

    // 1. Nobody new, nobody idle, no wait that need not be.
    parts_->state.draining = true;
    asio::post(parts_->loops.front()->context, [this] {
        parts_->acceptor->close();
        if (parts_->local_acceptor) parts_->local_acceptor->close();
        for (const auto& [visitor, entrance] : parts_->entrances) entrance->close();
    });
    for (const auto& loop : parts_->loops) {
        asio::post(loop->context,
                   [&context = loop->context] { CompletionQueue::of(context.get_executor()).end_waits(); });
    }
    parts_->for_each_connection(&HttpConnection::drain);

    // 2. What is in flight is answered.
    const bool in_time = parts_->wait_until_closed(timeout);
    if (in_time) return true;

    // 3. Or cut. A handler that still waits for somebody's answer ends with the server.
    parts_->for_each_connection(&HttpConnection::cut);
    parts_->wait_until_closed(std::chrono::milliseconds(100));
    return false;
}

void HttpServer::Parts::for_each_connection(void (HttpConnection::*what)()) {
    for (const auto& loop : loops) {
        asio::post(loop->context, [&connections = loop->connections, what] {
            for (HttpConnection& connection : connections) (connection.*what)();
        });
    }
}

// Looks instead of being told: this happens once in a server's life.
bool HttpServer::Parts::wait_until_closed(std::chrono::milliseconds timeout) const {
    const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
    while (state.connections > 0) {
        if (std::chrono::steady_clock::now() >= deadline) return false;
        std::this_thread::sleep_for(poll_pause);
    }
    return true;
}

HttpServerStats HttpServer::stats() const {
    HttpServerStats stats;
    stats.connections_open = parts_->state.connections;
    stats.streams_open = parts_->state.streams;
    stats.body_bytes = parts_->state.body_bytes;
    for (const auto& loop : parts_->loops) {
        const Counters& counters = loop->counters;
        stats.connections_accepted += counters.accepted;
        stats.connections_refused += counters.turned_away;
        stats.requests += counters.requests;
        stats.requests_refused += counters.refused;
        stats.handler_failures += counters.failures;
        stats.timeouts += counters.timeouts;
    }
    return stats;
}

}  // namespace interlock::net
