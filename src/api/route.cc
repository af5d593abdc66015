#include "api/route.h"

#include <iterator>

namespace interlock::api {
namespace {

std::vector<std::string_view> split(std::string_view path) {
    std::vector<std::string_view> segments;
    while (!path.empty()) {
        path.remove_prefix(1);
        segments.push_back(path.substr(0, path.find('/')));
        path.remove_prefix(segments.back().size());
    }
    return segments;
}

bool is_name(std::string_view segment) { return segment.starts_with('{'); }

bool fits(const std::vector<std::string_view>& pattern, const std::vector<std::string>& segments) {
    if (pattern.size() != segments.size()) return false;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (!is_name(pattern[i]) && pattern[i] != segments[i]) return false;
    }
    return true;
}

}  // namespace

Routes::Routes() {
    for (auto* routes_of :
         {charge_routes,     hold_routes,       admission_routes, run_routes,    log_routes,          worktree_routes,
          session_routes,    transcript_routes, agent_routes,     budget_routes, schedule_routes,     tick_routes,
          cap_routes,        key_routes,        user_routes,      org_routes,    setting_routes,      price_routes,
          model_call_routes, event_routes,      spend_routes,     system_routes, session_tree_routes, upstream_routes,
          model_routes,      incident_routes,   doctor_routes}) {
        add(routes_of());
    }
}

void Routes::add(std::vector<ApiRoute> routes) {
    for (ApiRoute& route : routes) {
        segments_.push_back(split(route.path));
        routes_.push_back(std::move(route));
    }
}

// There are a few dozen routes and most differ in length or in their second segment: a walk is cheap.
Routes::Match Routes::find(net::Method method, std::vector<std::string> segments) const {
    Match match;
    for (std::size_t i = 0; i < routes_.size(); ++i) {
        if (!fits(segments_[i], segments)) continue;
        match.allowed += (match.allowed.empty() ? "" : ", ") + std::string(net::name_of(routes_[i].method));
        const bool head_of_get = method == net::Method::head && routes_[i].method == net::Method::get;
        if (routes_[i].method != method && !head_of_get) continue;
        match.route = &routes_[i];
        for (std::size_t at = 0; at < segments.size(); ++at) {
            if (is_name(segments_[i][at])) match.names.push_back(std::move(segments[at]));
        }
        return match;
    }
    return match;
}

}  // namespace interlock::api
