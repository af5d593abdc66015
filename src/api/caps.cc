// Caps: how many runs may be live at once for the org, a provider or a node.
#include <fmt/format.h>

#include "api/route.h"
#include "api/run_view.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct CapBody {
    static constexpr std::array required{"max_live"};
    std::int32_t max_live = 0;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(CapBody, (), (max_live, key))

struct CapView {
    core::CapKind kind = core::CapKind::org;
    std::string name;
    std::int32_t max_live = 0;
    std::int64_t live = 0;
};
BOOST_DESCRIBE_STRUCT(CapView, (), (kind, name, max_live, live))

Result<CapView, store::ReadError> view_of(store::Snapshot& snapshot, core::OrgId org, const core::Cap& cap) {
    const std::string of = cap.kind == core::CapKind::org    ? ""
                           : cap.kind == core::CapKind::node ? "and node = $2"
                                                             : "and provider = $2";
    const auto live = store::read_number(
        snapshot, org, fmt::format("select count(*) from runs where org = $1 and {} {}", at_work, of), {cap.name});
    if (!live) return fail(live.error());
    return CapView{cap.kind, cap.name, cap.max_live, *live};
}

Result<std::vector<CapView>, store::ReadError> read_caps(store::Snapshot& snapshot, core::OrgId org) {
    const auto caps = store::read_rows<core::Cap>(snapshot, org, "order by kind, name");
    if (!caps) return fail(caps.error());
    std::vector<CapView> views;
    for (const core::Cap& cap : *caps) {
        auto view = view_of(snapshot, org, cap);
        if (!view) return fail(view.error());
        views.push_back(std::move(*view));
    }
    return views;
}

ResponseTask list_caps(Call& call) {
    const core::OrgId org = call.caller.org;
    auto views = co_await read(call, [=](store::Snapshot& snapshot) { return read_caps(snapshot, org); });
    if (!views) co_return respond(call, views.error());
    co_return respond(Page<CapView>{std::move(*views), {}});
}

ResponseTask put(Call& call, core::CapKind kind, std::string name) {
    const auto body = read_body<CapBody>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask(call, core::SetCap{kind, name, body->max_live}, body->key);
    if (!done) co_return respond(call, done.error());
    const core::OrgId org = call.caller.org;
    const auto view = co_await read(call, [=, most = body->max_live](store::Snapshot& snapshot) {
        return view_of(snapshot, org, core::Cap{kind, name, most});
    });
    if (!view) co_return respond(call, view.error());
    co_return respond(200, *view, done->repeated);
}

ResponseTask lift(Call& call, core::CapKind kind, std::string name) {
    const auto done = co_await ask(call, core::SetCap{kind, std::move(name), std::nullopt});
    co_return done ? no_content(done->repeated) : respond(call, done.error());
}

ResponseTask put_org(Call& call) { return put(call, core::CapKind::org, {}); }
ResponseTask put_provider(Call& call) { return put(call, core::CapKind::provider, call.names[0]); }
ResponseTask put_node(Call& call) { return put(call, core::CapKind::node, call.names[0]); }
ResponseTask lift_org(Call& call) { return lift(call, core::CapKind::org, {}); }
ResponseTask lift_provider(Call& call) { return lift(call, core::CapKind::provider, call.names[0]); }
ResponseTask lift_node(Call& call) { return lift(call, core::CapKind::node, call.names[0]); }

}  // namespace

std::vector<ApiRoute> cap_routes() {
    std::vector<ApiRoute> routes{{.method = net::Method::get,
                                  .path = "/v1/caps",
                                  .needs = Access::read,
                                  .summary = "List caps with their numbers of live runs",
                                  .handler = list_caps,
                                  .answer = page_schema<CapView>}};
    struct Of {
        std::string_view path;
        ResponseTask (*put)(Call&);
        ResponseTask (*lift)(Call&);
    };
    for (const Of& of :
         {Of{"/v1/caps/org", put_org, lift_org}, Of{"/v1/caps/provider/{name}", put_provider, lift_provider},
          Of{"/v1/caps/node/{name}", put_node, lift_node}}) {
        routes.push_back({.method = net::Method::put,
                          .path = of.path,
                          .needs = Access::operate,
                          .summary = "Set a cap; lowering it does not stop live runs",
                          .handler = of.put,
                          .body = schema_of<CapBody>,
                          .example = R"({"max_live": 8})",
                          .answer = schema_of<CapView>});
        routes.push_back({.method = net::Method::delete_,
                          .path = of.path,
                          .needs = Access::operate,
                          .summary = "Remove a cap",
                          .handler = of.lift,
                          .status = 204});
    }
    return routes;
}

}  // namespace interlock::api
