// What people set for the gateway: where requests go, how many may go, and how it decides. Each is one JSON document.
//
//   (1) A document is read strictly: a member that is not known, is not of its type or is out of its bounds is refused,
//       and the refusal points at it (RFC 6901). A member that is missing or null has its default.
//   (2) canonical() writes every member, in one order: equal settings are equal texts, and what is stored keeps its
//       meaning when a default changes. Canonical text reads back equal.
//   (3) No document has a key's value in it, only where the key is found. A key goes to its upstream's host and to no
//       other, and in the clear only to this machine, unless the upstream says `insecure`.
//
// Prices are documents too (prices.h). Secrets are none: they are encrypted before anybody stores them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe/enum.hpp>

#include "base/result.h"
#include "core/rows.h"
#include "gateway/dialect.h"
#include "gateway/prices.h"
#include "net/http_pool.h"

namespace interlock::gateway {

enum class KeyFrom { none, env, file, secret };
BOOST_DESCRIBE_ENUM(KeyFrom, none, env, file, secret)

// Where the key for an upstream is found. None: no key is sent at all, and the client's own neither.
struct KeySource {
    KeyFrom from = KeyFrom::none;
    std::string name = {};  // Of the variable, the file or the secret.
    friend bool operator==(const KeySource&, const KeySource&) = default;
};

struct Upstream {
    std::string name = {};  // The setting's.
    Dialect dialect = Dialect::openai;
    // Without a query, without a slash at its end, and without the /v1 or /v1beta that every route of the dialect
    // begins with. Default: the provider's own.
    std::string url = {};
    std::string provider = {};  // In prices, caps and budgets. Default: by the URL's host, else by the dialect.
    KeySource key = {};
    std::vector<std::string> models = {"*"};  // Patterns: '*' stands for anything. See matches().
    // What the upstream calls the limit of a chat's output: max_tokens or max_completion_tokens. A name that it does
    // not know is no limit there. Default: by the provider.
    std::string limit_name = {};
    std::string strip_prefix = {};  // Of a model's name, before it goes on. Patterns see it with the prefix.
    std::int32_t priority = 100;    // The lowest is tried first.
    std::int32_t weight = 1;        // Upstreams of one priority share by weight.
    std::int64_t connect_timeout_ms = 5'000;
    std::int64_t first_byte_timeout_ms = 120'000;
    std::int64_t silence_timeout_ms = 120'000;
    std::int64_t total_timeout_ms = 3'600'000;
    std::int32_t retries = 2;         // Attempts beyond the first, for 429, 5xx and no connection; before a first byte.
    std::int64_t backoff_ms = 250;    // Before the first retry; doubled for each further one.
    std::int32_t cooldown_after = 3;  // Failures in a row after which it is left alone; 0: never.
    std::int64_t cooldown_s = 30;     // For so long.
    std::string ca_file = {};         // PEM; believed besides the system's authorities.
    std::map<std::string, std::string> headers = {};  // Sent in place of the client's own; names in lower case.
    // Patterns of further request headers that go on, beyond those that always do (forwarding.h); in lower case.
    std::vector<std::string> pass_headers = {};
    bool insecure = false;  // Whether http may go to another machine.
    bool enabled = true;

    // What follows from the URL.
    net::Origin origin = {};
    std::string path = {};  // Goes before a route's target: "" or "/api".

    net::HttpTimeouts patience() const;
    // Whether one of the patterns takes the model.
    bool takes(std::string_view model) const;
    // What the upstream calls it.
    std::string model_there(std::string_view model) const;
    friend bool operator==(const Upstream&, const Upstream&) = default;
};

// How much may go to models in a minute. All calls that it applies to are counted together, so what is meant for one
// agent names it.
struct RateLimit {
    std::string name = {};                                 // The setting's.
    std::string key = {};                                  // The id of an API key; empty: any.
    std::string agent = {};                                // Empty: any.
    std::string model = {};                                // A pattern; empty: any.
    std::string provider = {};                             // Empty: any.
    std::optional<std::int64_t> requests_per_minute = {};  // At least one of the two is there.
    std::optional<std::int64_t> tokens_per_minute = {};

    bool applies(std::string_view key_id, std::string_view agent_name, std::string_view model_name,
                 std::string_view provider_name) const;
    friend bool operator==(const RateLimit&, const RateLimit&) = default;
};

// What becomes of a call to a model that has no price.
enum class UnknownModel {
    deny,      // It is refused where a hard dollar budget or a run's ceiling covers it; elsewhere it goes on, marked.
    unpriced,  // It goes on in any case, marked: no dollar budget sees it.
    assume,    // It costs what another model does.
};
BOOST_DESCRIBE_ENUM(UnknownModel, deny, unpriced, assume)

// What becomes of a call whose cost has no published bound, where a hard dollar budget covers it.
enum class UnboundedCost { deny, allow };
BOOST_DESCRIBE_ENUM(UnboundedCost, deny, allow)

struct Otlp {
    std::string url = {};  // The base, to which /v1/traces and /v1/metrics are added. Empty: nothing is exported.
    std::map<std::string, std::string> headers = {};
    std::int64_t interval_s = 10;
    bool insecure = false;  // Whether http may go to another machine.

    // What follows from the org, and is not part of the document.
    bool public_only = false;
    friend bool operator==(const Otlp&, const Otlp&) = default;
};

struct GatewaySettings {
    UnknownModel unknown_model = UnknownModel::deny;
    std::string assume_price = {};      // "provider/model"; needed for assume.
    std::int64_t floor_tokens = 2'048;  // Output is not clamped below this: the call is refused.
    std::int32_t share_percent = 50;    // Of what a budget has left, beyond which a call takes only its floor.
    std::int64_t wait_s = 15;           // For headroom, before a call is refused.
    std::int64_t default_output_tokens = 32'000;  // For clients that state no limit; never above the model's own.
    std::int64_t drain_s = 60;                    // For so long is an answer read whose client has left,
    std::int64_t drain_bytes = 16 << 20;          // and so much of it.
    std::int64_t hold_lease_s = 60;
    // What becomes of a call under a hard budget without a bound on its cost: a tool without a price or a
    // bound.
    UnboundedCost unbounded_cost = UnboundedCost::deny;
    std::int64_t tool_rounds_max = 8;          // Of server-side tools without a bound of their own; 0: refused.
    std::int64_t hidden_input_tokens = 1'024;  // What a provider adds to a prompt that has tools.
    // Of one image, for models whose own number is not known. Above every number that a provider has published.
    std::int64_t image_tokens_max = 50'000;
    std::int64_t file_tokens_max = 200'000;    // Of one document, recording or film, whatever its bytes say.
    std::int64_t cache_ttl_s = 0;              // How long answers are kept for equal requests; 0: not by default.
    std::vector<std::string> cache_keys = {};  // The ids of API keys for which they are; empty: for none by default.
    Otlp otlp = {};
    // Names of orgs whose upstreams and collectors may be at private addresses and speak http. Of the server's own org
    // only: elsewhere it has no members.
    std::vector<std::string> private_orgs = {};
    friend bool operator==(const GatewaySettings&, const GatewaySettings&) = default;
};

// What runs may reach at the least and at the most, for all of them. Of the server's own org only: it starts processes.
struct SandboxSettings {
    // Of runs that ask for none, and the lowest there is. server_default: as the server was started.
    core::SandboxLevel standard = core::SandboxLevel::server_default;  // "default" in the document.
    core::SandboxLevel minimum = core::SandboxLevel::server_default;
    // Hosts that sealed runs which may reach them also reach at private addresses: rules without patterns
    // (core/hosts.h).
    std::vector<std::string> private_hosts = {};
    friend bool operator==(const SandboxSettings&, const SandboxSettings&) = default;
};

// A document that was refused.
struct BadDocument {
    std::string pointer;  // "/headers/Host"; empty: the document itself.
    std::string detail;   // Goes on where the member's name ends: "must be a string".
    friend bool operator==(const BadDocument&, const BadDocument&) = default;
};
std::string to_sentence(const BadDocument& bad);  // "/weight is 0; it must be from 1 to 1000"

Result<Upstream, BadDocument> upstream_from(std::string_view name, std::string_view document);
Result<RateLimit, BadDocument> rate_limit_from(std::string_view name, std::string_view document);
// Also of a document from before `otlp.insecure`, with a collector that canonical() would refuse today.
Result<GatewaySettings, BadDocument> gateway_settings_from(std::string_view document);
Result<SandboxSettings, BadDocument> sandbox_settings_from(std::string_view document);
// The name is "provider/model".
Result<ModelPrice, BadDocument> price_from(std::string_view name, std::string_view document);
std::string document_of(const Upstream& upstream);
std::string document_of(const RateLimit& limit);
std::string document_of(const GatewaySettings& settings);
std::string document_of(const SandboxSettings& settings);

// Invariant (2), for every kind of core/settings.h but secrets.
Result<std::string, BadDocument> canonical(std::string_view kind, std::string_view name, std::string_view document);

// False where what is sent could be read on the network, and the setting does not allow that.
bool is_confidential(const Otlp& otlp);
// Whether requests to this host stay on this machine, by its name or address alone.
bool is_loopback(std::string_view host);

// '*' stands for anything, also for nothing; all else for itself.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace interlock::gateway
