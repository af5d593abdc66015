// Where the API's settings meet those who understand them: the gateway's documents and price list, and the secrets.
//
// Everything here reads the store or the disk, and so is called on a worker. May be used by several threads at once.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/ports.h"
#include "base/instant.h"
#include "base/result.h"
#include "gateway/prices.h"
#include "gateway/settings.h"
#include "server/secrets.h"
#include "store/read_pool.h"

namespace interlock::server {

// What is in the server's environment and files is for upstreams of the server's own org only.
bool may_use(core::OrgId org, const gateway::KeySource& key);

class SettingDesk {
 public:
    SettingDesk(std::string data_dir, store::ReadPool& reads)
        : data_dir_(std::move(data_dir)), reads_(reads), secrets_(data_dir_) {}

    // The document as it is stored: canonical, and encrypted if it is a secret.
    Result<std::string, api::BadMember> check(core::OrgId org, std::string_view kind, const std::string& name,
                                              const std::string& document);

    SecretBox& secrets() { return secrets_; }

    // Whether the org's upstreams and collector may be at private addresses and speak http: those of the server's own
    // org, and of orgs that its settings name. False where it cannot be read.
    bool reaches_private(core::OrgId org);

    // The prices that were set, over the list that was last taken or else the one that the binary carries.
    Result<gateway::PriceBook, std::string> book(core::OrgId org);
    Result<std::vector<api::PriceText>, std::string> prices(core::OrgId org, const std::string& filter, Instant at);
    Result<std::optional<api::PriceText>, std::string> price(core::OrgId org, const std::string& provider,
                                                             const std::string& model, Instant at);
    Result<std::string, std::string> update_catalog(const std::string& text);

 private:
    Result<std::string, api::BadMember> sealed(core::OrgId org, const std::string& name, const std::string& document);
    std::optional<api::BadMember> check_upstream(core::OrgId org, const gateway::Upstream& upstream);
    std::optional<api::BadMember> check_gateway(core::OrgId org, const gateway::GatewaySettings& settings);
    Result<std::vector<core::Setting>, std::string> settings_of(core::OrgId org);

    const std::string data_dir_;
    store::ReadPool& reads_;
    SecretBox secrets_;
    std::mutex catalog_;  // Of writing it.
};

}  // namespace interlock::server
