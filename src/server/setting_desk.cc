#include "server/setting_desk.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/settings.h"
#include "engine/embedded.h"
#include "gateway/settings.h"
#include "server/data_dir.h"
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

}  // namespace

// Whoever may set an upstream decides where its key is sent.
bool may_use(core::OrgId org, const gateway::KeySource& key) {
    const bool of_the_server = key.from == gateway::KeyFrom::env || key.from == gateway::KeyFrom::file;
    return !of_the_server || org == engine::Embedded::default_org;
}

Result<std::string, api::BadMember> SettingDesk::check(core::OrgId org, std::string_view kind, const std::string& name,
                                                       const std::string& document) {
    if (kind == core::secret_setting) {
        auto sealed = secrets_.seal(org, name, document);
        if (!sealed) return fail(api::BadMember{"", "cannot be kept: " + sealed.error()});
        return std::move(*sealed);
    }
    auto canonical = gateway::canonical(kind, name, document);
    if (!canonical) return fail(api::BadMember{canonical.error().pointer, canonical.error().detail});
    if (kind == core::upstream_setting && org != engine::Embedded::default_org) {
        const auto upstream = gateway::upstream_from(name, *canonical);
        if (upstream && !upstream->ca_file.empty()) {
            return fail(api::BadMember{"/ca_file", "is for the server's own org: files are the server's"});
        }
        if (upstream && !may_use(org, upstream->key)) {
            return fail(api::BadMember{"/key", "must be a secret: environment and files are the server's"});
        }
    }
    return std::move(*canonical);
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
