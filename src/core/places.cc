#include "core/places.h"

#include <algorithm>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "base/ensure.h"
#include "core/limits.h"

namespace interlock::core {
namespace {

// The keys by which two places can meet.
struct PlaceKeys {
    std::vector<std::string> self;   // Its path and its identity.
    std::vector<std::string> chain;  // Those of itself and of every ancestor.
};

PlaceKeys keys_of(const Place& place) {
    if (place.kind == ClaimKind::resource) {
        const std::string name = "resource:" + place.path;
        return {{name}, {name}};
    }
    PlaceKeys keys;
    // A host has no control characters, so what stands before the line break is the host and nothing else.
    const std::string path_prefix = "path:" + place.host + '\n';
    const std::string identity_prefix = "inode:" + place.host + '\n';
    std::string_view path = place.path;
    keys.self.push_back(path_prefix + std::string(path));
    while (true) {
        keys.chain.push_back(path_prefix + std::string(path));
        if (path.size() <= 1) break;
        const std::size_t slash = path.rfind('/');
        path = slash == 0 || slash == std::string_view::npos ? std::string_view("/") : path.substr(0, slash);
    }
    if (!place.chain.empty()) keys.self.push_back(identity_prefix + place.chain.front());
    for (const std::string& identity : place.chain) keys.chain.push_back(identity_prefix + identity);
    // A bind mount can show the same ancestor twice.
    std::ranges::sort(keys.chain);
    keys.chain.erase(std::ranges::unique(keys.chain).begin(), keys.chain.end());
    return keys;
}

}  // namespace

Complaint check_places(const std::vector<Place>& places) {
    if (places.size() > limits::claims_per_run_max) {
        return fmt::format("the run claims {} directories and resources; at most {} are allowed", places.size(),
                           limits::claims_per_run_max);
    }
    std::set<std::tuple<ClaimKind, std::string, std::string>> named;
    for (const Place& place : places) {
        if (auto complaint = check_place(place)) return complaint;
        if (place.kind == ClaimKind::resource && place.path.starts_with(reserved_resources)) {
            return fmt::format("names of resources that begin with '{}' are reserved", reserved_resources);
        }
        if (!named.insert({place.kind, place.host, place.path}).second) {
            return fmt::format("'{}' is claimed twice", place.path);
        }
    }
    return std::nullopt;
}

std::optional<std::vector<Place>> with_workspaces(std::vector<Place> places, const std::vector<Place>& workspaces,
                                                  Restated how) {
    auto next = workspaces.begin();
    for (Place& place : places) {
        if (place.kind != ClaimKind::workspace) continue;
        if (next == workspaces.end()) return std::nullopt;
        Place now = *next++;
        now.mode = place.mode;
        if (how == Restated::beside) {
            now.host = place.host;
            now.path = place.path;
            // What is newest stands first, so a directory that is moved without end forgets what contained it long ago.
            for (const std::string& id : place.chain) {
                if (now.chain.size() == limits::place_depth_max) break;
                if (std::ranges::find(now.chain, id) == now.chain.end()) now.chain.push_back(id);
            }
        }
        place = std::move(now);
    }
    return next == workspaces.end() ? std::optional(std::move(places)) : std::nullopt;
}

void PlaceIndex::add(RunId run, const Place& place) {
    const PlaceKeys keys = keys_of(place);
    for (const std::string& key : keys.self) ++by_self_[key][{run, place.mode}];
    for (const std::string& key : keys.chain) ++by_chain_[key][{run, place.mode}];
}

void PlaceIndex::remove(RunId run, const Place& place) {
    const auto remove_from = [&](ByKey& map, const std::string& key) {
        const auto stays = map.find(key);
        ensure(stays != map.end(), "what is taken out of an index was put in");
        const auto stay = stays->second.find({run, place.mode});
        ensure(stay != stays->second.end(), "what is taken out of an index was put in");
        if (--stay->second == 0) stays->second.erase(stay);
        if (stays->second.empty()) map.erase(stays);
    };
    const PlaceKeys keys = keys_of(place);
    for (const std::string& key : keys.self) remove_from(by_self_, key);
    for (const std::string& key : keys.chain) remove_from(by_chain_, key);
}

template <class Found>
void PlaceIndex::visit_colliding(const Place& place, RunId except, Found found) const {
    const auto visit = [&](const ByKey& map, const std::string& key) {
        const auto stays = map.find(key);
        if (stays == map.end()) return true;
        for (const auto& [stay, _] : stays->second) {
            const bool both_read = stay.mode == ClaimMode::read && place.mode == ClaimMode::read;
            if (stay.run != except && !both_read && !found(stay.run)) return false;
        }
        return true;
    };
    const PlaceKeys keys = keys_of(place);
    for (const std::string& key : keys.chain) {  // It is a taken place, or lies inside one.
        if (!visit(by_self_, key)) return;
    }
    for (const std::string& key : keys.self) {  // A taken place lies inside it.
        if (!visit(by_chain_, key)) return;
    }
}

std::vector<RunId> PlaceIndex::colliding(const Place& place, RunId except) const {
    std::set<RunId> found;
    visit_colliding(place, except, [&](RunId run) { return found.insert(run), true; });
    return {found.begin(), found.end()};
}

bool PlaceIndex::collides(const Place& place, RunId except) const {
    bool found = false;
    visit_colliding(place, except, [&](RunId) { return found = true, false; });
    return found;
}

bool is_at_or_below(std::string_view path, std::string_view top) {
    while (top.ends_with('/')) top.remove_suffix(1);
    return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

bool encloses(const Place& outer, const Place& inner) {
    if (outer.kind != inner.kind || outer.host != inner.host) return false;
    if (outer.mode == ClaimMode::read && inner.mode == ClaimMode::write) return false;
    return inner.kind == ClaimKind::resource ? inner.path == outer.path : is_at_or_below(inner.path, outer.path);
}

bool collide(const Place& a, const Place& b) {
    PlaceIndex index;
    index.add(RunId(Id{0, 1}), a);
    return index.collides(b, RunId());
}

}  // namespace interlock::core
