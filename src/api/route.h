// The route table: which request goes where, who may send it, and how it is described.
//
//   (1) A route that does not say who may use it does not build: `needs` has no default.
//   (2) A key that is bound to something may use only routes that say they look at that.
//   (3) A query parameter that the route does not name is refused.
//   (4) A route that reaches beyond the caller's org is for callers of the server's own org.
//   (5) openapi.json is made from this table, so it has every route and no other.
#pragma once

#include <string_view>
#include <vector>

#include "api/call.h"

namespace interlock::api {

// Says it, or does not compile.
class Needs {
 public:
    constexpr Needs(Access access) : access_(access) {}
    constexpr operator Access() const { return access_; }

 private:
    Access access_;
};

using SchemaMaker = json::value (*)();

// What a route is about: rows of the caller's org, or the server as a whole.
enum class Reach { org, server };

struct ApiRoute {
    net::Method method;
    std::string_view path;  // "/v1/agents/{name}"
    Needs needs;
    std::string_view summary;
    ResponseTask (*handler)(Call& call);
    Bound narrowest = Bound::nothing;  // Keys that are bound more narrowly may not use it.
    Reach reach = Reach::org;
    std::vector<std::string_view> query = {};
    SchemaMaker body = nullptr;
    std::string_view example = {};  // Of the body.
    SchemaMaker answer = nullptr;
    int status = 200;  // When all goes well.
};

class Routes {
 public:
    Routes();  // All of them.

    const std::vector<ApiRoute>& all() const& { return routes_; }
    void all() && = delete;  // Nobody walks over a table that is gone.

    struct Match {
        const ApiRoute* route = nullptr;
        std::vector<std::string> names;
        std::string allowed = {};  // The methods that the path takes, where this one it does not: "GET, PUT".
    };
    Match find(net::Method method, std::vector<std::string> segments) const;

 private:
    void add(std::vector<ApiRoute> routes);

    std::vector<ApiRoute> routes_;
    std::vector<std::vector<std::string_view>> segments_;  // Of each route's path.
};

// One function for each resource, in the file of its name.
std::vector<ApiRoute> agent_routes();
std::vector<ApiRoute> budget_routes();
std::vector<ApiRoute> charge_routes();
std::vector<ApiRoute> hold_routes();
std::vector<ApiRoute> session_routes();
std::vector<ApiRoute> session_tree_routes();
std::vector<ApiRoute> transcript_routes();
std::vector<ApiRoute> admission_routes();
std::vector<ApiRoute> run_routes();
std::vector<ApiRoute> log_routes();
std::vector<ApiRoute> worktree_routes();
std::vector<ApiRoute> schedule_routes();
std::vector<ApiRoute> tick_routes();
std::vector<ApiRoute> cap_routes();
std::vector<ApiRoute> key_routes();
std::vector<ApiRoute> user_routes();
std::vector<ApiRoute> org_routes();
std::vector<ApiRoute> setting_routes();
std::vector<ApiRoute> price_routes();
std::vector<ApiRoute> upstream_routes();
std::vector<ApiRoute> model_routes();
std::vector<ApiRoute> model_call_routes();
std::vector<ApiRoute> event_routes();
std::vector<ApiRoute> spend_routes();
std::vector<ApiRoute> incident_routes();
std::vector<ApiRoute> doctor_routes();
std::vector<ApiRoute> system_routes();

// The OpenAPI 3.1 document.
json::value openapi(const Routes& routes, std::string_view version);

}  // namespace interlock::api
