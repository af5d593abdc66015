// How a cost event is divided between its two tables (schema/, docs/adr/0008).
//
// An event whose details are all at their defaults has no row of them, and the view cost_events fills the defaults in.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include <boost/mp11/algorithm.hpp>

#include "core/rows.h"
#include "store/columns.h"

namespace interlock::store {

constexpr std::array<std::string_view, 15> detail_names{"workflow",
                                                        "api_key",
                                                        "tags",
                                                        "cache_read_tokens",
                                                        "cache_write_5m_tokens",
                                                        "cache_write_1h_tokens",
                                                        "reasoning_tokens",
                                                        "calls",
                                                        "price",
                                                        "overage",
                                                        "over_limit",
                                                        "estimated",
                                                        "unpriced",
                                                        "corrects",
                                                        "why"};

constexpr bool is_detail(std::string_view column) {
    return std::ranges::find(detail_names, column) != detail_names.end();
}

inline bool has_details(const core::CostEvent& event) {
    static const core::CostEvent plain;
    bool differs = false;
    boost::mp11::mp_for_each<Columns<core::CostEvent>>([&](auto column) {
        if constexpr (is_detail(decltype(column)::member)) differs = differs || column.in(event) != column.in(plain);
    });
    return differs;
}

enum class LedgerTable { plain, details };

constexpr std::string_view ledger_table(LedgerTable table) {
    return table == LedgerTable::details ? "ledger_details" : "ledger";
}

// The org, which is in both, is not asked about.
constexpr bool is_in(LedgerTable table, std::string_view column) {
    return column == "key" || is_detail(column) == (table == LedgerTable::details);
}

}  // namespace interlock::store
