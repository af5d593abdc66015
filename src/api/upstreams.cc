// Upstreams as they do: the last hour of each, as this node has seen it.
#include <fmt/format.h>

#include "api/route.h"

namespace interlock::api {
namespace {

constexpr std::chrono::minutes shown_for{60};

// With so many decimals: what is counted in whole numbers needs no more.
std::string ratio(std::int64_t part, double whole) {
    return fmt::format("{:.2f}", whole > 0 ? static_cast<double>(part) / whole : 0.0);
}

std::string shown(const UpstreamFacts& upstream, double minutes) {
    std::string item = to_json(upstream);
    item.pop_back();
    return item + fmt::format(R"(,"calls_per_minute":{},"error_percent":{}}})", ratio(upstream.calls, minutes),
                              ratio(100 * upstream.errors, static_cast<double>(upstream.calls)));
}

ResponseTask list_upstreams(Call& call) {
    const Instant now = call.parts.commands.now();
    // Before the server was there, nothing was counted.
    const Instant since = std::max(call.parts.facts.started_at, Instant(std::chrono::floor<std::chrono::minutes>(now)) -
                                                                    shown_for + std::chrono::minutes(1));
    const double minutes = std::max(1.0, std::chrono::duration<double, std::ratio<60>>(now - since).count());
    std::string out = "{\"items\":[";
    for (const UpstreamFacts& upstream : call.parts.models.upstreams(call.caller.org)) {
        out += (out.back() == '[' ? "" : ",") + shown(upstream, minutes);
    }
    co_return respond(200, out + "],\"since\":" + to_json(since) + "}");
}

json::value upstreams_schema() {
    json::value item = schema_of<UpstreamFacts>();
    for (const char* name : {"calls_per_minute", "error_percent"}) {
        item.at("properties").as_object()[name] = {{"type", "number"}};
    }
    return {
        {"type", "object"},
        {"properties", {{"items", {{"type", "array"}, {"items", std::move(item)}}}, {"since", schema_of<Instant>()}}}};
}

}  // namespace

std::vector<ApiRoute> upstream_routes() {
    return {{.method = net::Method::get,
             .path = "/v1/gateway/upstreams",
             .needs = Access::read,
             .summary = "List upstreams with their last hour on this node",
             .handler = list_upstreams,
             .answer = upstreams_schema}};
}

}  // namespace interlock::api
