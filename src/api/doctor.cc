// The server's look at itself.
#include <algorithm>

#include "api/route.h"

namespace interlock::api {
namespace {

ResponseTask get_doctor(Call& call) {
    const auto findings =
        co_await net::run_on(call.parts.workers, [&server = call.parts.operations] { return server.self_check(); });
    const bool ok =
        std::ranges::none_of(findings, [](const SelfFinding& finding) { return finding.level == FindingLevel::fail; });
    std::string out = "{\"ok\":" + to_json(ok) + ",\"items\":[";
    for (const SelfFinding& finding : findings) {
        out += std::string(out.back() == '[' ? "" : ",") + "{\"level\":" + to_json(finding.level) +
               ",\"what\":" + to_json(finding.what) + ",\"detail\":" + to_json(finding.detail) +
               ",\"do\":" + to_json(finding.advice) + "}";
    }
    co_return respond(200, out + "]}");
}

json::value doctor_schema() {
    const json::value text = schema_of<std::string>();
    const json::value item = {
        {"type", "object"},
        {"properties", {{"level", schema_of<FindingLevel>()}, {"what", text}, {"detail", text}, {"do", text}}}};
    return {{"type", "object"},
            {"properties", {{"ok", schema_of<bool>()}, {"items", {{"type", "array"}, {"items", item}}}}}};
}

}  // namespace

std::vector<ApiRoute> doctor_routes() {
    return {{.method = net::Method::get,
             .path = "/v1/doctor",
             .needs = Access::read,
             .summary = "List the results of the server's self-check, with fixes",
             .handler = get_doctor,
             .reach = Reach::server,
             .answer = doctor_schema}};
}

}  // namespace interlock::api
