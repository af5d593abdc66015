// Where a server listens, as people type it: "127.0.0.1:4100", "[::1]:4100", ":4100", "4100".
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace interlock::server {

struct ListenAddress {
    std::string host = {};  // Empty: not stated.
    std::uint16_t port = 0;
};

// The error is a sentence.
Result<ListenAddress, std::string> parse_listen(const std::string& text);

}  // namespace interlock::server
