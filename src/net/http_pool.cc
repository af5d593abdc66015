#include "net/http_pool.h"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "net/asio_types.h"
#include "net/out_connection.h"
#include "net/public_address.h"
#include "net/request_head.h"
#include "net/response_parser.h"
#include "net/tls.h"

namespace interlock::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::steady_clock;
using ClientErrorKind = ClientError::Kind;

constexpr std::chrono::milliseconds tick_interval{250};
// To hear what a server has to say that did not take the whole request.
constexpr std::chrono::milliseconds refusal_timeout{1'000};
constexpr std::size_t response_head_bytes_max = ReadBuffers::buffer_bytes;
// A body up to this size is copied behind its head, so that TLS makes one record of both.
constexpr std::size_t tls_body_bytes_copied_max = 12u << 10;

struct KeptConnection {
    std::unique_ptr<OutConnection> connection;
    SteadyTime until;
};

// What is known of one origin. It stays as long as the pool, so a coroutine may refer to it while it waits.
struct Site {
    std::string host;                  // As the Host header has it.
    std::vector<KeptConnection> kept;  // The oldest first.
    SslSession session = {};           // Of the last connection that had one.
};

class Pool final : public asio::execution_context::service, public HttpPool {
 public:
    using key_type = Pool;
    static asio::execution_context::id id;

    explicit Pool(asio::execution_context& context);

    Task<Result<std::unique_ptr<HttpExchange>, ClientError>> send(Origin origin, OutRequest request,
                                                                  HttpTimeouts timeouts) override;
    void keep(Site& site, std::unique_ptr<OutConnection> connection);

 private:
    void shutdown() override;
    Site& site_of(const Origin& origin);
    std::unique_ptr<OutConnection> take_kept(Site& site);
    Task<Result<std::unique_ptr<OutConnection>, ClientError>> connect(Origin origin, Site& site, SteadyTime deadline);
    Result<asio::ssl::context*, std::string> tls_of(const std::string& ca_file);
    void begin_use(OutConnection& connection);
    void set_tick(SteadyTime at);
    void tick();

    const Executor executor_;
    AddressBook addresses_;
    ReadBuffers buffers_;
    std::map<Origin, Site> sites_;
    std::map<std::string, std::unique_ptr<asio::ssl::context>> tls_;  // By ca_file.
    List<OutConnection, OutConnection> in_use_;
    Timer timer_;
    SteadyTime tick_at_ = never;
    bool ended_ = false;
};

class PoolExchange final : public HttpExchange {
 public:
    PoolExchange(Pool& pool, Site& site, std::unique_ptr<OutConnection> connection, Method method,
                 HttpTimeouts timeouts)
        : pool_(pool),
          site_(site),
          connection_(std::move(connection)),
          parser_(method, response_head_bytes_max),
          timeouts_(timeouts) {}
    ~PoolExchange() override { leave(); }

    // The send error is told when there is no answer: a server that stops reading may still have answered.
    Task<std::optional<ClientError>> receive_head(error_code send_error);
    Task<Result<std::string_view, ClientError>> read() override;

 private:
    std::string_view take_pieces();
    void leave();
    ClientError give_up(ClientError error);

    Pool& pool_;
    Site& site_;
    std::unique_ptr<OutConnection> connection_;  // Null once the answer has ended, well or not.
    ResponseParser parser_;
    const HttpTimeouts timeouts_;
    bool may_be_kept_ = true;
    std::optional<ClientError> failure_;
};

asio::execution_context::id Pool::id;

Pool::Pool(asio::execution_context& context)
    : service(context),
      executor_(static_cast<asio::io_context&>(context).get_executor()),
      addresses_(executor_),
      timer_(executor_) {}

Task<Result<std::unique_ptr<HttpExchange>, ClientError>> Pool::send(Origin origin, OutRequest request,
                                                                    HttpTimeouts timeouts) {
    if (!request.body.empty() && !defines_body(request.method)) {
        co_return fail(ClientError{ClientErrorKind::could_not_connect, "a request of this method has no body"});
    }
    Site& site = site_of(origin);
    std::string head;
    if (!append_head(head, request.method, request.target, site.host, request.headers, request.body.size())) {
        co_return fail(
            ClientError{ClientErrorKind::could_not_connect, "the target or a header has a line break or space"});
    }
    if (origin.secure && request.body.size() <= tls_body_bytes_copied_max) {
        head.append(request.body);
        request.body.clear();
    }

    // 1. Connect. What fails here has not sent anything.
    const SteadyTime deadline = steady_clock::now() + timeouts.connect;
    std::unique_ptr<OutConnection> connection;
    error_code send_error;
    bool fresh = false;
    while (!connection) {
        connection = take_kept(site);
        fresh = !connection;
        if (fresh) {
            auto made = co_await connect(origin, site, deadline);
            if (!made) co_return fail(std::move(made.error()));
            connection = std::move(*made);
        }
        begin_use(*connection);

        // 2. Send. From here on a failure leaves open what happened, unless not one byte has left.
        send_error = co_await connection->send(Outgoing(head, request.body), timeouts.silence);
        if (!send_error || connection->sent_something()) break;
        connection.reset();
        if (fresh)
            co_return fail(ClientError{ClientErrorKind::could_not_connect, site.host + ": " + send_error.message()});
    }

    // 3. Receive, up to the head's end.
    OutConnection& used = *connection;
    auto exchange = std::make_unique<PoolExchange>(*this, site, std::move(connection), request.method, timeouts);
    auto failure = co_await exchange->receive_head(send_error);
    if (failure) co_return fail(std::move(*failure));
    // TLS 1.3 says how to come back only behind the handshake.
    if (fresh && origin.secure) {
        if (auto session = used.session()) site.session = std::move(session);
    }
    co_return exchange;
}

Site& Pool::site_of(const Origin& origin) {
    Site& site = sites_[origin];
    if (site.host.empty()) site.host = host_header(origin.secure, origin.host, origin.port);
    return site;
}

// The one that was used last, so that the others can grow old.
std::unique_ptr<OutConnection> Pool::take_kept(Site& site) {
    const SteadyTime now = steady_clock::now();
    while (!site.kept.empty()) {
        KeptConnection last = std::move(site.kept.back());
        site.kept.pop_back();
        if (now < last.until && last.connection->is_alive()) return std::move(last.connection);
    }
    return nullptr;
}

Task<Result<std::unique_ptr<OutConnection>, ClientError>> Pool::connect(Origin origin, Site& site,
                                                                        SteadyTime deadline) {
    if (origin.public_only && !origin.secure) {
        co_return fail(
            ClientError{ClientErrorKind::could_not_connect, site.host + ": it may be reached over TLS only"});
    }
    auto addresses = co_await addresses_.find(origin.host, deadline);
    if (!addresses) co_return fail(ClientError{ClientErrorKind::could_not_connect, addresses.error()});
    if (origin.public_only) std::erase_if(*addresses, [](const auto& address) { return !is_public(address); });
    if (addresses->empty()) {
        co_return fail(ClientError{ClientErrorKind::could_not_connect, site.host + ": it has no public address"});
    }

    auto connection = std::make_unique<OutConnection>(executor_, buffers_);
    begin_use(*connection);
    const error_code error = co_await connection->connect(std::move(*addresses), origin.port, deadline);
    if (error) co_return fail(ClientError{ClientErrorKind::could_not_connect, site.host + ": " + error.message()});
    if (!origin.secure) co_return connection;

    const auto context = tls_of(origin.ca_file);
    if (!context) co_return fail(ClientError{ClientErrorKind::tls_failed, context.error()});
    const auto failure = co_await connection->shake_hands(**context, origin.host, site.session.get(), deadline);
    if (!failure) co_return connection;
    const ClientErrorKind kind = failure->timed_out ? ClientErrorKind::could_not_connect : ClientErrorKind::tls_failed;
    co_return fail(ClientError{kind, site.host + ": " + failure->detail});
}

// Read once: authorities that are replaced are believed after a restart.
Result<asio::ssl::context*, std::string> Pool::tls_of(const std::string& ca_file) {
    auto& context = tls_[ca_file];
    if (!context) {
        auto made = make_client_tls(ca_file);
        if (!made) return fail(made.error());
        context = std::move(*made);
    }
    return context.get();
}

void Pool::keep(Site& site, std::unique_ptr<OutConnection> connection) {
    if (ended_ || site.kept.size() >= kept_per_origin_max) return;
    connection->unlink();
    connection->rest();
    site.kept.push_back({.connection = std::move(connection), .until = steady_clock::now() + kept_for});
    set_tick(site.kept.back().until);
}

void Pool::begin_use(OutConnection& connection) {
    if (!connection.is_linked()) in_use_.push_back(connection);
    // The next tick may be far away when nothing but kept connections had to be looked after.
    set_tick(steady_clock::now() + tick_interval);
}

void Pool::set_tick(SteadyTime at) {
    if (at >= tick_at_) return;
    tick_at_ = at;
    timer_.expires_at(at);
    timer_.async_wait([this](error_code error) {
        if (!error) tick();
    });
}

void Pool::tick() {
    const SteadyTime now = steady_clock::now();
    for (OutConnection& connection : in_use_) connection.tick(now);

    SteadyTime next = in_use_.empty() ? never : now + tick_interval;
    for (auto& [_, site] : sites_) {
        std::erase_if(site.kept, [now](const KeptConnection& kept) { return kept.until <= now; });
        if (!site.kept.empty()) next = std::min(next, site.kept.front().until);
    }
    tick_at_ = never;
    set_tick(next);
}

// The coroutines end after this, with the scheduler, and must not leave anything behind.
void Pool::shutdown() {
    ended_ = true;
    for (auto& [_, site] : sites_) site.kept.clear();
    addresses_.clear();
}

Task<std::optional<ClientError>> PoolExchange::receive_head(error_code send_error) {
    may_be_kept_ = !send_error;
    const SteadyTime first_byte =
        steady_clock::now() + (send_error ? std::min(refusal_timeout, timeouts_.first_byte) : timeouts_.first_byte);
    while (parser_.state() == ResponseParser::State::head) {
        const bool begun = !connection_->received().empty();
        const error_code error =
            co_await connection_->read_more(begun ? steady_clock::now() + timeouts_.silence : first_byte);
        if (error && send_error) {
            co_return give_up(
                {ClientErrorKind::outcome_unknown, "the request was not sent whole: " + send_error.message()});
        }
        if (error)
            co_return give_up({ClientErrorKind::outcome_unknown, "there is no answer: " + error.message(),
                               error == asio::error::timed_out});

        std::string_view none;
        const auto received = connection_->received();
        connection_->consume(parser_.feed({received.data(), received.size()}, none));
    }
    if (parser_.state() == ResponseParser::State::broken)
        co_return give_up({ClientErrorKind::bad_response, parser_.detail()});
    status = parser_.status();
    headers = std::move(parser_.headers());
    co_return std::nullopt;
}

Task<Result<std::string_view, ClientError>> PoolExchange::read() {
    while (connection_) {
        const std::string_view pieces = take_pieces();
        if (!pieces.empty()) co_return pieces;
        if (parser_.state() == ResponseParser::State::done) {
            leave();
            break;
        }
        if (parser_.state() == ResponseParser::State::broken) {
            give_up({ClientErrorKind::bad_response, parser_.detail()});
            break;
        }
        const error_code error = co_await connection_->read_more(steady_clock::now() + timeouts_.silence);
        // Some answers end with the connection.
        if (!error || (error == asio::error::eof && parser_.feed_end())) continue;
        give_up({ClientErrorKind::outcome_unknown, "the answer has no end: " + error.message(),
                 error == asio::error::timed_out});
    }
    if (failure_) co_return fail(*failure_);
    co_return std::string_view();
}

// All the pieces that are there as one, moved together over what stood between them: whoever passes them on then needs
// one write, however small the server cut its chunks.
std::string_view PoolExchange::take_pieces() {
    char* begin = nullptr;
    std::size_t size = 0;
    while (parser_.wants_more()) {
        const std::span<char> received = connection_->received();
        std::string_view piece;
        const std::size_t used = parser_.feed({received.data(), received.size()}, piece);
        if (used == 0) break;
        connection_->consume(used);
        if (piece.empty()) continue;
        char* const at = received.data() + (piece.data() - received.data());
        if (!begin) begin = at;
        if (begin + size != at) std::memmove(begin + size, at, piece.size());
        size += piece.size();
    }
    return {begin, size};
}

// At the end of the answer the connection is free for another; before it, it has to be closed.
void PoolExchange::leave() {
    if (!connection_) return;
    const bool keep = may_be_kept_ && parser_.state() == ResponseParser::State::done && parser_.keep_alive() &&
                      connection_->received().empty();
    if (keep) pool_.keep(site_, std::move(connection_));
    connection_.reset();
}

ClientError PoolExchange::give_up(ClientError error) {
    connection_.reset();
    failure_ = error;
    return error;
}

}  // namespace

HttpPool& HttpPool::of(const Executor& executor) { return asio::use_service<Pool>(executor.context()); }

}  // namespace interlock::net
