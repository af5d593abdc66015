// The price list: which model of a provider a name means, and what it costs at a time. The binary carries one
// (prices/catalog.txt, whose head tells the format); an updated one can be read from a file.
//
//   (1) Of a provider's rows the first whose rule fits is the one; a name that a row has as a whole is looked up first,
//       which tools/prices.py has made sure comes to the same.
//   (2) A row that is known to have no price hides the rows behind it: their price is not its own.
//   (3) The id of each price is its own: later ones of a row have their number behind the version.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/by_text.h"
#include "base/result.h"
#include "gateway/prices.h"

namespace interlock::gateway {

constexpr std::size_t catalog_bytes_max = 8u << 20;

// Whether a name is a model's: any of the alternatives, of each all terms.
struct NameRule {
    struct Term {
        char kind = '=';
        bool negated = false;
        std::string text = {};
    };
    std::vector<std::vector<Term>> alternatives = {};

    bool fits(std::string_view name) const;
};

std::string lower_case(std::string_view text);

class PriceCatalog {
 public:
    struct Row {
        struct Price {
            Instant from = far_past;
            // Of the day, in UTC; the end may be before the beginning. Both 0: all day.
            std::chrono::minutes daily_begin{0};
            std::chrono::minutes daily_end{0};
            ModelPrice price = {};
        };
        std::string provider = {};
        std::string model = {};
        std::vector<Price> prices = {};  // The last one whose time has come holds. Empty: the price is not known.

        const ModelPrice* at(Instant when) const;
    };

    static const PriceCatalog& carried();
    // The error says which line is wrong, and how.
    static Result<PriceCatalog, std::string> parse(std::string_view text);

    const std::string& version() const { return version_; }
    const std::string& date() const { return date_; }
    const std::vector<Row>& rows() const { return rows_; }

    // The catalog's name for a provider; empty when it does not know it.
    std::string_view provider_id(std::string_view name) const;
    // Both in lower case.
    const Row* find(std::string_view provider, std::string_view model) const;

 private:
    struct Provider {
        std::vector<std::string> fallbacks = {};
        ByText<std::size_t> whole_names = {};
        std::vector<std::pair<NameRule, std::size_t>> rules = {};  // With at least one term that is no whole name.
    };
    struct Reader;

    const Row* find_in(const Provider& provider, std::string_view model) const;

    std::string version_;
    std::string date_;
    std::vector<Row> rows_;
    ByText<Provider> providers_;
    ByText<std::string> aliases_;
};

}  // namespace interlock::gateway
