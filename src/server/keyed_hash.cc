#include "server/keyed_hash.h"

#include "base/sha256.h"

namespace interlock::server {

std::string keyed_hash(std::string_view key, std::string_view text) {
    const Sha256 mac = HmacSha256(key).of(text);
    return {mac.begin(), mac.end()};
}

}  // namespace interlock::server
