#include "net/tunnel.h"

#include <fcntl.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>

namespace interlock::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

}  // namespace

Task<void> Tunnel::carry(std::shared_ptr<Tunnel> tunnel, Socket& client, std::string early,
                         std::function<void()> active) {
    tunnel->client_ = &client;
    tunnel->active_ = std::move(active);
    // 1. From the server to the client, beside this coroutine.
    Timer other(client.get_executor(), never);
    asio::co_spawn(
        client.get_executor(),
        [](std::shared_ptr<Tunnel> self, Socket& to, Timer& done) -> Task<void> {
            co_await self->pass_on({.from = self->server_, .to = to, .bytes = self->counts_.in});
            self->other_done_ = true;
            done.cancel();
        }(tunnel, client, other),
        asio::detached);

    // 2. From the client to the server.
    bool open = co_await tunnel->send(tunnel->server_, tunnel->options_.first, tunnel->counts_.out);
    if (open && tunnel->options_.announced) {
        open = co_await tunnel->send(tunnel->server_, early, tunnel->counts_.out);
        if (open) {
            co_await tunnel->pass_on({.from = client, .to = tunnel->server_, .bytes = tunnel->counts_.out});
        }
    }
    if (!open) tunnel->cut();

    // 3. The other direction uses the client's connection, too.
    error_code ignored;
    while (!tunnel->other_done_) co_await other.async_wait(asio::redirect_error(use_task, ignored));
    tunnel->client_ = nullptr;
    tunnel->server_.close(ignored);
    if (tunnel->options_.ended) co_await tunnel->options_.ended(tunnel->counts_);
}

Task<void> Tunnel::pass_on(Direction direction) {
    const auto buffer = std::make_unique_for_overwrite<char[]>(buffer_bytes);
    error_code error;
    while (true) {
        const std::size_t count = co_await direction.from.async_read_some(asio::buffer(buffer.get(), buffer_bytes),
                                                                          asio::redirect_error(use_task, error));
        if (error) break;
        active_();
        const bool sent = co_await send(direction.to, {buffer.get(), count}, direction.bytes);
        if (!sent) co_return cut();
    }
    if (error != asio::error::eof) co_return cut();
    direction.to.shutdown(Socket::shutdown_send, error);
}

Task<bool> Tunnel::send(Socket& to, std::string_view bytes, std::int64_t& count) {
    error_code error;
    while (!bytes.empty() && !error) {
        const std::size_t sent = co_await to.async_write_some(asio::buffer(bytes.data(), bytes.size()),
                                                              asio::redirect_error(use_task, error));
        count += static_cast<std::int64_t>(sent);
        bytes.remove_prefix(sent);
        if (sent > 0) active_();
    }
    co_return !error;
}

void Tunnel::cut() {
    error_code ignored;
    server_.close(ignored);
    if (client_ != nullptr) client_->close(ignored);
}

Task<Result<Socket, std::string>> connect_to(std::vector<asio::ip::address> addresses, std::uint16_t port,
                                             std::chrono::milliseconds timeout) {
    const Executor executor = co_await asio::this_coro::executor;
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    std::string why = "it has no address";
    for (const asio::ip::address& address : addresses) {
        Socket socket(executor);
        error_code error;
        socket.open(address.is_v4() ? asio::ip::tcp::v4() : asio::ip::tcp::v6(), error);
        if (!error) {
            ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
            // The handler may come after the socket has gone on, and then has none.
            const auto connecting = std::make_shared<Socket*>(&socket);
            Timer timer(executor, deadline);
            timer.async_wait([connecting](error_code stopped) {
                error_code ignored;
                if (!stopped && *connecting != nullptr) (*connecting)->cancel(ignored);
            });
            co_await socket.async_connect({address, port}, asio::redirect_error(use_task, error));
            *connecting = nullptr;
            timer.cancel();
        }
        if (!error) {
            socket.set_option(asio::ip::tcp::no_delay(true), error);
            co_return std::move(socket);
        }
        why = error == asio::error::operation_aborted ? "no answer in time" : error.message();
        if (std::chrono::steady_clock::now() >= deadline) break;
    }
    co_return fail(std::move(why));
}

}  // namespace interlock::net
