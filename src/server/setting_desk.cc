#include "server/setting_desk.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/secret_hosts.h"
#include "core/settings.h"
#include "engine/embedded.h"
#include "gateway/settings.h"
#include "net/http_client.h"
#include "net/public_address.h"
#include "server/data_dir.h"
#include "server/secret_hosts.h"
#include "store/read_rows.h"

namespace interlock::server {
namespace {

api::PriceText text_of(const gateway::ModelPrice& price) {
    return {price.provider + "/" + price.model, gateway::to_json(price)};
}

Result<gateway::PriceBook, std::string> book_of(std::vector<gateway::ModelPrice> set,
                                                const std::optional<std::string>& catalog) {
    if (!catalog) return gateway::PriceBook(std::move(set));
    return gateway::PriceBook::with_catalog(std::move(set), *catalog);
}

constexpr std::size_t hosts_max = 32;

// Why an org that reaches public addresses only does not reach this one, as far as that is known without its address.
std::optional<std::string> why_not_public(bool secure, const std::string& host) {
    boost::system::error_code not_an_address;
    const auto address = boost::asio::ip::make_address(host, not_an_address);
    const bool is_private = gateway::is_loopback(host) || (!not_an_address && !net::is_public(address));
    if (secure && !is_private) return std::nullopt;
    return fmt::format(
        "must {}, because this org may only reach public addresses over TLS; an admin of the server can allow "
        "more with the gateway setting private_orgs",
        secure ? "be a public address" : "be https");
}

// Why a secret does not go to a host. One that nothing has bound yet goes there.
std::optional<std::string> why_not_there(const SecretHosts& hosts, const std::string& secret, const std::string& host) {
    const std::vector<std::string>& bound = hosts.of(secret);
    if (bound.empty() || std::ranges::find(bound, host) != bound.end()) return std::nullopt;
    return fmt::format(
        "is '{0}', which may only be sent to {1}; set the secret again for this host: interlock secrets set "
        "{0} --host {2}",
        secret, fmt::join(bound, ", "), host);
}

std::optional<api::BadMember> check_headers(std::string_view pointer, const std::map<std::string, std::string>& headers,
                                            const SecretHosts& hosts, const std::string& host) {
    for (const auto& [header, value] : headers) {
        const auto secret = secret_named_in(value);
        if (!secret) continue;
        if (auto why = why_not_there(hosts, *secret, host)) {
            return api::BadMember{fmt::format("{}/{}", pointer, header), std::move(*why)};
        }
    }
    return std::nullopt;
}

}  // namespace

// Whoever may set an upstream decides where its key is sent.
bool may_use(core::OrgId org, const gateway::KeySource& key) {
    const bool of_the_server = key.from == gateway::KeyFrom::env || key.from == gateway::KeyFrom::file;
    return !of_the_server || org == engine::Embedded::default_org;
}

Result<std::string, api::BadMember> SettingDesk::check(core::OrgId org, std::string_view kind, const std::string& name,
                                                       const std::string& document) {
    if (kind == core::secret_setting) return sealed(org, name, document);
    auto canonical = gateway::canonical(kind, name, document);
    if (!canonical) return fail(api::BadMember{canonical.error().pointer, canonical.error().detail});
    std::optional<api::BadMember> bad;
    if (kind == core::upstream_setting) {
        if (const auto upstream = gateway::upstream_from(name, *canonical)) bad = check_upstream(org, *upstream);
    } else if (kind == core::gateway_setting) {
        if (const auto settings = gateway::gateway_settings_from(*canonical)) bad = check_gateway(org, *settings);
    }
    if (bad) return fail(std::move(*bad));
    return std::move(*canonical);
}

std::optional<api::BadMember> SettingDesk::check_upstream(core::OrgId org, const gateway::Upstream& upstream) {
    if (org != engine::Embedded::default_org && !upstream.ca_file.empty()) {
        return api::BadMember{"/ca_file", "is only for the org 'default', because files belong to the server"};
    }
    if (!may_use(org, upstream.key)) {
        return api::BadMember{"/key", "must be a secret, because environment and files belong to the server"};
    }
    if (!reaches_private(org)) {
        if (auto why = why_not_public(upstream.origin.secure, upstream.origin.host)) {
            return api::BadMember{"/url", std::move(*why)};
        }
    }
    const auto rows = settings_of(org);
    if (!rows) return api::BadMember{"", "cannot be checked: " + rows.error()};
    const std::string host = host_text(upstream.origin.host, upstream.origin.port);
    const SecretHosts hosts(*rows);
    if (upstream.key.from == gateway::KeyFrom::secret) {
        if (auto why = why_not_there(hosts, upstream.key.name, host)) return api::BadMember{"/key/secret", *why};
    }
    return check_headers("/headers", upstream.headers, hosts, host);
}

std::optional<api::BadMember> SettingDesk::check_gateway(core::OrgId org, const gateway::GatewaySettings& settings) {
    if (org != engine::Embedded::default_org && !settings.private_orgs.empty()) {
        return api::BadMember{"/private_orgs",
                              "is only for the org 'default', whose admin decides what other orgs may reach"};
    }
    const auto collector = net::parse_url(settings.otlp.url);
    if (!collector) return std::nullopt;
    if (!reaches_private(org)) {
        if (auto why = why_not_public(collector->secure, collector->host)) {
            return api::BadMember{"/otlp/url", std::move(*why)};
        }
    }
    const auto rows = settings_of(org);
    if (!rows) return api::BadMember{"", "cannot be checked: " + rows.error()};
    return check_headers("/otlp/headers", settings.otlp.headers, SecretHosts(*rows),
                         host_text(collector->host, collector->port));
}

// The document has the secret's value and, where the admin named them, its hosts. Without hosts, those that it is bound
// to already stay: a key that is rotated goes where the old one went.
Result<std::string, api::BadMember> SettingDesk::sealed(core::OrgId org, const std::string& name,
                                                        const std::string& document) {
    const auto body = api::secret_body_from(document);
    const auto rows = settings_of(org);
    if (!rows) return fail(api::BadMember{"", "cannot be kept: " + rows.error()});
    std::vector<std::string> hosts;
    if (body.hosts) {
        if (body.hosts->empty() || body.hosts->size() > hosts_max) {
            return fail(api::BadMember{"/hosts", fmt::format("must have 1 to {} hosts", hosts_max)});
        }
        for (std::size_t i = 0; i < body.hosts->size(); ++i) {
            auto host = host_from((*body.hosts)[i]);
            if (!host) {
                return fail(api::BadMember{fmt::format("/hosts/{}", i),
                                           "must be a host, with its port unless that is 443: api.openai.com, "
                                           "127.0.0.1:8080"});
            }
            hosts.push_back(std::move(*host));
        }
        std::ranges::sort(hosts);
        hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    } else {
        const auto stored = std::ranges::find_if(*rows, [&](const core::Setting& row) {
            return row.kind == core::secret_setting && row.name == name && !row.dropped;
        });
        if (stored != rows->end()) {
            // The same secret again is the same text.
            const auto same = secrets_.seal(org, name, body.value, api::secret_document_from(stored->document).hosts);
            if (same && *same == stored->document) return stored->document;
            hosts = SecretHosts(*rows).of(name);
        }
    }
    auto text = secrets_.seal(org, name, body.value, std::move(hosts));
    if (!text) return fail(api::BadMember{"", "cannot be kept: " + text.error()});
    return std::move(*text);
}

Result<std::vector<core::Setting>, std::string> SettingDesk::settings_of(core::OrgId org) {
    auto rows =
        reads_.with([&](store::Snapshot& snapshot) { return store::read_rows<core::Setting>(snapshot, org, ""); });
    if (!rows) return fail("the settings cannot be read: " + rows.error().detail);
    return std::move(*rows);
}

bool SettingDesk::reaches_private(core::OrgId org) {
    constexpr core::OrgId of_the_server = engine::Embedded::default_org;
    if (org == of_the_server) return true;
    const auto allowed = reads_.with([&](store::Snapshot& snapshot) -> Result<bool, store::ReadError> {
        const auto rows = store::read_rows<core::Setting>(snapshot, of_the_server, "and kind = $2 and dropped = 0",
                                                          {std::string(core::gateway_setting)});
        if (!rows) return fail(rows.error());
        const auto names = store::read_rows<core::Org>(snapshot, org, "");
        if (!names) return fail(names.error());
        if (rows->empty() || names->empty()) return false;
        const auto settings = gateway::gateway_settings_from(rows->front().document);
        return settings &&
               std::ranges::find(settings->private_orgs, names->front().name) != settings->private_orgs.end();
    });
    return allowed && *allowed;
}

Result<gateway::PriceBook, std::string> SettingDesk::book(core::OrgId org) {
    const auto rows = reads_.with([&](store::Snapshot& snapshot) {
        return store::read_rows<core::Setting>(snapshot, org, "and kind = $2 and dropped = 0 order by name",
                                               {std::string(core::price_setting)});
    });
    if (!rows) return fail("the prices cannot be read: " + rows.error().detail);
    std::vector<gateway::ModelPrice> set;
    for (const core::Setting& row : *rows) {
        auto price = gateway::price_from(row.name, row.document);
        if (!price) return fail(fmt::format("the price of {}: {}", row.name, to_sentence(price.error())));
        price->version = fmt::format("set-{}", row.version);
        set.push_back(std::move(*price));
    }
    return book_of(std::move(set), read_catalog(data_dir_));
}

Result<std::vector<api::PriceText>, std::string> SettingDesk::prices(core::OrgId org, const std::string& filter,
                                                                     Instant at) {
    const auto all = book(org);
    if (!all) return fail(all.error());
    std::vector<api::PriceText> texts;
    for (const gateway::ModelPrice* price : all->list(filter, at)) texts.push_back(text_of(*price));
    std::ranges::sort(texts, {}, &api::PriceText::name);
    return texts;
}

Result<std::optional<api::PriceText>, std::string> SettingDesk::price(core::OrgId org, const std::string& provider,
                                                                      const std::string& model, Instant at) {
    const auto all = book(org);
    if (!all) return fail(all.error());
    const gateway::ModelPrice* found = all->find(provider, model, at);
    return found == nullptr ? std::optional<api::PriceText>() : std::optional(text_of(*found));
}

Result<std::string, std::string> SettingDesk::update_catalog(const std::string& text) {
    const auto read = book_of({}, text);
    if (!read) return fail(read.error());
    const std::lock_guard lock(catalog_);
    if (auto written = write_catalog(data_dir_, text); !written) return fail(written.error());
    return fmt::format(R"({{"version":{},"date":{},"models":{}}})", api::to_json(read->version()),
                       api::to_json(read->date()), read->list("", far_future).size());
}

}  // namespace interlock::server
