// A connection to another server, plain or TLS: bytes there and back.
//
//   (1) A wait ends at its deadline, give or take a tick: whoever owns the connections calls tick().
//   (2) What was received lies in one buffer, which is borrowed with the first read and given back by rest(). It stays
//       where it is until the next read_more().
//   (3) A TLS server is believed only with a certificate for its name.
//
// OpenSSL works on the socket itself and not on buffers of Asio's, which would take 70 KiB per connection.
#pragma once

#include <openssl/ssl.h>

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "net/address_book.h"
#include "net/asio_types.h"
#include "net/completion_queue.h"
#include "net/outgoing.h"
#include "net/task.h"

namespace interlock::net {

struct SslFree {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
    void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};
using SslSession = std::unique_ptr<SSL_SESSION, SslFree>;

// Read buffers that are not in use. A few are kept, since one is borrowed for each exchange.
class ReadBuffers {
 public:
    static constexpr std::size_t buffer_bytes = 16u << 10;
    static constexpr std::size_t spare_max = 64;

    std::unique_ptr<char[]> take();
    void give_back(std::unique_ptr<char[]> buffer);

 private:
    std::vector<std::unique_ptr<char[]>> spare_;
};

class OutConnection : public ListHook<OutConnection> {
 public:
    using error_code = boost::system::error_code;

    OutConnection(const Executor& executor, ReadBuffers& buffers) : socket_(executor), buffers_(buffers) {}
    ~OutConnection();
    OutConnection(const OutConnection&) = delete;
    OutConnection& operator=(const OutConnection&) = delete;

    // Tries one address after the other.
    Task<error_code> connect(AddressBook::Addresses addresses, std::uint16_t port, SteadyTime deadline);

    struct TlsError {
        bool timed_out = false;
        std::string detail;
    };
    // The context outlives the connection. With a session of an earlier connection there is less to do.
    Task<std::optional<TlsError>> shake_hands(boost::asio::ssl::context& context, std::string host,
                                              SSL_SESSION* session, SteadyTime deadline);
    SslSession session() const;  // Null when there is none to come back with.

    // Sends all of it, with at most `patience` between two steps.
    Task<error_code> send(Outgoing outgoing, std::chrono::milliseconds timeout);
    bool sent_something() const { return bytes_sent_ > 0; }  // Since send() began.

    // At least one byte more, or an error. An end that TLS did not announce is not eof.
    Task<error_code> read_more(SteadyTime deadline);
    std::span<char> received() { return {buffer_.get() + begin_, end_ - begin_}; }
    void consume(std::size_t bytes) { begin_ += bytes; }

    // Nothing was received that nobody asked for, and the server has not closed.
    bool is_alive();
    void rest();

    void tick(SteadyTime now);

 private:
    enum class Want { nothing, read, write };

    error_code open(const boost::asio::ip::tcp::endpoint& endpoint);
    std::size_t write_some(const Outgoing& outgoing, Want& want, error_code& error);
    std::size_t read_some(std::span<char> room, Want& want, error_code& error);
    Task<error_code> wait_until(Want want);
    Want what_it_wants(int result, error_code& error);
    void make_room();
    void arm(SteadyTime deadline) {
        deadline_ = deadline;
        expired_ = false;
    }
    void disarm() { deadline_ = SteadyTime::max(); }

    static BIO* make_bio(OutConnection& connection);
    static int bio_write(BIO* bio, const char* bytes, int size);
    static int bio_read(BIO* bio, char* bytes, int size);

    Socket socket_;
    std::unique_ptr<SSL, SslFree> ssl_;
    ReadBuffers& buffers_;
    std::unique_ptr<char[]> buffer_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    std::size_t bytes_sent_ = 0;
    SteadyTime deadline_ = SteadyTime::max();
    bool expired_ = false;
};

}  // namespace interlock::net
