// The hosts that a secret may be sent to, as the settings' rows have them.
//
// Hosts that were set with the secret stand in its own document. A secret that was set without any is bound by its
// first use: a row of kind `secret_hosts` then names the hosts, for that version of the secret and no other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/rows.h"

namespace interlock::api {

// What is stored for a secret.
struct SecretDocument {
    std::vector<std::string> hosts = {};  // Set with it; empty: its first use binds it.
    std::string sealed = {};              // The secret, encrypted.
};
SecretDocument secret_document_from(std::string_view stored);
std::string to_text(const SecretDocument& document);

// What an admin sets, on its way from the API to the part that encrypts it.
struct SecretToSet {
    std::string value = {};
    std::optional<std::vector<std::string>> hosts = {};
};
SecretToSet secret_body_from(std::string_view text);
std::string to_text(const SecretToSet& body);

std::string binding_document(std::int64_t version, const std::vector<std::string>& hosts);
// Empty: nothing has bound it yet, and it goes nowhere. `bindings` may have rows of other kinds and names.
std::vector<std::string> hosts_of(const core::Setting& secret, const std::vector<core::Setting>& bindings);

}  // namespace interlock::api
