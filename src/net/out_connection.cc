#include "net/out_connection.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/redirect_error.hpp>
#include <cstring>

#include "net/request_head.h"

namespace interlock::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

// The reason of the last failure of OpenSSL on this thread.
std::string ssl_failure(const SSL* ssl) {
    const long verdict = SSL_get_verify_result(ssl);
    if (verdict != X509_V_OK) return X509_verify_cert_error_string(verdict);
    const char* reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason ? reason : "the connection ended during the TLS handshake";
}

}  // namespace

std::unique_ptr<char[]> ReadBuffers::take() {
    if (spare_.empty()) return std::make_unique_for_overwrite<char[]>(buffer_bytes);
    auto buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
}

void ReadBuffers::give_back(std::unique_ptr<char[]> buffer) {
    if (buffer && spare_.size() < spare_max) spare_.push_back(std::move(buffer));
}

OutConnection::~OutConnection() {
    rest();
    if (!ssl_) return;
    // Says goodbye, if that is possible without waiting. OpenSSL does not resume a session that ended without.
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    ERR_clear_error();
}

Task<error_code> OutConnection::connect(AddressBook::Addresses addresses, std::uint16_t port, SteadyTime deadline) {
    error_code error = asio::error::host_not_found;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
        // One that does not answer leaves time for the others.
        const SteadyTime now = steady_clock::now();
        arm(now + (deadline - now) / static_cast<int>(addresses.size() - i));
        const tcp::endpoint endpoint(addresses[i], port);
        error = open(endpoint);
        if (!error) co_await socket_.async_connect(endpoint, asio::redirect_error(use_task, error));
        if (error && expired_) error = asio::error::timed_out;
        if (!error) break;
    }
    disarm();
    error_code ignored;
    if (!error) socket_.set_option(tcp::no_delay(true), ignored);
    co_return error;
}

// Not by Asio, whose sockets go on to the programs that are started beside us.
error_code OutConnection::open(const tcp::endpoint& endpoint) {
    error_code error;
    socket_.close(error);
    const int descriptor =
        ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (descriptor < 0) return {errno, boost::system::system_category()};
    socket_.assign(endpoint.protocol(), descriptor, error);
    if (error) {
        ::close(descriptor);
        return error;
    }
    socket_.non_blocking(true, error);
    return error;
}

Task<std::optional<OutConnection::TlsError>> OutConnection::shake_hands(asio::ssl::context& context, std::string host,
                                                                        SSL_SESSION* session, SteadyTime deadline) {
    ssl_.reset(SSL_new(context.native_handle()));
    if (!ssl_) co_return TlsError{.detail = "there is no memory for a TLS connection"};
    SSL* const ssl = ssl_.get();
    BIO* const bio = make_bio(*this);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_set_read_ahead(ssl, 1);  // One read of the socket per record instead of two.
    SSL_set_connect_state(ssl);
    if (is_address(host)) {
        X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
    } else {
        SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        SSL_set1_host(ssl, host.c_str());
        SSL_set_tlsext_host_name(ssl, host.c_str());
    }
    if (session) SSL_set_session(ssl, session);

    arm(deadline);
    std::optional<TlsError> failure;
    while (true) {
        ERR_clear_error();
        const int result = SSL_do_handshake(ssl);
        if (result == 1) break;
        error_code error;
        const Want want = what_it_wants(result, error);
        if (error) failure = TlsError{.detail = ssl_failure(ssl)};
        if (!error) error = co_await wait_until(want);
        if (error && !failure) failure = TlsError{.timed_out = expired_, .detail = "no TLS handshake in time"};
        if (failure) break;
    }
    disarm();
    if (failure) ssl_.reset();
    co_return failure;
}

SslSession OutConnection::session() const {
    SslSession session(ssl_ ? SSL_get1_session(ssl_.get()) : nullptr);
    return session && SSL_SESSION_is_resumable(session.get()) ? std::move(session) : nullptr;
}

Task<error_code> OutConnection::send(Outgoing outgoing, std::chrono::milliseconds timeout) {
    bytes_sent_ = 0;
    error_code error;
    while (outgoing.bytes_left() > 0 && !error) {
        // Nearly always there is room, and then the coroutine need not be suspended.
        Want want = Want::nothing;
        outgoing.sent(write_some(outgoing, want, error));
        if (want == Want::nothing) continue;
        arm(steady_clock::now() + timeout);
        error = co_await wait_until(want);
    }
    disarm();
    co_return error;
}

std::size_t OutConnection::write_some(const Outgoing& outgoing, Want& want, error_code& error) {
    if (!ssl_) {
        const std::size_t count = socket_.write_some(outgoing.buffers(), error);
        bytes_sent_ += count;
        if (error == asio::error::would_block) {
            error = {};
            want = Want::write;
        }
        return count;
    }
    std::size_t count = 0;
    const asio::const_buffer buffer = outgoing.front();
    ERR_clear_error();
    const int result = SSL_write_ex(ssl_.get(), buffer.data(), buffer.size(), &count);
    if (result != 1) want = what_it_wants(result, error);
    return result == 1 ? count : 0;
}

Task<error_code> OutConnection::read_more(SteadyTime deadline) {
    make_room();
    const std::span<char> room(buffer_.get() + end_, ReadBuffers::buffer_bytes - end_);
    if (room.empty()) co_return asio::error::no_buffer_space;
    arm(deadline);
    std::size_t count = 0;
    error_code error;
    if (!ssl_) {
        // Asio knows when the last read has emptied the socket, and then does not ask it in vain.
        count = co_await socket_.async_read_some(asio::buffer(room.data(), room.size()),
                                                 asio::redirect_error(use_task, error));
    }
    while (ssl_ && count == 0 && !error) {
        Want want = Want::nothing;
        count = read_some(room, want, error);
        if (want != Want::nothing) error = co_await wait_until(want);
    }
    disarm();
    end_ += count;
    if (error && expired_) error = asio::error::timed_out;
    co_return error;
}

std::size_t OutConnection::read_some(std::span<char> room, Want& want, error_code& error) {
    std::size_t count = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_.get(), room.data(), room.size(), &count);
    if (result != 1) want = what_it_wants(result, error);
    return result == 1 ? count : 0;
}

Task<error_code> OutConnection::wait_until(Want want) {
    error_code error;
    co_await socket_.async_wait(want == Want::read ? Socket::wait_read : Socket::wait_write,
                                asio::redirect_error(use_task, error));
    if (error && expired_) error = asio::error::timed_out;
    co_return error;
}

// After a call of OpenSSL that did not succeed.
OutConnection::Want OutConnection::what_it_wants(int result, error_code& error) {
    switch (SSL_get_error(ssl_.get(), result)) {
        case SSL_ERROR_WANT_READ:
            return Want::read;
        case SSL_ERROR_WANT_WRITE:
            return Want::write;
        case SSL_ERROR_ZERO_RETURN:
            error = asio::error::eof;
            break;
        default:
            error = asio::error::connection_aborted;
    }
    return Want::nothing;
}

void OutConnection::make_room() {
    if (!buffer_) buffer_ = buffers_.take();
    if (begin_ == end_) {
        begin_ = end_ = 0;
    } else if (end_ == ReadBuffers::buffer_bytes) {
        std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
        end_ -= std::exchange(begin_, 0);
    }
}

bool OutConnection::is_alive() {
    if (ssl_ && SSL_has_pending(ssl_.get())) return false;
    char byte = 0;
    const auto count = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void OutConnection::rest() {
    buffers_.give_back(std::move(buffer_));
    begin_ = end_ = 0;
}

void OutConnection::tick(SteadyTime now) {
    if (now < deadline_) return;
    expired_ = true;
    error_code ignored;
    socket_.cancel(ignored);
}

// OpenSSL's own sockets raise SIGPIPE.
BIO* OutConnection::make_bio(OutConnection& connection) {
    static BIO_METHOD* const method = [] {
        BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "connection");
        BIO_meth_set_write(made, bio_write);
        BIO_meth_set_read(made, bio_read);
        BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) -> long { return command == BIO_CTRL_FLUSH; });
        return made;
    }();
    BIO* const bio = BIO_new(method);
    BIO_set_data(bio, &connection);
    BIO_set_init(bio, 1);
    return bio;
}

int OutConnection::bio_write(BIO* bio, const char* bytes, int size) {
    auto& connection = *static_cast<OutConnection*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const auto count =
        ::send(connection.socket_.native_handle(), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) connection.bytes_sent_ += static_cast<std::size_t>(count);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
    return static_cast<int>(count);
}

int OutConnection::bio_read(BIO* bio, char* bytes, int size) {
    auto& connection = *static_cast<OutConnection*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const auto count = ::recv(connection.socket_.native_handle(), bytes, static_cast<std::size_t>(size), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    return static_cast<int>(count);
}

}  // namespace interlock::net
