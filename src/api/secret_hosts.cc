#include "api/secret_hosts.h"

#include <boost/json.hpp>

#include "core/settings.h"

namespace interlock::api {
namespace {

boost::json::object object_in(std::string_view text) {
    boost::system::error_code error;
    const boost::json::value parsed = boost::json::parse(boost::json::string_view(text.data(), text.size()), error);
    return !error && parsed.is_object() ? parsed.get_object() : boost::json::object();
}

std::vector<std::string> hosts_in(const boost::json::object& object) {
    std::vector<std::string> hosts;
    const boost::json::value* found = object.if_contains("hosts");
    if (found == nullptr || !found->is_array()) return hosts;
    for (const boost::json::value& host : found->get_array()) {
        if (host.is_string()) hosts.emplace_back(host.get_string());
    }
    return hosts;
}

boost::json::array array_of(const std::vector<std::string>& hosts) {
    return boost::json::array(hosts.begin(), hosts.end());
}

}  // namespace

// Without hosts the document is the encrypted text alone, which is base64 and so begins with no brace.
SecretDocument secret_document_from(std::string_view stored) {
    if (!stored.starts_with('{')) return {.sealed = std::string(stored)};
    const boost::json::object object = object_in(stored);
    const boost::json::value* sealed = object.if_contains("sealed");
    const bool is_text = sealed != nullptr && sealed->is_string();
    return {.hosts = hosts_in(object), .sealed = is_text ? std::string(sealed->get_string()) : std::string()};
}

std::string to_text(const SecretDocument& document) {
    if (document.hosts.empty()) return document.sealed;
    return boost::json::serialize(
        boost::json::object{{"hosts", array_of(document.hosts)}, {"sealed", document.sealed}});
}

SecretToSet secret_body_from(std::string_view text) {
    const boost::json::object object = object_in(text);
    SecretToSet body{.value = std::string(object.at("value").as_string())};
    if (object.contains("hosts")) body.hosts = hosts_in(object);
    return body;
}

std::string to_text(const SecretToSet& body) {
    boost::json::object object{{"value", body.value}};
    if (body.hosts) object["hosts"] = array_of(*body.hosts);
    return boost::json::serialize(object);
}

std::string binding_document(std::int64_t version, const std::vector<std::string>& hosts) {
    return boost::json::serialize(boost::json::object{{"version", version}, {"hosts", array_of(hosts)}});
}

std::vector<std::string> hosts_of(const core::Setting& secret, const std::vector<core::Setting>& bindings) {
    if (auto hosts = secret_document_from(secret.document).hosts; !hosts.empty()) return hosts;
    for (const core::Setting& row : bindings) {
        if (row.kind != core::secret_hosts_setting || row.name != secret.name || row.dropped) continue;
        const boost::json::object object = object_in(row.document);
        const boost::json::value* version = object.if_contains("version");
        if (version != nullptr && version->is_int64() && version->get_int64() == secret.version)
            return hosts_in(object);
    }
    return {};
}

}  // namespace interlock::api
