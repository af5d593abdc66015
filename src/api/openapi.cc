// The OpenAPI 3.1 document, made from the route table.
#include <fmt/format.h>

#include "api/route.h"

namespace interlock::api {
namespace {

std::string lower_case(std::string_view text) {
    std::string lower(text);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return lower;
}

std::string_view scope_of(Access access) {
    switch (access) {
        case Access::open:
            return "none";
        case Access::read:
            return "read";
        case Access::act:
            return "agent";
        case Access::operate:
            return "operator";
        case Access::administer:
            return "admin";
    }
    return "";
}

json::array parameters_of(const ApiRoute& route) {
    json::array parameters;
    for (std::size_t at = route.path.find('{'); at != std::string_view::npos; at = route.path.find('{', at + 1)) {
        const std::string_view name = route.path.substr(at + 1, route.path.find('}', at) - at - 1);
        parameters.push_back({{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
    }
    for (const std::string_view name : route.query) {
        parameters.push_back({{"name", name}, {"in", "query"}, {"schema", {{"type", "string"}}}});
    }
    if (route.method != net::Method::get) {
        parameters.push_back(
            {{"name", "Idempotency-Key"}, {"in", "header"}, {"schema", {{"type", "string"}, {"maxLength", 255}}}});
    }
    return parameters;
}

// "get_v1_agents_name"
std::string operation_id(const ApiRoute& route) {
    std::string id = lower_case(net::name_of(route.method));
    for (const char c : route.path) {
        if (c == '/' || c == '.')
            id += '_';
        else if (c != '{' && c != '}')
            id += c;
    }
    return id;
}

json::object operation_of(const ApiRoute& route) {
    json::object success{{"description", net::reason_of(route.status)}};
    if (route.answer != nullptr) success["content"] = {{"application/json", {{"schema", route.answer()}}}};
    json::object operation{
        {"operationId", operation_id(route)},
        {"summary", route.summary},
        {"x-scope", scope_of(route.needs)},
        {"parameters", parameters_of(route)},
        {"responses",
         {{std::to_string(route.status), success}, {"default", {{"$ref", "#/components/responses/problem"}}}}}};
    if (route.reach == Reach::server) operation["x-reach"] = "server";
    if (route.needs == Access::open) operation["security"] = json::array();
    if (route.body != nullptr) {
        json::object content{{"schema", route.body()}};
        if (!route.example.empty()) content["example"] = json::parse(route.example);
        operation["requestBody"] = {{"content", {{"application/json", content}}}};
    }
    return operation;
}

}  // namespace

json::value openapi(const Routes& routes, std::string_view version) {
    json::object paths;
    for (const ApiRoute& route : routes.all()) {
        json::value& path = paths.emplace(route.path, json::object()).first->value();
        path.as_object()[lower_case(net::name_of(route.method))] = operation_of(route);
    }
    const json::value problem{{"type", "object"},
                              {"required", {"status", "code", "detail"}},
                              {"properties",
                               {{"type", {{"type", "string"}}},
                                {"title", {{"type", "string"}}},
                                {"status", {{"type", "integer"}}},
                                {"code", {{"type", "string"}}},
                                {"detail", {{"type", "string"}}},
                                {"pointer", {{"type", "string"}}},
                                {"request_id", {{"type", "string"}}}}}};
    return {{"openapi", "3.1.0"},
            {"info", {{"title", "Interlock"}, {"version", version}}},
            {"security", json::array{{{"key", json::array()}}}},
            {"paths", std::move(paths)},
            {"components",
             {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}},
              {"responses",
               {{"problem",
                 {{"description", "A problem document: what failed, why, and what to do"},
                  {"content", {{"application/problem+json", {{"schema", problem}}}}}}}}}}}};
}

}  // namespace interlock::api
