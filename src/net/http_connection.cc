#include "net/http_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <charconv>
#include <type_traits>

#include "net/local_socket.h"
#include "net/notifier.h"
#include "net/origin.h"
#include "net/outgoing.h"
#include "net/peer.h"
#include "net/request_parser.h"
#include "net/response_head.h"
#include "net/tunnel.h"

namespace interlock::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t buffer_bytes_first = 4u << 10;
// A body up to this size is copied behind its head and goes out with one plain send.
constexpr std::size_t body_bytes_copied_max = 16u << 10;
// What a client may send after its last answer before it is cut.
constexpr std::size_t ignored_bytes_max = 1u << 20;

// The line before a chunk: "1a\r\n".
class ChunkLine {
 public:
    explicit ChunkLine(std::size_t chunk_bytes) {
        char* end = std::to_chars(text_.data(), text_.data() + 16, chunk_bytes, 16).ptr;
        *end++ = '\r';
        *end++ = '\n';
        size_ = static_cast<std::size_t>(end - text_.data());
    }
    std::string_view text() const { return {text_.data(), size_}; }

 private:
    std::array<char, 18> text_;
    std::size_t size_;
};

// The Host of what is for another server is that server's.
std::optional<Refusal> why_not_for_us(const Request& request, const HttpServerOptions& options) {
    return request.authority.empty() ? check_host_and_origin(request, options) : std::nullopt;
}

template <class Stream>
class StreamConnection final : public HttpConnection,
                               public StreamWriter,
                               public std::enable_shared_from_this<StreamConnection<Stream>> {
 public:
    StreamConnection(Loop& loop, Socket socket, Admission admission, std::shared_ptr<Visitor> visitor);
    ~StreamConnection() override;

    // The whole life of a connection. The coroutine owns it.
    static Task<void> serve(std::shared_ptr<StreamConnection> self);

    void tick(SteadyTime now) override;
    void drain() override;
    void cut() override;

    Task<bool> write(std::string_view bytes) override;
    bool closed() const override { return hangup_.hung_up() || server_.draining; }
    Task<bool> wait(Notifier& notifier, std::uint64_t seen, SteadyTime deadline) override {
        return notifier.wait(seen, deadline, &hangup_);
    }

 private:
    static constexpr bool secure = std::is_same_v<Stream, TlsStream>;

    Task<bool> shake_hands();
    Task<bool> exchange();
    Task<bool> read_request();
    Task<std::size_t> read_more();
    void make_room();
    Task<bool> refuse(Response response);
    Task<Response> answer(Request request);
    Task<bool> send(Response response, Method method, After after);
    Task<bool> send_stream(Response response, Method method, After after);
    Task<void> carry(std::shared_ptr<Tunnel> tunnel);
    void read_ahead();
    void on_read_ahead(std::size_t count);
    Task<void> end_of_read_ahead();
    Task<bool> send_all(Outgoing outgoing);
    Task<bool> send_out() { return send_all(Outgoing(out_)); }
    Task<void> close();

    After after_request() const;
    bool is_gone();
    void arm(milliseconds timeout) {
        deadline_ = steady_clock::now() + timeout;
        expired_ = false;
    }
    void arm_body();
    Task<void> find_body_owner();
    void reserve_body();
    std::optional<Refusal> why_no_more_body();
    void hold_body_bytes(std::size_t bytes);
    void release_body_bytes();
    Socket& socket() {
        if constexpr (secure) return stream_.next_layer();
        if constexpr (!secure) return stream_;
    }
    static Stream make_stream(Socket socket, HttpServerState& server) {
        if constexpr (secure) return Stream(std::move(socket), *server.tls);
        if constexpr (!secure) return socket;
    }

    Loop& loop_;
    HttpServerState& server_;
    Stream stream_;
    const Admission admission_;
    std::string peer_;
    Peer sender_;
    RequestParser parser_;

    std::unique_ptr<char[]> buffer_;
    std::size_t buffer_begin_ = 0;
    std::size_t buffer_end_ = 0;
    std::size_t buffer_size_ = 0;

    std::string out_;
    SteadyTime deadline_ = never;
    bool expired_ = false;
    bool fresh_ = true;
    bool idle_ = false;  // No byte of a request has come.
    SteadyTime body_begun_;
    std::size_t body_bytes_held_ = 0;
    bool body_has_owner_ = true;
    std::size_t body_share_max_ = 0;
    std::shared_ptr<BodyShares::Share> body_share_;  // Null: the server does not ask for owners.
    bool chunked_ = false;
    Hangup hangup_;
    bool streaming_ = false;
    bool reading_ahead_ = false;        // A read into the buffer is under way; the buffer must stay where it is.
    Timer* read_ahead_wait_ = nullptr;  // Of whoever waits for its end.
    std::shared_ptr<Tunnel> tunnel_;    // While the connection belongs to it.
};

template <class Stream>
StreamConnection<Stream>::StreamConnection(Loop& loop, Socket socket, Admission admission,
                                           std::shared_ptr<Visitor> visitor)
    : loop_(loop),
      server_(loop.server),
      stream_(make_stream(std::move(socket), loop.server)),
      admission_(admission),
      sender_(peer_of(this->socket().native_handle())),
      parser_({.header_bytes_max = server_.options.header_bytes_max,
               .target_bytes_max = server_.options.target_bytes_max,
               .headers_max = server_.options.headers_max,
               .body_bytes_max = server_.options.body_bytes_max,
               .proxied = visitor != nullptr}) {
    sender_.visitor = std::move(visitor);
    error_code ignored;
    if (sender_.local) {
        peer_ = "local";
    } else if (const auto endpoint = this->socket().remote_endpoint(ignored); !ignored) {
        peer_ = endpoint.address().to_string();
    }
    this->socket().set_option(asio::ip::tcp::no_delay(true), ignored);
    this->socket().non_blocking(true, ignored);
    loop_.connections.push_back(*this);
}

template <class Stream>
StreamConnection<Stream>::~StreamConnection() {
    release_body_bytes();
    if (sender_.visitor) --sender_.visitor->connections;
    --server_.connections;
}

template <class Stream>
Task<void> StreamConnection<Stream>::serve(std::shared_ptr<StreamConnection> self) {
    bool open = co_await self->shake_hands();
    if (open && self->admission_ == Admission::turned_away) {
        open = co_await self->refuse(problem(503, "busy", "there are too many connections"));
    }
    while (open) open = co_await self->exchange();
    co_await self->close();
}

template <class Stream>
Task<bool> StreamConnection<Stream>::shake_hands() {
    if constexpr (!secure) {
        co_return true;
    } else {
        // A client that speaks plain HTTP ends here as well: OpenSSL knows it by its first bytes.
        arm(server_.options.header_timeout);
        error_code error;
        co_await stream_.async_handshake(TlsStream::server, asio::redirect_error(use_task, error));
        co_return !error;
    }
}

// One request and its answer. False: the connection has ended, or has to.
template <class Stream>
Task<bool> StreamConnection<Stream>::exchange() {
    // 1. Read. The client's pace is limited from below.
    const bool complete = co_await read_request();
    if (!complete) co_return false;

    // 2. Answer. Whatever the handler waits for has its own limit; the client has none here.
    deadline_ = never;
    const Method method = parser_.request().method;
    Response response = co_await answer(std::move(parser_.request()));
    if (response.tunnel) {
        co_await carry(std::move(response.tunnel));
        co_return false;
    }
    const bool streams = response.stream && response.status != 204 && response.status != 304;
    // Without chunks, only the connection's end can say that a stream has ended.
    // Behind a CONNECT that was refused comes what was meant for the tunnel.
    const bool ends_here = (streams && parser_.http_1_0()) || method == Method::connect;
    const After after = ends_here ? After::close : after_request();

    // 3. Write.
    bool written = false;
    if (streams) {
        written = co_await send_stream(std::move(response), method, after);
    } else {
        written = co_await send(std::move(response), method, after);
    }
    parser_.begin_next();
    release_body_bytes();
    if (after == After::close) co_return false;
    co_return written;
}

// Until the parser has a whole request. False: it was refused and that was said, or the client has gone.
template <class Stream>
Task<bool> StreamConnection<Stream>::read_request() {
    const HttpServerOptions& options = server_.options;
    bool head_begun = false;
    bool told_to_continue = false;
    while (true) {
        const auto state_before = parser_.state();
        const std::string_view received(buffer_.get() + buffer_begin_, buffer_end_ - buffer_begin_);
        const std::size_t seen_end = buffer_end_;
        if (!received.empty()) buffer_begin_ += parser_.feed(received);

        switch (parser_.state()) {
            case RequestParser::State::done:
                co_return true;
            case RequestParser::State::refused: {
                const Refusal& refusal = parser_.refusal();
                co_return co_await refuse(problem(refusal.status, refusal.code, refusal.detail));
            }
            case RequestParser::State::head:
                idle_ = received.empty();
                if (idle_ && server_.draining) co_return false;
                // The clock of a head starts with its first byte, and is not set back by the following ones.
                if (idle_) arm(fresh_ ? options.header_timeout : options.idle_timeout);
                if (!idle_ && !std::exchange(head_begun, true)) arm(options.header_timeout);
                break;
            case RequestParser::State::body:
                if (state_before == RequestParser::State::head) {
                    body_begun_ = steady_clock::now();
                    if (const auto why = why_not_for_us(parser_.request(), options)) {
                        co_return co_await refuse(problem(why->status, why->code, why->detail));
                    }
                    parser_.request().sender = &sender_;
                    co_await find_body_owner();
                    if (body_has_owner_) reserve_body();
                }
                hold_body_bytes(parser_.request().body.size());
                if (const auto why = why_no_more_body()) {
                    co_return co_await refuse(problem(why->status, why->code, why->detail));
                }
                if (parser_.expects_continue() && !std::exchange(told_to_continue, true)) {
                    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
                    const bool sent = co_await send_out();
                    if (!sent) co_return false;
                }
                arm_body();
                break;
        }

        // A read that was begun beside a stream may have brought more meanwhile.
        if (buffer_end_ > seen_end) continue;
        const std::size_t count = co_await read_more();
        if (count == 0 && expired_ && !idle_) {
            co_return co_await refuse(problem(408, "request_timeout", "the request did not come in time"));
        }
        if (count == 0) co_return false;
        idle_ = fresh_ = false;
    }
}

// How many bytes came; 0 when none will.
template <class Stream>
Task<std::size_t> StreamConnection<Stream>::read_more() {
    if (reading_ahead_) {
        const std::size_t end_before = buffer_end_;
        co_await end_of_read_ahead();
        co_return buffer_end_ - end_before;
    }
    make_room();
    error_code error;
    const std::size_t count = co_await stream_.async_read_some(
        asio::buffer(buffer_.get() + buffer_end_, buffer_size_ - buffer_end_), asio::redirect_error(use_task, error));
    buffer_end_ += count;
    co_return count;
}

// Moves what is not used up to the front, into a larger buffer when the last read filled this one. Most connections
// send small requests and never need more than the first size.
template <class Stream>
void StreamConnection<Stream>::make_room() {
    if (buffer_end_ < buffer_size_) {
        if (buffer_begin_ == buffer_end_) buffer_begin_ = buffer_end_ = 0;
        return;
    }
    const std::size_t size = buffer_size_ == 0 ? buffer_bytes_first : buffer_size_ * 2;
    buffer_size_ = std::min(size, server_.options.header_bytes_max + 1);
    auto larger = std::make_unique_for_overwrite<char[]>(buffer_size_);
    std::copy(buffer_.get() + buffer_begin_, buffer_.get() + buffer_end_, larger.get());
    buffer_end_ -= std::exchange(buffer_begin_, 0);
    buffer_ = std::move(larger);
}

// The last answer on this connection: nothing after a refused request can be believed.
template <class Stream>
Task<bool> StreamConnection<Stream>::refuse(Response response) {
    ++loop_.counters.refused;
    parser_.request() = {};
    release_body_bytes();
    if (response.status == 503) response.headers.push_back({"retry-after", "1"});
    co_await send(std::move(response), Method::get, After::close);
    co_return false;
}

template <class Stream>
Task<Response> StreamConnection<Stream>::answer(Request request) {
    request.peer = peer_;
    request.secure = secure;
    request.gone = [this] { return is_gone(); };
    request.sender = &sender_;
    if (const auto why = why_not_for_us(request, server_.options)) {
        ++loop_.counters.refused;
        co_return problem(why->status, why->code, why->detail);
    }
    ++loop_.counters.requests;
    std::string failure;
    try {
        Response response = co_await server_.handler(std::move(request));
        if (is_sendable(response)) co_return response;
        failure = "the response has a header that cannot be sent";
    } catch (const Busy& busy) {
        Response response = problem(503, "busy", busy.what());
        response.headers.push_back({"retry-after", "1"});
        co_return response;
    } catch (const std::exception& error) {
        failure = error.what();
    } catch (...) {
        failure = "something that is no exception was thrown";
    }
    ++loop_.counters.failures;
    server_.log.error("handler_failed", {{"error", failure}});
    co_return problem(500, "internal", "the server has failed; its log says why");
}

template <class Stream>
bool StreamConnection<Stream>::is_gone() {
    char byte = 0;
    const auto count = ::recv(socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

template <class Stream>
Task<bool> StreamConnection<Stream>::send(Response response, Method method, After after) {
    out_.clear();
    append_head(out_, response, Framing::length, after, loop_.date);
    const bool has_body = method != Method::head && response.status != 204 && response.status != 304;
    if (!has_body) response.body.clear();
    if (response.body.size() <= body_bytes_copied_max) {
        out_.append(response.body);
        co_return co_await send_out();
    }
    co_return co_await send_all(Outgoing(out_, response.body));
}

template <class Stream>
Task<bool> StreamConnection<Stream>::send_stream(Response response, Method method, After after) {
    chunked_ = !parser_.http_1_0();
    out_.clear();
    append_head(out_, response, chunked_ ? Framing::chunked : Framing::until_close, after, loop_.date);
    if (method == Method::head) co_return co_await send_out();

    const bool has_first_chunk = chunked_ && !response.body.empty();
    if (has_first_chunk) out_.append(ChunkLine(response.body.size()).text());
    const bool sent = co_await send_all(Outgoing(out_, response.body, has_first_chunk ? "\r\n" : ""));
    // Who has gone already is told to the stream all the same: it may have something to bring to an end.
    if (!sent) hangup_.hang_up();
    std::string().swap(response.body);

    ++server_.streams;
    streaming_ = true;
    read_ahead();
    std::string failure;
    bool cut = false;
    try {
        co_await response.stream(*this);
    } catch (const StreamCut&) {
        cut = true;
    } catch (const std::exception& error) {
        failure = error.what();
    } catch (...) {
        failure = "something that is no exception was thrown";
    }
    --server_.streams;
    streaming_ = false;
    if (!failure.empty()) {
        // Without the last chunk the client can tell that this is not the end.
        ++loop_.counters.failures;
        server_.log.error("stream_failed", {{"error", failure}});
        co_return false;
    }
    if (cut || hangup_.hung_up()) co_return false;
    if (!chunked_) co_return true;
    out_ = "0\r\n\r\n";
    co_return co_await send_out();
}

template <class Stream>
Task<bool> StreamConnection<Stream>::write(std::string_view bytes) {
    if (hangup_.hung_up()) co_return false;
    if (bytes.empty()) co_return true;  // An empty chunk would be the last one.
    const ChunkLine line(bytes.size());
    const bool sent = co_await send_all(chunked_ ? Outgoing(line.text(), bytes, "\r\n") : Outgoing(bytes));
    if (!sent) hangup_.hang_up();
    co_return sent;
}

// The connection is the tunnel's until both of its directions have ended. TLS connections come in by no entrance.
template <class Stream>
Task<void> StreamConnection<Stream>::carry(std::shared_ptr<Tunnel> tunnel) {
    if constexpr (!secure) {
        tunnel_ = tunnel;
        bool open = true;
        if (tunnel->announced()) {
            out_ = "HTTP/1.1 200 Connection established\r\n\r\n";
            open = co_await send_out();
        }
        if (!open) tunnel->cut();
        arm(tunnel->idle());
        std::string early(buffer_.get() + buffer_begin_, buffer_end_ - buffer_begin_);
        buffer_begin_ = buffer_end_;
        co_await Tunnel::carry(tunnel, stream_, std::move(early), [this, idle = tunnel->idle()] { arm(idle); });
        tunnel_.reset();
        // Nothing is left to send, so the connection does not wait for its client.
        idle_ = true;
    }
}

// Reads beside a stream, to notice that the peer has gone. What comes is the beginning of the next request, and a read
// that still waits when the stream ends is the first one of that request: it costs nothing and need not be cancelled.
template <class Stream>
void StreamConnection<Stream>::read_ahead() {
    if (reading_ahead_) return;
    if (buffer_begin_ == buffer_end_) buffer_begin_ = buffer_end_ = 0;
    // Whoever sends so much ahead is noticed to be gone only by a write.
    if (buffer_end_ == buffer_size_) return;
    reading_ahead_ = true;
    stream_.async_read_some(
        asio::buffer(buffer_.get() + buffer_end_, buffer_size_ - buffer_end_),
        [self = this->shared_from_this()](error_code, std::size_t count) { self->on_read_ahead(count); });
}

template <class Stream>
void StreamConnection<Stream>::on_read_ahead(std::size_t count) {
    reading_ahead_ = false;
    buffer_end_ += count;
    if (read_ahead_wait_) read_ahead_wait_->cancel();
    if (streaming_ && count == 0) hangup_.hang_up();
    if (streaming_ && count > 0) read_ahead();
}

template <class Stream>
Task<void> StreamConnection<Stream>::end_of_read_ahead() {
    Timer wait(loop_.context, never);
    read_ahead_wait_ = &wait;
    error_code ignored;
    co_await wait.async_wait(asio::redirect_error(use_task, ignored));
    read_ahead_wait_ = nullptr;
}

// What is outgoing stays valid until this returns.
template <class Stream>
Task<bool> StreamConnection<Stream>::send_all(Outgoing outgoing) {
    error_code error;
    if constexpr (!secure) {
        // Nearly always there is room, and then the coroutine need not be suspended.
        outgoing.sent(stream_.write_some(outgoing.buffers(), error));
        if (error == asio::error::would_block) error = {};
    }
    while (outgoing.bytes_left() > 0 && !error) {
        arm(server_.options.write_timeout);
        outgoing.sent(co_await stream_.async_write_some(outgoing.buffers(), asio::redirect_error(use_task, error)));
    }
    deadline_ = never;
    co_return !error;
}

// A socket that is closed with bytes unread answers with a reset, which can overtake our last words. So we say that we
// are done, and read until the client is.
template <class Stream>
Task<void> StreamConnection<Stream>::close() {
    arm(server_.options.linger_timeout);
    error_code error;
    if (reading_ahead_) {
        socket().cancel(error);
        co_await end_of_read_ahead();
    }
    if constexpr (secure) co_await stream_.async_shutdown(asio::redirect_error(use_task, error));
    socket().shutdown(Socket::shutdown_send, error);
    std::array<char, 4096> ignored;
    for (std::size_t count = 0; !error && !idle_ && !expired_ && count < ignored_bytes_max;) {
        count += co_await socket().async_read_some(asio::buffer(ignored), asio::redirect_error(use_task, error));
    }
    sender_.socket = -1;
    socket().close(error);
}

template <class Stream>
void StreamConnection<Stream>::tick(SteadyTime now) {
    if (now < deadline_) return;
    if (!std::exchange(expired_, true)) ++loop_.counters.timeouts;
    if (tunnel_) return tunnel_->cut();
    error_code ignored;
    socket().cancel(ignored);
}

template <class Stream>
void StreamConnection<Stream>::drain() {
    // The server cannot tell when a tunnel could be ended without harm.
    if (tunnel_) return tunnel_->cut();
    error_code ignored;
    if (idle_) socket().cancel(ignored);
}

template <class Stream>
void StreamConnection<Stream>::cut() {
    hangup_.hang_up();
    if (tunnel_) return tunnel_->cut();
    error_code ignored;
    sender_.socket = -1;
    socket().close(ignored);
}

template <class Stream>
After StreamConnection<Stream>::after_request() const {
    if (server_.draining || !parser_.keep_alive()) return After::close;
    return parser_.http_1_0() ? After::keep_alive_1_0 : After::keep_alive;
}

template <class Stream>
void StreamConnection<Stream>::arm_body() {
    const HttpServerOptions& options = server_.options;
    const milliseconds earned(parser_.request().body.size() * 1'000 / options.body_bytes_per_second_min);
    deadline_ = body_begun_ + options.body_timeout + std::min(earned, options.body_time_earned_max);
    expired_ = false;
}

template <class Stream>
Task<void> StreamConnection<Stream>::find_body_owner() {
    const HttpServerOptions& options = server_.options;
    if (!options.body_owner) co_return;
    deadline_ = never;  // The answer is not the client's to give.
    std::optional<BodyOwner> owner;
    try {
        owner = co_await options.body_owner(parser_.request());
    } catch (const std::exception& error) {
        // The owner cannot be found at present. A small body can still be received.
        server_.log.warn("body_owner_not_found", {{"error", error.what()}});
    }
    body_has_owner_ = owner.has_value();
    body_share_ = server_.body_shares.of(owner ? owner->name : std::string());
    body_share_max_ = owner ? owner->bytes_max : options.body_bytes_all_unowned_max;
}

// A body that grows is copied each time, which keeps the other connections of the thread waiting. Pages that the client
// has not sent yet cost nothing.
template <class Stream>
void StreamConnection<Stream>::reserve_body() {
    const std::string_view stated = parser_.request().header("content-length");
    std::size_t bytes = 0;
    std::from_chars(stated.data(), stated.data() + stated.size(), bytes);
    parser_.request().body.reserve(bytes);  // The parser has refused what is above body_bytes_max.
}

// By what has come, and by what the head says will come.
template <class Stream>
std::optional<Refusal> StreamConnection<Stream>::why_no_more_body() {
    const HttpServerOptions& options = server_.options;
    if (!body_has_owner_) {
        const std::string_view stated = parser_.request().header("content-length");
        std::uint64_t bytes = 0;
        std::from_chars(stated.data(), stated.data() + stated.size(), bytes);
        if (std::max<std::uint64_t>(bytes, body_bytes_held_) > options.body_bytes_unowned_max) {
            return Refusal{401, "unauthorized",
                           "a body of more than " + std::to_string(options.body_bytes_unowned_max) +
                               " bytes takes a key, and this request shows none that is in force"};
        }
    }
    if (body_share_ && body_share_->bytes > body_share_max_) {
        return Refusal{503, "busy",
                       body_has_owner_ ? "too much is being received with this key; send less at a time"
                                       : "too much is being received from clients without a key"};
    }
    if (server_.body_bytes > options.body_bytes_all_max) return Refusal{503, "busy", "too much is being received"};
    return std::nullopt;
}

// Small bodies are not counted: they fit into the connection's buffer.
template <class Stream>
void StreamConnection<Stream>::hold_body_bytes(std::size_t bytes) {
    if (body_share_) body_share_->bytes += bytes - body_bytes_held_;
    server_.body_bytes += bytes - body_bytes_held_;
    body_bytes_held_ = bytes;
}

template <class Stream>
void StreamConnection<Stream>::release_body_bytes() {
    hold_body_bytes(0);
    body_share_.reset();
    body_has_owner_ = true;
}

}  // namespace

void Loop::set_date(std::int64_t unix_seconds) {
    if (std::exchange(date_seconds, unix_seconds) != unix_seconds) date = http_date(unix_seconds);
}

void serve_connection(Loop& loop, Socket socket, Admission admission, std::shared_ptr<Visitor> visitor) {
    const auto serve = [&](auto connection) {
        asio::co_spawn(loop.context, connection->serve(connection), asio::detached);
    };
    if (loop.server.tls && !visitor && !is_local(socket.native_handle()))
        return serve(std::make_shared<StreamConnection<TlsStream>>(loop, std::move(socket), admission, nullptr));
    serve(std::make_shared<StreamConnection<Socket>>(loop, std::move(socket), admission, std::move(visitor)));
}

}  // namespace interlock::net
