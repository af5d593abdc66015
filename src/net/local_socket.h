// Unix sockets, by which programs of one machine speak to each other: each side can ask the kernel who the other is.
//
//   (1) A socket is in its place only when it listens: it is made beside it and moved there. So no client finds one
//       that does not answer yet, and one that a dead server left is replaced in one step.
//   (2) By default only the user who made it can connect: its mode is 0600, and the server checks the user of each
//       connection.
//
// A path may be longer than the 107 bytes that an address holds; only its last part may not.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "base/result.h"

namespace interlock::net {

// A listening socket, taken away again with this.
class LocalListener {
 public:
    // The error is a sentence. One that another process listens on is left alone.
    static Result<LocalListener, std::string> open(const std::string& path, mode_t mode = 0600);
    LocalListener(LocalListener&& other) noexcept;
    LocalListener& operator=(LocalListener&&) = delete;
    ~LocalListener();  // Removes the path if it still is this socket.

    int release();  // The descriptor; the caller closes it.

 private:
    LocalListener(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

    std::string path_;
    int fd_;
    dev_t device_ = 0;
    ino_t inode_ = 0;
};

// A connected socket. The error is a sentence: nothing listens there, or not as `owner`.
Result<int, std::string> connect_locally(const std::string& path, uid_t owner, std::chrono::milliseconds timeout);

bool is_local(int socket);
// Who the other side of a local socket is. Nothing where the kernel does not say.
std::optional<uid_t> peer_user(int socket);

}  // namespace interlock::net
