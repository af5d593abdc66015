#include "server/api_models.h"

namespace interlock::server {

Result<std::string, api::BadMember> ApiModels::check_setting(core::OrgId org, std::string_view kind,
                                                             const std::string& name, const std::string& document) {
    return settings_.check(org, kind, name, document);
}

void ApiModels::settings_changed(core::OrgId org) { gateway_.read_settings(org); }

Result<std::vector<api::PriceText>, std::string> ApiModels::prices(core::OrgId org, const std::string& filter) {
    return settings_.prices(org, filter, backend_.now());
}

Result<std::optional<api::PriceText>, std::string> ApiModels::price(core::OrgId org, const std::string& provider,
                                                                    const std::string& model) {
    return settings_.price(org, provider, model, backend_.now());
}

std::vector<std::optional<api::UsedPrice>> ApiModels::used_prices(core::OrgId org,
                                                                  const std::vector<api::ModelName>& models) {
    return gateway_.used_prices(org, models);
}

Result<std::string, std::string> ApiModels::update_catalog(const std::string& text) {
    auto taken = settings_.update_catalog(text);
    if (taken) gateway_.read_all_settings();
    return taken;
}

std::vector<api::UpstreamFacts> ApiModels::upstreams(core::OrgId org) { return gateway_.upstreams(org); }

void ApiModels::write_metrics(std::string& out, core::OrgId org) { gateway_.write_metrics(out, org); }

}  // namespace interlock::server
