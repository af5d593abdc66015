#include "api/route.h"

#include <gtest/gtest.h>

#include <set>

namespace interlock::api {
namespace {

// A route says who may use it, or the program does not build.
static_assert(!std::is_default_constructible_v<Needs>);
static_assert(!std::is_default_constructible_v<ApiRoute>);

TEST(RouteTest, every_path_leads_to_its_own_route_and_the_names_come_along) {
    const Routes routes;
    ASSERT_GT(routes.all().size(), 50u);

    for (const ApiRoute& route : routes.all()) {
        std::vector<std::string> segments;
        std::vector<std::string> names;
        std::string_view rest = route.path;
        while (!rest.empty()) {
            rest.remove_prefix(1);
            std::string segment(rest.substr(0, rest.find('/')));
            rest.remove_prefix(segment.size());
            if (segment.starts_with('{')) names.push_back(segment = "some-" + segment.substr(1, segment.size() - 2));
            segments.push_back(segment);
        }
        const Routes::Match match = routes.find(route.method, segments);

        ASSERT_NE(match.route, nullptr) << route.path;
        EXPECT_EQ(match.route, &route) << route.path << " is hidden by " << match.route->path;
        EXPECT_EQ(match.names, names);
    }
}

TEST(RouteTest, an_unknown_path_and_an_unknown_method_are_told_apart) {
    const Routes routes;

    EXPECT_EQ(routes.find(net::Method::get, {"v1", "nothing"}).allowed, "");
    EXPECT_EQ(routes.find(net::Method::patch, {"v1", "agents", "a"}).route, nullptr);
    EXPECT_EQ(routes.find(net::Method::patch, {"v1", "agents", "a"}).allowed, "GET, PUT, DELETE");
    EXPECT_NE(routes.find(net::Method::head, {"v1", "agents", "a"}).route, nullptr) << "HEAD goes where GET goes";
}

TEST(RouteTest, only_the_two_probes_need_no_key_and_nothing_that_changes_something_is_for_readers) {
    const Routes routes;
    std::set<std::string_view> open;
    for (const ApiRoute& route : routes.all()) {
        if (route.needs == Access::open) open.insert(route.path);
        // A login link for one's own key changes nothing that is stored.
        if (route.method == net::Method::get || route.path == "/v1/login") continue;
        EXPECT_GE(Access(route.needs), Access::act) << route.path;
    }

    EXPECT_EQ(open, (std::set<std::string_view>{"/healthz", "/readyz"}));
}

TEST(RouteTest, budgets_agents_caps_schedules_and_keys_are_beyond_an_agents_key) {
    const Routes routes;
    for (const ApiRoute& route : routes.all()) {
        const bool about_rules = route.path.starts_with("/v1/budgets") || route.path.starts_with("/v1/agents") ||
                                 route.path.starts_with("/v1/caps") || route.path.starts_with("/v1/keys") ||
                                 (route.path.starts_with("/v1/schedules") && !route.path.ends_with("/wake") &&
                                  !route.path.ends_with("/trigger"));
        if (about_rules && route.method != net::Method::get) EXPECT_GT(Access(route.needs), Access::act) << route.path;
    }
}

// ---- the document -------------------------------------------------------------------------------------------------

bool is_of_type(const json::value& value, const json::value& type) {
    if (const auto* types = type.if_array()) {
        return std::ranges::any_of(*types, [&](const json::value& each) { return is_of_type(value, each); });
    }
    const std::string_view name = type.as_string();
    return (name == "string" && value.is_string()) || (name == "integer" && (value.is_int64() || value.is_uint64())) ||
           (name == "boolean" && value.is_bool()) || (name == "object" && value.is_object()) ||
           (name == "array" && value.is_array()) || (name == "null" && value.is_null());
}

// As much of JSON Schema as the document uses.
bool fits(const json::value& value, const json::value& schema) {
    if (const auto* choices = schema.as_object().if_contains("oneOf")) {
        return std::ranges::any_of(choices->as_array(), [&](const json::value& each) { return fits(value, each); });
    }
    const auto* type = schema.as_object().if_contains("type");
    if (type == nullptr || !is_of_type(value, *type)) return false;
    if (const auto* names = schema.as_object().if_contains("enum")) {
        if (std::ranges::find(names->as_array(), value) == names->as_array().end()) return false;
    }
    if (value.is_array()) {
        return std::ranges::all_of(value.get_array(),
                                   [&](const json::value& each) { return fits(each, schema.at("items")); });
    }
    if (!value.is_object()) return true;
    if (const auto* required = schema.as_object().if_contains("required")) {
        for (const json::value& name : required->as_array()) {
            if (!value.get_object().contains(name.as_string())) return false;
        }
    }
    const auto* properties = schema.as_object().if_contains("properties");
    if (properties == nullptr) return true;
    for (const auto& [name, member] : value.get_object()) {
        const auto* known = properties->as_object().if_contains(name);
        if (known == nullptr || !fits(member, *known)) return false;
    }
    return true;
}

TEST(OpenApiTest, the_document_has_every_route_and_no_other) {
    const Routes routes;
    const json::value document = openapi(routes, "1.2.3");
    std::size_t operations = 0;
    for (const auto& [path, methods] : document.at("paths").as_object()) operations += methods.as_object().size();

    EXPECT_EQ(operations, routes.all().size());
    EXPECT_EQ(document.at("info").at("version"), "1.2.3");
    std::set<std::string> ids;
    for (const auto& [path, methods] : document.at("paths").as_object()) {
        for (const auto& [method, operation] : methods.as_object()) {
            EXPECT_TRUE(ids.insert(std::string(operation.at("operationId").as_string())).second) << path;
            EXPECT_FALSE(operation.at("summary").as_string().empty()) << path;
        }
    }
}

TEST(OpenApiTest, every_example_fits_its_schema) {
    const Routes routes;
    std::size_t examples = 0;
    for (const ApiRoute& route : routes.all()) {
        if (route.example.empty()) continue;
        ++examples;
        EXPECT_TRUE(fits(json::parse(route.example), route.body())) << route.path << ": " << route.example;
    }
    EXPECT_GT(examples, 10u);
    EXPECT_FALSE(fits(json::parse(R"({"agent": 5})"),
                      json::parse(R"({"type": "object", "properties": {"agent": {"type": "string"}}})")))
        << "the check can fail";
}

}  // namespace
}  // namespace interlock::api
