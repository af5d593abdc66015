// Secrets as they are stored: encrypted, so that a copy of the store does not give them away.
//
//   (1) What is stored is base64 of a version byte, a nonce, and the text under AES-256-GCM with its tag. The org and
//       the secret's name, and the hosts that it was set for, are authenticated with it: it opens under no other name.
//   (2) The nonce is a keyed hash of all that is encrypted. So the same secret under the same name is the same text,
//       which makes a repeated request a repeat, and no nonce meets two texts.
//   (3) The key is a file in the data directory, the owner's alone, made when a first secret is stored. It is in no
//       backup of the store; without it there are no secrets.
//   (4) The caller that opens a secret names the host it is for. For another than it is bound to, it stays closed.
//
// May be used by several threads at once.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/rows.h"

namespace interlock::server {

class SecretBox {
 public:
    explicit SecretBox(std::string data_dir) : data_dir_(std::move(data_dir)) {}

    // The errors are sentences, and never have a secret in them.
    // What is stored: the secret and the hosts that were set with it, if any were.
    Result<std::string, std::string> seal(core::OrgId org, std::string_view name, std::string_view secret,
                                          std::vector<std::string> hosts = {});
    // `bound` are all the hosts that the secret may go to (SecretHosts).
    Result<std::string, std::string> open(core::OrgId org, std::string_view name, std::string_view stored,
                                          std::string_view host, const std::vector<std::string>& bound);

 private:
    enum class WithoutKey { make_one, fail };
    Result<std::string, std::string> key(WithoutKey otherwise);

    const std::string data_dir_;
    std::mutex mutex_;
    std::string key_;  // 32 bytes; empty until it is needed.
};

}  // namespace interlock::server
