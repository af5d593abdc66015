// Settings of the gateway, prices and upstreams, for the API.
#pragma once

#include "api/ports.h"
#include "server/gateway_host.h"
#include "server/setting_desk.h"

namespace interlock::server {

class ApiModels final : public api::Models {
 public:
    ApiModels(Backend& backend, SettingDesk& settings, GatewayHost& gateway)
        : backend_(backend), settings_(settings), gateway_(gateway) {}

    Result<std::string, api::BadMember> check_setting(core::OrgId org, std::string_view kind, const std::string& name,
                                                      const std::string& document) override;
    void settings_changed(core::OrgId org) override;
    Result<std::vector<api::PriceText>, std::string> prices(core::OrgId org, const std::string& filter) override;
    Result<std::optional<api::PriceText>, std::string> price(core::OrgId org, const std::string& provider,
                                                             const std::string& model) override;
    std::vector<std::optional<api::UsedPrice>> used_prices(core::OrgId org,
                                                           const std::vector<api::ModelName>& models) override;
    Result<std::string, std::string> update_catalog(const std::string& text) override;
    std::vector<api::UpstreamFacts> upstreams(core::OrgId org) override;
    void write_metrics(std::string& out, core::OrgId org) override;

 private:
    Backend& backend_;
    SettingDesk& settings_;
    GatewayHost& gateway_;
};

}  // namespace interlock::server
