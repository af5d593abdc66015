// Rows in the order of their keys: they go to neighbouring places in a tree.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/key_of.h"

namespace interlock::store {

template <class Row>
class KeyOrder {
 public:
    // Good until the next call, and as long as the rows given are.
    std::span<const Row* const> of(const std::vector<const Row*>& rows) {
        if constexpr (std::is_trivially_destructible_v<core::KeyOf<Row>>) {  // Other keys are not worth copying.
            if (rows.size() < 2) return rows;
            sorted_.clear();
            for (const Row* row : rows) sorted_.emplace_back(core::key_of(*row), row);
            const auto by_key = [](const auto& a, const auto& b) { return a.first < b.first; };
            if (std::is_sorted(sorted_.begin(), sorted_.end(), by_key)) return rows;
            std::sort(sorted_.begin(), sorted_.end(), by_key);
            rows_.clear();
            for (const auto& [_, row] : sorted_) rows_.push_back(row);
            return rows_;
        }
        return rows;
    }

 private:
    std::vector<std::pair<core::KeyOf<Row>, const Row*>> sorted_;
    std::vector<const Row*> rows_;
};

}  // namespace interlock::store
