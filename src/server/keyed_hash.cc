#include "server/keyed_hash.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/ensure.h"

namespace interlock::server {

std::string keyed_hash(std::string_view key, std::string_view text) {
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    const auto* made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                            reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &size);
    ensure(made != nullptr && size == 32, "a MAC can be computed");
    return {reinterpret_cast<const char*>(mac), size};
}

}  // namespace interlock::server
