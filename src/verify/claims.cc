#include "verify/claims.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace interlock::verify {
namespace {

using Pair = std::pair<std::size_t, std::size_t>;

bool may_not_meet(const Claim& a, const Claim& b) {
    return a.run != b.run && (a.place.mode != "read" || b.place.mode != "read");
}

// Host (or the one space of all resources) and then one element for each directory from the root down.
std::vector<std::string_view> components(const Place& place) {
    if (place.kind == "resource") return {"resource", place.path};
    std::vector<std::string_view> parts{"workspace", place.host};
    std::string_view rest = place.path;
    while (!rest.empty()) {
        const std::string_view part = rest.substr(0, rest.find('/'));
        if (!part.empty()) parts.push_back(part);
        rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    }
    return parts;
}

bool starts_with(const std::vector<std::string_view>& path, const std::vector<std::string_view>& prefix) {
    return prefix.size() <= path.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

// In sorted order, everything inside a place follows it directly: so the places that contain the current one, and the
// equal ones before it, are exactly the stack.
void add_by_path(const std::vector<Claim>& claims, std::set<Pair>& found) {
    std::vector<std::pair<std::vector<std::string_view>, std::size_t>> sorted;
    for (std::size_t i = 0; i < claims.size(); ++i) sorted.emplace_back(components(claims[i].place), i);
    std::ranges::sort(sorted);
    std::vector<std::size_t> around;  // Positions in `sorted`.
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        while (!around.empty() && !starts_with(sorted[i].first, sorted[around.back()].first)) around.pop_back();
        for (const std::size_t outer : around) {
            const std::size_t a = sorted[outer].second;
            const std::size_t b = sorted[i].second;
            if (may_not_meet(claims[a], claims[b])) found.insert(std::minmax(a, b));
        }
        around.push_back(i);
    }
}

void add_by_identity(const std::vector<Claim>& claims, std::set<Pair>& found) {
    struct Leaf {
        std::string_view host, identity;
        std::size_t claim;
        auto place() const { return std::pair(host, identity); }
    };
    std::vector<Leaf> leaves;
    for (std::size_t i = 0; i < claims.size(); ++i) {
        const Place& place = claims[i].place;
        if (place.kind == "workspace" && !place.chain.empty()) leaves.push_back({place.host, place.chain.front(), i});
    }
    std::ranges::sort(leaves, {}, &Leaf::place);
    for (std::size_t i = 0; i < claims.size(); ++i) {
        const Place& place = claims[i].place;
        if (place.kind != "workspace") continue;
        for (const std::string& identity : place.chain) {
            const auto same = std::ranges::equal_range(
                leaves, std::pair<std::string_view, std::string_view>(place.host, identity), {}, &Leaf::place);
            for (const Leaf& leaf : same) {
                if (may_not_meet(claims[i], claims[leaf.claim])) found.insert(std::minmax(i, leaf.claim));
            }
        }
    }
}

}  // namespace

std::vector<Pair> collisions(const std::vector<Claim>& claims) {
    std::set<Pair> found;
    add_by_path(claims, found);
    add_by_identity(claims, found);
    return {found.begin(), found.end()};
}

}  // namespace interlock::verify
