// The shim's line to the server: a Unix socket that is opened again whenever it is lost.
//
// Nothing here waits. What is sent while there is no line is dropped: after every connect the shim says who and where
// it is, which is all the server needs to know.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "shim/fd.h"
#include "shim/message.h"
#include "shim/protocol.h"

namespace interlock::shim {

class Connection {
 public:
    // The name of a Unix socket has little room, so it is reached through the directory that holds it, which stays
    // open.
    explicit Connection(int data_directory) : data_directory_(data_directory) {}

    bool connected() const { return static_cast<bool>(socket_); }
    int fd() const { return socket_.get(); }
    bool has_to_write() const { return !unsent_.empty(); }
    // True when there is a new line. Asking too often does nothing; `retry_at` says when it is time.
    bool connect(std::int64_t now_ms);
    std::int64_t retry_at() const { return retry_at_; }
    // When the server was last known to be there.
    std::int64_t heard_at() const { return heard_at_; }

    // With a descriptor, where one is given. It stays open until it was sent.
    void send(const FromShim& message, int descriptor = -1);
    // Reads and writes what can be without waiting. Afterwards the line may be lost.
    void exchange(std::int64_t now_ms);
    // Messages that this release does not know are passed over.
    std::optional<FromServer> next();
    // The descriptor that came last, with a message or before it.
    Fd take_descriptor() { return std::exchange(received_, Fd()); }

 private:
    void receive(std::int64_t now_ms);
    void flush();
    void lose(std::int64_t now_ms);

    int data_directory_;
    Fd socket_;
    Fd received_;
    MessageReader reader_;
    std::string unsent_;
    int descriptor_ = -1;  // Goes with the byte at this place of `unsent_`.
    std::size_t descriptor_at_ = 0;
    bool lost_ = false;
    std::int64_t lost_at_ = -1;
    std::int64_t retry_at_ = 0;
    std::int64_t heard_at_ = 0;
};

}  // namespace interlock::shim
