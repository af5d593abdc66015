#include "base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace interlock {

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
    const auto distance = [](std::string_view a, std::string_view b) {
        std::vector<std::size_t> row(b.size() + 1);
        std::iota(row.begin(), row.end(), std::size_t{0});
        for (std::size_t i = 1; i <= a.size(); ++i) {
            std::size_t diagonal = std::exchange(row[0], i);
            for (std::size_t j = 1; j <= b.size(); ++j) {
                const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
                diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
            }
        }
        return row.back();
    };
    std::optional<std::string> best;
    std::size_t best_distance = word.size() / 3 + 2;
    for (const std::string& candidate : candidates) {
        // A beginning of the word is what people type who expect abbreviations to work.
        const bool begins = word.size() >= 2 && candidate.starts_with(word);
        const std::size_t found = begins ? 1 : distance(word, candidate);
        if (found < best_distance && found < candidate.size()) {
            best = candidate;
            best_distance = found;
        }
    }
    return best;
}

}  // namespace interlock
