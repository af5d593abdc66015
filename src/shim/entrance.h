// The entrance of a sealed run: a listening socket in the run's network namespace, on which the server accepts.
//
//   (1) The namespace has loopback and nothing else. The entrance listens on 127.0.0.1 there, so only processes of the
//       run reach it. A connection that came in by an entrance is of that run. The key that it shows does not count.
//   (2) The shim holds the socket for as long as the run lives, and hands it to each server that it connects to.
//   (3) No process of the run holds it.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "shim/fd.h"

namespace interlock::shim {

// In a fresh network namespace: switches loopback on, and listens on the port. Port 0: loopback only. False with errno.
bool open_entrance(int port, Fd& entrance);

// As send() and recv() on a Unix socket, with a descriptor where there is one. Of several that come at once the first
// is kept, and `descriptor` stays as it is when none comes.
ssize_t send_with(int socket, const void* bytes, std::size_t size, int descriptor);
ssize_t receive_with(int socket, void* bytes, std::size_t size, Fd& descriptor);

}  // namespace interlock::shim
