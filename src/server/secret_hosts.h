// Which secrets may be sent to which hosts, in one org.
//
//   (1) A secret goes to the hosts that an admin named when setting it. Naming others takes the secret itself.
//   (2) A secret that was set without hosts is bound by its first use: to the hosts of the upstreams that use it, or,
//       where none does, to the collector's. From then on that is as in (1).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/command.h"
#include "core/rows.h"
#include "gateway/settings.h"

namespace interlock::server {

// "api.openai.com", "127.0.0.1:8080", "[::1]:8080": in lower case, and without the port if it is 443.
std::string host_text(std::string_view host, std::uint16_t port);
// The same, of what an admin wrote; nothing: it is no host.
std::optional<std::string> host_from(std::string_view text);

// The secret that a header's value stands for: "secret:NAME".
std::optional<std::string> secret_named_in(std::string_view header_value);
// All that an upstream uses: its key, and its headers.
std::vector<std::string> secrets_of(const gateway::Upstream& upstream);
std::vector<std::string> secrets_of(const std::map<std::string, std::string>& headers);

class SecretHosts {
 public:
    // Rows of other kinds are skipped.
    explicit SecretHosts(const std::vector<core::Setting>& settings);

    // Invariant (2). Returns what has to be stored for it to stay so.
    std::vector<core::PutSetting> bind(const std::vector<gateway::Upstream>& upstreams, const gateway::Otlp& otlp);

    // Empty: nothing has bound the secret yet, or there is none.
    const std::vector<std::string>& of(const std::string& secret) const;

 private:
    struct Bound {
        std::int64_t version = 0;
        std::vector<std::string> hosts;
    };
    std::map<std::string, Bound> secrets_;
};

}  // namespace interlock::server
