// HMAC-SHA-256: what only those can compute who have the key.
#pragma once

#include <string>
#include <string_view>

namespace interlock::server {

// 32 bytes.
std::string keyed_hash(std::string_view key, std::string_view text);

}  // namespace interlock::server
