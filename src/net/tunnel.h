// A tunnel: bytes between a client's connection and one to another server, unread, until both have ended.
//
//   (1) Each direction ends by itself: the end of one is passed on, and the other goes on.
//   (2) At most one buffer per direction is in memory. A side that does not read makes the other wait.
//   (3) Both sides are closed when one fails, when no byte has come or gone for `idle`, and by cut().
//   (4) `ended` is called once, when neither side is used any more, with the bytes that were passed on.
//
// For the thread of the client's connection.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/asio_types.h"

namespace interlock::net {

struct TunnelCounts {
    std::int64_t out = 0;  // From the client.
    std::int64_t in = 0;
};

class Tunnel {
 public:
    static constexpr std::size_t buffer_bytes = 32u << 10;
    struct Options {
        std::string first = {};  // Goes to the server before what the client sends, and is counted.
        // The client has asked for a tunnel and hears that it has one. Otherwise `first` is a request, the client has
        // nothing more to say, and the answer is passed on.
        bool announced = true;
        std::chrono::seconds idle{600};
        std::function<Task<void>(TunnelCounts)> ended = {};
    };

    Tunnel(Socket server, Options options) : server_(std::move(server)), options_(std::move(options)) {}

    bool announced() const { return options_.announced; }
    // `early` came behind the request for the tunnel. `active` is called whenever bytes were passed on.
    static Task<void> carry(std::shared_ptr<Tunnel> tunnel, Socket& client, std::string early,
                            std::function<void()> active);
    std::chrono::seconds idle() const { return options_.idle; }
    void cut();

 private:
    struct Direction {
        Socket& from;
        Socket& to;
        std::int64_t& bytes;
    };
    Task<void> pass_on(Direction direction);
    Task<bool> send(Socket& to, std::string_view bytes, std::int64_t& count);

    Socket server_;
    const Options options_;
    Socket* client_ = nullptr;
    std::function<void()> active_;
    TunnelCounts counts_;
    bool other_done_ = false;
};

// Connects to the first address that answers. The error is a sentence.
Task<Result<Socket, std::string>> connect_to(std::vector<boost::asio::ip::address> addresses, std::uint16_t port,
                                             std::chrono::milliseconds timeout);

}  // namespace interlock::net
