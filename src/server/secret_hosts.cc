#include "server/secret_hosts.h"

#include <algorithm>
#include <set>

#include "api/secret_hosts.h"
#include "core/settings.h"
#include "net/http_client.h"
#include "net/request_head.h"

namespace interlock::server {

std::string host_text(std::string_view host, std::uint16_t port) {
    std::string lower(host);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return net::host_header(true, lower, port);
}

std::optional<std::string> host_from(std::string_view text) {
    if (text.find_first_of("/?#*") != std::string_view::npos) return std::nullopt;
    const auto url = net::parse_url("https://" + std::string(text));
    if (!url) return std::nullopt;
    return host_text(url->host, url->port);
}

std::optional<std::string> secret_named_in(std::string_view header_value) {
    constexpr std::string_view by_name = "secret:";
    if (!header_value.starts_with(by_name)) return std::nullopt;
    return std::string(header_value.substr(by_name.size()));
}

std::vector<std::string> secrets_of(const std::map<std::string, std::string>& headers) {
    std::vector<std::string> names;
    for (const auto& [_, value] : headers) {
        if (auto name = secret_named_in(value)) names.push_back(std::move(*name));
    }
    return names;
}

std::vector<std::string> secrets_of(const gateway::Upstream& upstream) {
    std::vector<std::string> names = secrets_of(upstream.headers);
    if (upstream.key.from == gateway::KeyFrom::secret) names.push_back(upstream.key.name);
    return names;
}

SecretHosts::SecretHosts(const std::vector<core::Setting>& settings) {
    for (const core::Setting& row : settings) {
        if (row.kind != core::secret_setting || row.dropped) continue;
        secrets_[row.name] = {.version = row.version, .hosts = api::hosts_of(row, settings)};
    }
}

std::vector<core::PutSetting> SecretHosts::bind(const std::vector<gateway::Upstream>& upstreams,
                                                const gateway::Otlp& otlp) {
    std::map<std::string, std::set<std::string>> uses;
    for (const gateway::Upstream& upstream : upstreams) {
        for (const std::string& name : secrets_of(upstream)) {
            uses[name].insert(host_text(upstream.origin.host, upstream.origin.port));
        }
    }
    if (const auto collector = net::parse_url(otlp.url)) {
        for (const std::string& name : secrets_of(otlp.headers)) {
            if (!uses.contains(name)) uses[name].insert(host_text(collector->host, collector->port));
        }
    }
    std::vector<core::PutSetting> to_store;
    for (auto& [name, bound] : secrets_) {
        const auto found = uses.find(name);
        if (!bound.hosts.empty() || found == uses.end()) continue;
        bound.hosts.assign(found->second.begin(), found->second.end());
        to_store.push_back(
            {std::string(core::secret_hosts_setting), name, api::binding_document(bound.version, bound.hosts)});
    }
    return to_store;
}

const std::vector<std::string>& SecretHosts::of(const std::string& secret) const {
    static const std::vector<std::string> none;
    const auto found = secrets_.find(secret);
    return found == secrets_.end() ? none : found->second.hosts;
}

}  // namespace interlock::server
