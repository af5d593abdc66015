// Prices from outside: a price list in the format of prices/catalog.txt, and a price as people set it, in JSON. What is
// accepted is complete, finds itself and reads back.
//
// The first byte of an input chooses the format: c, and j for anything else.
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/ensure.h"
#include "gateway/price_catalog.h"
#include "gateway/prices.h"

namespace {

using namespace interlock;
using namespace interlock::gateway;

void check_tiers(const auto& tiers) {
    ensure(!tiers.empty() && tiers.front().from_prompt_tokens == 0, "the first tier is from 0");
    for (std::size_t i = 0; i < tiers.size(); ++i) {
        ensure(i == 0 || tiers[i - 1].from_prompt_tokens < tiers[i].from_prompt_tokens, "tiers rise");
        ensure(tiers[i].rates.input >= 0 && tiers[i].rates.output >= 0 && tiers[i].rates.per_call >= 0,
               "nothing costs less than nothing");
    }
}

void check_price(const auto& price) {
    ensure(price.input_max >= 0 && price.output_max >= 0 && price.image_max >= 0, "limits are counts");
    check_tiers(price.tiers);
    for (const auto& [_, tiers] : price.variants) check_tiers(tiers);
}

// Lines end with CR and LF, and there is a comment before each.
std::string dressed_up(std::string_view text) {
    std::string dressed = "# first\r\n";
    for (const char c : text) dressed += c == '\n' ? std::string("\r\n# next\tcatalog\n\n") : std::string(1, c);
    return dressed;
}

void check_same(const auto& left, const auto& right) {
    ensure(left.version() == right.version() && left.date() == right.date(), "the version is the same");
    ensure(left.rows().size() == right.rows().size(), "the rows are the same");
    for (std::size_t i = 0; i < left.rows().size(); ++i) {
        const auto &a = left.rows()[i], &b = right.rows()[i];
        ensure(a.provider == b.provider && a.model == b.model && a.prices.size() == b.prices.size(),
               "a row is the same");
        for (std::size_t j = 0; j < a.prices.size(); ++j) {
            ensure(a.prices[j].price == b.prices[j].price && a.prices[j].from == b.prices[j].from,
                   "a price is the same");
        }
    }
}

void check_catalog(std::string_view text) {
    const auto catalog = PriceCatalog::parse(text);
    const auto book = PriceBook::with_catalog({}, text);
    ensure(catalog.has_value() == book.has_value(), "both readers agree");
    ensure(catalog.has_value() || !catalog.error().empty(), "a refusal has a reason");
    if (!catalog) return;
    ensure(!catalog->rows().empty() && !catalog->version().empty(), "a list has a version and rows");
    if (text.find('\r') == std::string_view::npos) {
        const auto dressed = PriceCatalog::parse(dressed_up(text));
        ensure(dressed.has_value(), "comments and the ends of lines do not count");
        check_same(*catalog, *dressed);
    }

    for (const auto& row : catalog->rows()) {
        ensure(catalog->provider_id(row.provider) == row.provider, "a row is of a provider");
        for (const auto& entry : row.prices) {
            check_price(entry.price);
            ensure(entry.price.id().starts_with(row.provider + "/" + row.model + "@" + catalog->version()),
                   "a price has an id of its own");
        }
        for (const Instant at : {far_past, Instant(std::chrono::sys_days(std::chrono::year(2026) / 11 / 20))}) {
            const auto* price = row.at(at);
            ensure((price == nullptr) == row.prices.empty(), "a row with prices always has one that holds");
        }
        const auto* found = catalog->find(row.provider, lower_case(row.model));
        const auto* rows = catalog->rows().data();
        ensure(found == nullptr || (found >= rows && found < rows + catalog->rows().size()), "what is found is a row");
    }
}

void check_json(std::string_view text) {
    const auto price = price_from_json(text);
    ensure(price.has_value() || !price.error().detail.empty(), "a refusal has a reason");
    if (!price) return;
    check_price(*price);
    const std::string written = to_json(*price);
    const auto again = price_from_json(written);
    ensure(again.has_value() && *again == *price, "what is written reads back");
    ensure(to_json(*again) == written, "a price has one form");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    data[0] == 'c' ? check_catalog(text) : check_json(text);
    return 0;
}
