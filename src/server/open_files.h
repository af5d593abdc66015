// How many files this process may have open. Each connection is a file, and so are those to upstreams and to shims.
#pragma once

#include <cstdint>

namespace interlock::server {

// Raises the soft limit to the hard one, up to a million. Returns what it was, which is what programs that the server
// starts get: some of them take a high limit for a promise that descriptors above 1023 work with select().
std::uint64_t raise_open_files();

// How many connections the server takes, so that half of the files are left for everything else.
std::uint64_t connections_possible();

}  // namespace interlock::server
