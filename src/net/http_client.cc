#include "net/http_client.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <optional>
#include <variant>

#include "net/asio_types.h"
#include "net/local_socket.h"
#include "net/public_address.h"
#include "net/request_head.h"
#include "net/response_parser.h"
#include "net/tls.h"

namespace interlock::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;
using ClientErrorKind = ClientError::Kind;

using OnChunk = std::function<bool(std::string_view)>;

constexpr std::size_t answer_head_bytes_max = 64u << 10;

}  // namespace

// The one connection, and the client's whole work.
class HttpClient::Connection {
 public:
    Connection(Url url, Options options)
        : url_(std::move(url)), host_(host_header(url_.secure, url_.host, url_.port)), options_(std::move(options)) {}

    Result<ClientResponse, ClientError> exchange(const ClientRequest& request, OnChunk on_chunk);

 private:
    enum class Reuse { possible, never };
    enum class Taking { goes_on, stopped, too_large };  // Stopped: by on_chunk.

    Result<ClientResponse, ClientError> exchange_once(const ClientRequest& request, OnChunk on_chunk, Reuse reuse);
    std::optional<ClientError> connect(SteadyTime deadline);
    std::optional<ClientError> connect_here(SteadyTime deadline);
    std::optional<ClientError> shake_hands(SteadyTime deadline);
    bool is_alive();
    Result<std::string, ClientError> to_text(const ClientRequest& request) const;
    error_code send(std::string_view text, SteadyTime deadline);
    Result<ClientResponse, ClientError> receive(const ClientRequest& request, OnChunk on_chunk, SteadyTime deadline);
    void close();

    // Runs one operation to its end. When the deadline comes first, the connection is closed, which ends it too.
    template <class Start>
    error_code run(Start start, SteadyTime deadline);
    Socket& socket() { return plain_ ? *plain_ : tls_->next_layer(); }
    bool is_open() const { return plain_ || tls_; }

    const Url url_;
    const std::string host_;  // As the Host header has it.
    const Options options_;
    asio::io_context context_{1};
    std::unique_ptr<asio::ssl::context> tls_context_;
    std::optional<Socket> plain_;  // One of these two.
    std::unique_ptr<TlsStream> tls_;
    bool answered_something_ = false;  // In this exchange.
};

HttpClient::HttpClient(Url url, Options options)
    : connection_(std::make_unique<Connection>(std::move(url), std::move(options))) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;

Result<ClientResponse, ClientError> HttpClient::request(ClientRequest request) {
    return connection_->exchange(request, nullptr);
}

Result<ClientResponse, ClientError> HttpClient::stream(ClientRequest request,
                                                       std::function<bool(std::string_view)> on_chunk) {
    return connection_->exchange(request, std::move(on_chunk));
}

Result<ClientResponse, ClientError> HttpClient::Connection::exchange(const ClientRequest& request, OnChunk on_chunk) {
    const bool kept = is_open();
    auto response = exchange_once(request, on_chunk, Reuse::possible);
    // The server may close a kept connection at the moment we use it. What only reads may be said again.
    const bool only_reads = request.method == Method::get || request.method == Method::head;
    if (!response && response.error().kind == ClientErrorKind::outcome_unknown && kept && only_reads &&
        !answered_something_) {
        return exchange_once(request, std::move(on_chunk), Reuse::never);
    }
    return response;
}

Result<ClientResponse, ClientError> HttpClient::Connection::exchange_once(const ClientRequest& request,
                                                                          OnChunk on_chunk, Reuse reuse) {
    answered_something_ = false;
    const auto text = to_text(request);
    if (!text) return fail(text.error());
    const SteadyTime deadline = steady_clock::now() + options_.total_timeout;

    // 1. Connect. What fails here has not sent anything.
    if (is_open() && (reuse == Reuse::never || !is_alive())) close();
    if (!is_open()) {
        const auto error = connect(std::min(deadline, steady_clock::now() + options_.connect_timeout));
        if (error) {
            close();
            return fail(*error);
        }
    }

    // 2. Send. From here on a failure leaves open what happened. A server that stops reading may still have answered.
    const error_code send_error = send(*text, deadline);

    // 3. Receive.
    auto response = receive(request, std::move(on_chunk), deadline);
    if (!response && send_error && response.error().kind == ClientErrorKind::outcome_unknown) {
        response.error().detail = "the request could not be sent whole: " + send_error.message();
    }
    if (!response) close();
    return response;
}

std::optional<ClientError> HttpClient::Connection::connect(SteadyTime deadline) {
    if (options_.public_only && !url_.secure) {
        return ClientError{ClientErrorKind::could_not_connect, host_ + ": it may be reached over TLS only"};
    }
    if (!options_.local_path.empty()) return connect_here(deadline);
    error_code error;
    // Asked for without a deadline: the system's resolver cannot be interrupted.
    tcp::resolver resolver(context_);
    const auto found = resolver.resolve(url_.host, std::to_string(url_.port), tcp::resolver::numeric_service, error);
    if (error) return ClientError{ClientErrorKind::could_not_connect, url_.host + ": " + error.message()};

    std::vector<tcp::endpoint> endpoints;
    for (const auto& each : found) {
        if (!options_.public_only || is_public(each.endpoint().address())) endpoints.push_back(each.endpoint());
    }
    if (endpoints.empty()) return ClientError{ClientErrorKind::could_not_connect, host_ + ": it has no public address"};

    plain_.emplace(context_);
    error = run([&](auto done) { asio::async_connect(*plain_, endpoints, done); }, deadline);
    if (error) return ClientError{ClientErrorKind::could_not_connect, host_ + ": " + error.message()};
    socket().set_option(tcp::no_delay(true), error);
    return url_.secure ? shake_hands(deadline) : std::nullopt;
}

std::optional<ClientError> HttpClient::Connection::connect_here(SteadyTime deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now());
    const auto connected =
        connect_locally(options_.local_path, options_.local_owner, std::max(left, std::chrono::milliseconds(1)));
    if (!connected) return ClientError{ClientErrorKind::could_not_connect, connected.error()};
    error_code error;
    plain_.emplace(context_);
    plain_->assign(tcp::v4(), *connected, error);  // Its reads and writes do not depend on the kind of address.
    if (!error) return std::nullopt;
    ::close(*connected);
    return ClientError{ClientErrorKind::could_not_connect, options_.local_path + ": " + error.message()};
}

std::optional<ClientError> HttpClient::Connection::shake_hands(SteadyTime deadline) {
    if (!tls_context_) {
        auto made = make_client_tls(options_.ca_file);
        if (!made) return ClientError{ClientErrorKind::tls_failed, made.error()};
        tls_context_ = std::move(*made);
    }
    tls_ = std::make_unique<TlsStream>(std::move(*plain_), *tls_context_);
    plain_.reset();
    tls_->set_verify_callback(asio::ssl::host_name_verification(url_.host));
    if (!is_address(url_.host)) SSL_set_tlsext_host_name(tls_->native_handle(), url_.host.c_str());
    const error_code error = run([&](auto done) { tls_->async_handshake(TlsStream::client, done); }, deadline);
    if (!error) return std::nullopt;
    if (error == asio::error::timed_out)
        return ClientError{ClientErrorKind::could_not_connect, "no TLS handshake in time"};
    return ClientError{ClientErrorKind::tls_failed, error.message()};
}

// A kept connection on which something waits to be read was closed, or says something nobody asked for.
bool HttpClient::Connection::is_alive() {
    char byte = 0;
    const auto count = ::recv(socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

Result<std::string, ClientError> HttpClient::Connection::to_text(const ClientRequest& request) const {
    std::string text;
    if (!append_head(text, request.method, request.target, host_, request.headers, request.body.size())) {
        return fail(
            ClientError{ClientErrorKind::could_not_connect, "the target or a header has a line break or space"});
    }
    return text.append(request.body);
}

error_code HttpClient::Connection::send(std::string_view text, SteadyTime deadline) {
    return run(
        [&](auto done) {
            const auto buffer = asio::buffer(text.data(), text.size());
            plain_ ? asio::async_write(*plain_, buffer, done) : asio::async_write(*tls_, buffer, done);
        },
        deadline);
}

Result<ClientResponse, ClientError> HttpClient::Connection::receive(const ClientRequest& request, OnChunk on_chunk,
                                                                    SteadyTime deadline) {
    ResponseParser parser(request.method, answer_head_bytes_max);
    ClientResponse response;
    Taking taking = Taking::goes_on;
    const auto take = [&](std::string_view bytes) {
        if (on_chunk && parser.status() / 100 == 2) return on_chunk(bytes) ? Taking::goes_on : Taking::stopped;
        if (response.body.size() + bytes.size() > options_.body_bytes_max) return Taking::too_large;
        response.body.append(bytes);
        return Taking::goes_on;
    };
    std::string received;
    std::string piece(16u << 10, '\0');
    while (parser.wants_more() && taking == Taking::goes_on) {
        std::size_t count = 0;
        const error_code error = run(
            [&](auto done) {
                const auto counted = [&count, done](error_code result, std::size_t bytes) {
                    count = bytes;
                    done(result);
                };
                plain_ ? plain_->async_read_some(asio::buffer(piece), counted)
                       : tls_->async_read_some(asio::buffer(piece), counted);
            },
            on_chunk ? steady_clock::now() + options_.silence_timeout : deadline);
        answered_something_ = answered_something_ || count > 0;
        received.append(piece, 0, count);
        std::string_view rest = received;
        for (bool moves = true; moves && taking == Taking::goes_on;) {
            std::string_view bytes;
            const std::size_t used = parser.feed(rest, bytes);
            rest.remove_prefix(used);
            if (!bytes.empty()) taking = take(bytes);
            moves = used > 0;
        }
        received.erase(0, received.size() - rest.size());
        if (error && parser.wants_more() && taking == Taking::goes_on) {
            // Some answers end with the connection. An end that TLS did not announce may be an attacker's.
            const bool ended = error == asio::error::eof;
            if (!ended || !parser.feed_end())
                return fail(ClientError{ClientErrorKind::outcome_unknown, error.message()});
        }
    }
    if (parser.state() == ResponseParser::State::broken)
        return fail(ClientError{ClientErrorKind::bad_response, parser.detail()});
    if (taking == Taking::too_large) return fail(ClientError{ClientErrorKind::bad_response, "the body is too large"});
    if (taking == Taking::stopped || !parser.keep_alive() || !received.empty()) close();
    response.status = parser.status();
    response.headers = std::move(parser.headers());
    return response;
}

void HttpClient::Connection::close() {
    plain_.reset();
    tls_.reset();
}

template <class Start>
error_code HttpClient::Connection::run(Start start, SteadyTime deadline) {
    std::optional<error_code> result;
    context_.restart();
    start([&result](error_code error, const auto&...) { result = error; });
    context_.run_until(deadline);
    if (result) return *result;
    error_code ignored;
    socket().close(ignored);
    context_.run();
    return asio::error::timed_out;
}

Result<Url, std::string> parse_url(std::string_view text) {
    Url url;
    url.secure = text.starts_with("https://");
    if (!url.secure && !text.starts_with("http://")) return fail(std::string("a URL begins with http:// or https://"));
    text.remove_prefix(url.secure ? 8 : 7);
    url.port = url.secure ? 443 : 80;

    const std::size_t authority_size = std::min(text.find_first_of("/?"), text.size());
    std::string_view authority = text.substr(0, authority_size);
    if (authority_size < text.size()) url.target = text.substr(authority_size);
    if (url.target.starts_with('?')) url.target.insert(0, "/");
    if (url.target.find('#') != std::string::npos) return fail(std::string("a URL here has no #"));

    const std::size_t bracket = authority.find(']');
    const std::size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
    if (colon != std::string_view::npos) {
        const std::string_view port = authority.substr(colon + 1);
        const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
        if (error != std::errc() || end != port.data() + port.size() || url.port == 0) {
            return fail(std::string("the URL's port is not a port"));
        }
        authority = authority.substr(0, colon);
    }
    if (authority.starts_with('[') && authority.ends_with(']')) authority = authority.substr(1, authority.size() - 2);
    const auto is_odd = [](char c) {
        return c <= 0x20 || c >= 0x7F || std::string_view("@[]\\").find(c) != std::string_view::npos;
    };
    if (authority.empty() || std::ranges::any_of(authority, is_odd) ||
        std::ranges::any_of(url.target, [](char c) { return c <= 0x20 || c >= 0x7F; })) {
        return fail(std::string("the URL's host or path has characters that do not belong there"));
    }
    url.host = authority;
    return url;
}

}  // namespace interlock::net
