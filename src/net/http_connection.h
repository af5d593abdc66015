// One connection of the server, and what the connections of a thread share.
//
// A connection reads a request, has it answered, writes the answer, and begins again. It is a coroutine on its loop's
// thread, so nothing here takes a lock.
//
//   (1) While the connection waits for its client it has a deadline; the loop's ticker enforces it (tick()).
//   (2) An answer is written whole before the next request is looked at.
//   (3) A connection is counted open from its construction to its destruction.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "net/asio_types.h"
#include "net/body_shares.h"
#include "net/completion_queue.h"
#include "net/http_server.h"
#include "net/peer.h"

namespace interlock::net {

// Written by one thread each, read by all: no cache line is fought over.
struct Counters {
    std::atomic<std::uint64_t> accepted = 0;
    std::atomic<std::uint64_t> turned_away = 0;
    std::atomic<std::uint64_t> requests = 0;
    std::atomic<std::uint64_t> refused = 0;
    std::atomic<std::uint64_t> failures = 0;
    std::atomic<std::uint64_t> timeouts = 0;
};

// What all loops of a server share.
struct HttpServerState {
    HttpServerState(HttpServerOptions its_options, Handler its_handler, Log& its_log)
        : options(std::move(its_options)), handler(std::move(its_handler)), log(its_log) {}

    const HttpServerOptions options;
    const Handler handler;
    Log& log;
    std::unique_ptr<boost::asio::ssl::context> tls;  // Set before the first connection, or never.
    std::atomic<bool> draining = false;
    std::atomic<std::size_t> connections = 0;
    std::atomic<std::size_t> streams = 0;
    std::atomic<std::size_t> body_bytes = 0;
    BodyShares body_shares;
};

class HttpConnection : public ListHook<HttpConnection> {
 public:
    virtual ~HttpConnection() = default;
    virtual void tick(SteadyTime now) = 0;  // Ends a wait for the client that took too long.
    virtual void drain() = 0;               // Closes when idle; the answer under way, if any, is the last.
    // Since when it waits for the head of a request; never: it does not wait for one.
    virtual SteadyTime waits_since() const = 0;
    virtual void give_way() = 0;  // Closes without a word, because another client needs the place.
    virtual void cut() = 0;       // Closes the socket, also in the middle of a request.
};

// One thread of the server.
struct Loop {
    explicit Loop(HttpServerState& its_server) : server(its_server) {}

    void set_date(std::int64_t unix_seconds);
    // Closes the connection that has waited longest for a request. False: there is none that waits for one.
    bool make_room();

    HttpServerState& server;
    Counters counters;
    std::int64_t date_seconds = 0;
    std::string date;  // Of the last tick, as the Date header has it.
    List<HttpConnection, HttpConnection> connections;
    // Last, so that it ends first: the coroutines that end with it use the rest.
    boost::asio::io_context context{1};
};

enum class Admission { admitted, turned_away };  // Turned away: gets a 503 and no more.

// Starts serving, on the loop's thread.
void serve_connection(Loop& loop, Socket socket, Admission admission, std::shared_ptr<Visitor> visitor);

}  // namespace interlock::net
