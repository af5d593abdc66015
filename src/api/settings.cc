// What is set for the gateway and for runs: upstreams, rate limits, secrets, and the documents of which there is one.
//
// A document is checked by the part that reads it (Models::check_setting); here it is only stored, shown and dropped.
// Its members are the answer's members, beside the setting's own name, version and time.
#include <array>
#include <span>

#include <fmt/format.h>

#include "api/secret_hosts.h"
#include "api/settings.h"
#include "core/check.h"
#include "core/limits.h"
#include "core/settings.h"
#include "net/body_reads.h"

namespace interlock::api {
namespace {

// How people call a kind.
struct SettingKind {
    std::string_view kind;
    std::string_view noun;
};
constexpr SettingKind upstreams{core::upstream_setting, "upstream"};
constexpr SettingKind rate_limits{core::rate_limit_setting, "rate limit"};
constexpr SettingKind secrets{core::secret_setting, "secret"};

// What only an admin changes, and why. The rest of the document is an operator's, who sends these members back as they
// are.
struct ForAdmins {
    const char* member;
    const char* why;
};
// A document of which an org has one.
struct Single {
    std::string_view kind;
    std::span<const ForAdmins> for_admins;
};
constexpr std::array gateway_for_admins{
    ForAdmins{"otlp", "it says where data of calls goes"},
    ForAdmins{"private_orgs", "it decides what other orgs can reach"},
    ForAdmins{"unbounded_cost", "it lets calls cost more than is held under a hard budget"},
    ForAdmins{"unknown_model", "it lets calls pass a hard budget without a price"},
};
constexpr std::array sandbox_for_admins{ForAdmins{"private_hosts", "it opens this machine's network"}};
constexpr Single gateway_document{core::gateway_setting, gateway_for_admins};
constexpr Single sandbox_document{core::sandbox_setting, sandbox_for_admins};

struct SecretBody {
    static constexpr std::array required{"value"};
    std::string value;
    std::optional<std::vector<std::string>> hosts;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(SecretBody, (), (value, hosts, key))

struct SecretView {
    std::string name;
    std::vector<std::string> hosts;  // That it may be sent to; empty until its first use binds it.
    std::int64_t version = 0;
    Instant changed_at;
};
BOOST_DESCRIBE_STRUCT(SecretView, (), (name, hosts, version, changed_at))

std::string shown(const core::Setting& setting) {
    return fmt::format(R"({{"name":{},{}{}"version":{},"changed_at":{}}})", to_json(setting.name),
                       std::string_view(setting.document).substr(1, setting.document.size() - 2),
                       setting.document.size() > 2 ? "," : "", setting.version, to_json(setting.changed_at));
}

// What documents are made of, for openapi.json only: what is right and wrong is not decided here.
struct Member {
    const char* name;
    const char* type;
};
constexpr std::array upstream_members{
    Member{"dialect", "string"},
    Member{"url", "string"},
    Member{"provider", "string"},
    Member{"key", "object"},
    Member{"models", "array"},
    Member{"strip_prefix", "string"},
    Member{"limit_name", "string"},
    Member{"priority", "integer"},
    Member{"weight", "integer"},
    Member{"connect_timeout_ms", "integer"},
    Member{"first_byte_timeout_ms", "integer"},
    Member{"silence_timeout_ms", "integer"},
    Member{"total_timeout_ms", "integer"},
    Member{"retries", "integer"},
    Member{"backoff_ms", "integer"},
    Member{"cooldown_after", "integer"},
    Member{"cooldown_s", "integer"},
    Member{"ca_file", "string"},
    Member{"headers", "object"},
    Member{"pass_headers", "array"},
    Member{"insecure", "boolean"},
    Member{"enabled", "boolean"},
};
constexpr std::array rate_limit_members{Member{"match", "object"}, Member{"requests_per_minute", "integer"},
                                        Member{"tokens_per_minute", "integer"}};
constexpr std::array gateway_members{
    Member{"unknown_model", "string"},
    Member{"assume_price", "string"},
    Member{"floor_tokens", "integer"},
    Member{"share_percent", "integer"},
    Member{"wait_s", "integer"},
    Member{"default_output_tokens", "integer"},
    Member{"drain_s", "integer"},
    Member{"drain_bytes", "integer"},
    Member{"hold_lease_s", "integer"},
    Member{"unbounded_cost", "string"},
    Member{"tool_rounds_max", "integer"},
    Member{"hidden_input_tokens", "integer"},
    Member{"image_tokens_max", "integer"},
    Member{"file_tokens_max", "integer"},
    Member{"cache_ttl_s", "integer"},
    Member{"cache_keys", "array"},
    Member{"otlp", "object"},
    Member{"private_orgs", "array"},
};
constexpr std::array sandbox_members{Member{"default", "string"}, Member{"minimum", "string"},
                                     Member{"private_hosts", "array"}};

template <const auto& members>
json::value document_schema() {
    json::object properties;
    for (const Member& member : members) {
        json::object schema{{"type", member.type}};
        if (schema["type"] == "array") schema["items"] = {{"type", "string"}};
        properties[member.name] = std::move(schema);
    }
    return {{"type", "object"}, {"properties", std::move(properties)}};
}

template <const auto& members>
json::value shown_schema() {
    json::value schema = document_schema<members>();
    json::object& properties = schema.at("properties").as_object();
    properties["name"] = schema_of<std::string>();
    properties["version"] = schema_of<std::int64_t>();
    properties["changed_at"] = schema_of<Instant>();
    return schema;
}

template <const auto& members>
json::value list_schema() {
    return {{"type", "object"},
            {"properties",
             {{"items", {{"type", "array"}, {"items", shown_schema<members>()}}},
              {"next", {{"type", {"string", "null"}}}}}}};
}

template <const SettingKind& kind>
ResponseTask list(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const core::OrgId org = call.caller.org;
    const std::string after(call.parameter("after"));
    const std::int64_t count = *limit;
    auto settings = co_await read(call, [=](store::Snapshot& snapshot) {
        return store::read_rows<core::Setting>(snapshot, org,
                                               "and kind = $2 and name > $3 and dropped = 0 order by name limit $4",
                                               {std::string(kind.kind), after, count + 1});
    });
    if (!settings) co_return respond(call, settings.error());
    const auto page = page_of(std::move(*settings), count, [](const core::Setting& setting) { return setting.name; });
    std::string out = "{\"items\":[";
    for (const core::Setting& setting : page.items) out += (out.back() == '[' ? "" : ",") + shown(setting);
    co_return respond(200, out + "],\"next\":" + to_json(page.next) + "}");
}

ResponseTask show_setting(Call& call, SettingKind kind, std::string name, bool repeated) {
    const auto setting = co_await find_setting(call, kind.kind, name);
    if (!setting) co_return respond(call, setting.error());
    if (!*setting) co_return respond(call, not_found(kind.noun, name));
    co_return respond_object(shown(**setting), repeated);
}

template <const SettingKind& kind>
ResponseTask get(Call& call) {
    return show_setting(call, kind, call.names[0], false);
}

// The body without what shown() adds, so that what was read can be changed and sent back.
Result<std::string, Problem> read_document(const Call& call) {
    auto parsed = parse_body(call);
    if (!parsed) return fail(parsed.error());
    if (auto problem = too_large_for_setting(call)) return fail(std::move(*problem));
    if (parsed->is_object()) {
        for (const char* name : {"name", "version", "changed_at", "repeated"}) parsed->get_object().erase(name);
    }
    return json::serialize(*parsed);
}

template <const SettingKind& kind>
ResponseTask put(Call& call) {
    const std::string name = call.names[0];
    if (const auto complaint = core::check_name("the name", name)) co_return respond(call, invalid(*complaint));
    auto document = read_document(call);
    if (!document) co_return respond(call, document.error());
    const auto done = co_await put_setting(call, kind.kind, name, std::move(*document));
    if (!done) co_return respond(call, done.error());
    co_return co_await show_setting(call, kind, name, done->repeated);
}

net::Task<Result<std::vector<core::Setting>, Problem>> read_bindings(Call& call) {
    const core::OrgId org = call.caller.org;
    co_return co_await read(call, [=](store::Snapshot& snapshot) {
        return store::read_rows<core::Setting>(snapshot, org, "and kind = $2 and dropped = 0",
                                               {std::string(core::secret_hosts_setting)});
    });
}

SecretView view_of(const core::Setting& secret, const std::vector<core::Setting>& bindings) {
    return {secret.name, hosts_of(secret, bindings), secret.version, secret.changed_at};
}

ResponseTask list_secrets(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const core::OrgId org = call.caller.org;
    const std::string after(call.parameter("after"));
    const std::int64_t count = *limit;
    const auto rows = co_await read(call, [=](store::Snapshot& snapshot) {
        return store::read_rows<core::Setting>(snapshot, org,
                                               "and kind = $2 and name > $3 and dropped = 0 order by name limit $4",
                                               {std::string(core::secret_setting), after, count + 1});
    });
    if (!rows) co_return respond(call, rows.error());
    const auto bindings = co_await read_bindings(call);
    if (!bindings) co_return respond(call, bindings.error());
    std::vector<SecretView> views;
    for (const core::Setting& row : *rows) views.push_back(view_of(row, *bindings));
    co_return respond(page_of(std::move(views), count, [](const SecretView& view) { return view.name; }));
}

ResponseTask show_secret(Call& call, std::string name, bool repeated) {
    const auto secret = co_await find_setting(call, core::secret_setting, name);
    if (!secret) co_return respond(call, secret.error());
    if (!*secret) co_return respond(call, not_found(secrets.noun, name));
    const auto bindings = co_await read_bindings(call);
    if (!bindings) co_return respond(call, bindings.error());
    co_return respond_object(to_json(view_of(**secret, *bindings)), repeated);
}

ResponseTask put_secret(Call& call) {
    const std::string name = call.names[0];
    if (const auto complaint = core::check_name("the name", name)) co_return respond(call, invalid(*complaint));
    const auto body = read_body<SecretBody>(call);
    if (!body) co_return respond(call, body.error());
    if (auto problem = too_large_for_setting(call)) co_return respond(call, *problem);
    if (body->value.empty()) co_return respond(call, invalid("value must not be empty", "/value"));
    const auto done =
        co_await put_setting(call, secrets.kind, name, to_text(SecretToSet{body->value, body->hosts}), body->key);
    if (!done) co_return respond(call, done.error());
    call.parts.log.info("secret_set", {{"secret", name}, {"by", call.caller.key_id}});
    co_return co_await show_secret(call, name, done->repeated);
}

template <const SettingKind& kind>
ResponseTask drop(Call& call) {
    const auto done = co_await change_setting(call, core::DropSetting{std::string(kind.kind), call.names[0]}, {});
    co_return done ? no_content(done->repeated) : respond(call, done.error());
}

ResponseTask show_single(Call& call, Single single, bool repeated) {
    const std::string name(core::single_setting_name);
    auto setting = co_await find_setting(call, single.kind, name);
    if (!setting) co_return respond(call, setting.error());
    if (!*setting) {
        // What holds when nobody has set anything.
        auto defaults = co_await checked(call, single.kind, name, "{}");
        if (!defaults) co_return respond(call, defaults.error());
        setting->emplace();
        (*setting)->name = name;
        (*setting)->document = std::move(*defaults);
        (*setting)->changed_at = far_past;
    }
    co_return respond_object(shown(**setting), repeated);
}

template <const Single& single>
ResponseTask get_single(Call& call) {
    return show_single(call, single, false);
}

const ForAdmins* changed_for_admins(const Single& single, json::object before, const json::object& after) {
    const auto changed = [&](const ForAdmins& each) { return before[each.member] != after.at(each.member); };
    const auto found = std::ranges::find_if(single.for_admins, changed);
    return found == single.for_admins.end() ? nullptr : &*found;
}

// What was stored, with the defaults of members that its version did not have.
json::object with_defaults(json::object defaults, const json::object& stored) {
    for (const auto& [name, value] : stored) {
        json::value& member = defaults[name];
        if (member.is_object() && value.is_object()) {
            member = with_defaults(member.get_object(), value.get_object());
        } else {
            member = value;
        }
    }
    return defaults;
}

template <const Single& single>
ResponseTask put_single(Call& call) {
    const std::string name(core::single_setting_name);
    auto document = read_document(call);
    if (!document) co_return respond(call, document.error());
    const auto canonical = co_await checked(call, single.kind, name, *document);
    if (!canonical) co_return respond(call, canonical.error());
    if (!call.caller.may(Access::administer)) {
        const auto stored = co_await find_setting(call, single.kind, name);
        if (!stored) co_return respond(call, stored.error());
        const auto defaults = co_await checked(call, single.kind, name, "{}");
        if (!defaults) co_return respond(call, defaults.error());
        json::object before = json::parse(*defaults).as_object();
        if (*stored) before = with_defaults(std::move(before), json::parse((*stored)->document).as_object());
        if (const auto* changed = changed_for_admins(single, std::move(before), json::parse(*canonical).as_object())) {
            co_return respond(
                call, Problem{.status = 403,
                              .code = "forbidden",
                              .detail = fmt::format("{} needs an admin key, because {}; send it unchanged, as it "
                                                    "was",
                                                    changed->member, changed->why),
                              .pointer = fmt::format("/{}", changed->member)});
        }
    }
    const auto done = co_await put_setting(call, single.kind, name, std::move(*document));
    if (!done) co_return respond(call, done.error());
    co_return co_await show_single(call, single, done->repeated);
}

}  // namespace

std::optional<Problem> too_large_for_setting(const Call& call) {
    if (call.request.body.size() <= net::read_on_io_bytes_max) return std::nullopt;
    return invalid(fmt::format("a setting may have at most {} bytes", core::limits::setting_bytes_max));
}

net::Task<Result<std::string, Problem>> checked(Call& call, std::string_view kind, std::string name,
                                                std::string document) {
    const core::OrgId org = call.caller.org;
    auto canonical = co_await net::run_on(call.parts.workers, [&models = call.parts.models, org, kind, name, document] {
        return models.check_setting(org, kind, name, document);
    });
    if (!canonical) co_return fail(invalid(canonical.error()));
    co_return std::move(*canonical);
}

net::Response respond_object(std::string object, bool repeated) {
    if (!repeated) return respond(200, std::move(object));
    object.pop_back();
    net::Response response = respond(200, object + ",\"repeated\":true}");
    response.headers.push_back({"idempotent-replayed", "true"});
    return response;
}

// Whoever sets something finds it in force when the answer is there.
net::Task<Result<DoneCommand, Problem>> change_setting(Call& call, core::CommandBody body,
                                                       std::optional<std::string> key_in_body) {
    auto done = co_await ask(call, std::move(body), std::move(key_in_body));
    if (!done) co_return done;
    const core::OrgId org = call.caller.org;
    co_await net::run_on(call.parts.workers, [&models = call.parts.models, org] { models.settings_changed(org); });
    co_return done;
}

net::Task<Result<DoneCommand, Problem>> put_setting(Call& call, std::string_view kind, std::string name,
                                                    std::string document, std::optional<std::string> key_in_body) {
    auto canonical = co_await checked(call, kind, name, std::move(document));
    if (!canonical) co_return fail(canonical.error());
    co_return co_await change_setting(call, core::PutSetting{std::string(kind), std::move(name), std::move(*canonical)},
                                      std::move(key_in_body));
}

net::Task<Result<std::optional<core::Setting>, Problem>> find_setting(Call& call, std::string_view kind,
                                                                      std::string name) {
    const core::OrgId org = call.caller.org;
    auto found = co_await read(call, [=](store::Snapshot& snapshot) {
        return store::first_of(store::read_rows<core::Setting>(
            snapshot, org, "and kind = $2 and name = $3 and dropped = 0", {std::string(kind), name}));
    });
    if (!found) co_return fail(found.error());
    co_return std::move(*found);
}

std::vector<ApiRoute> setting_routes() {
    using net::Method;
    struct Of {
        std::string_view list_path;
        std::string_view path;
        Access needs;
        Access to_read;
        std::string_view list_summary;
        std::string_view put_summary;
        ResponseTask (*list)(Call&);
        ResponseTask (*get)(Call&);  // Null for what is never shown.
        ResponseTask (*put)(Call&);
        ResponseTask (*drop)(Call&);
        SchemaMaker body;
        SchemaMaker answer;
        SchemaMaker answers;
        std::string_view example;
    };
    std::vector<ApiRoute> routes;
    for (const Of& of :
         {Of{"/v1/upstreams", "/v1/upstreams/{name}", Access::administer, Access::read, "List where calls to models go",
             "Set an upstream; omitted members get their defaults", list<upstreams>, get<upstreams>, put<upstreams>,
             drop<upstreams>, document_schema<upstream_members>, shown_schema<upstream_members>,
             list_schema<upstream_members>,
             R"({"dialect": "anthropic", "key": {"secret": "anthropic"}, "models": ["claude-*"]})"},
          Of{"/v1/rate-limits", "/v1/rate-limits/{name}", Access::operate, Access::read, "List rate limits",
             "Set a rate limit", list<rate_limits>, get<rate_limits>, put<rate_limits>, drop<rate_limits>,
             document_schema<rate_limit_members>, shown_schema<rate_limit_members>, list_schema<rate_limit_members>,
             R"({"match": {"agent": "writer"}, "requests_per_minute": 60, "tokens_per_minute": 100000})"},
          Of{"/v1/secrets", "/v1/secrets/{name}", Access::administer, Access::administer,
             "List secrets without their values", "Set a secret; it is stored encrypted", list_secrets, nullptr,
             put_secret, drop<secrets>, schema_of<SecretBody>, schema_of<SecretView>, page_schema<SecretView>,
             R"({"value": "sk-ant-api03", "hosts": ["api.anthropic.com"]})"}}) {
        routes.push_back({.method = Method::get,
                          .path = of.list_path,
                          .needs = of.to_read,
                          .summary = of.list_summary,
                          .handler = of.list,
                          .query = {"after", "limit"},
                          .answer = of.answers});
        if (of.get != nullptr) {
            routes.push_back({.method = Method::get,
                              .path = of.path,
                              .needs = of.to_read,
                              .summary = "Show one",
                              .handler = of.get,
                              .answer = of.answer});
        }
        routes.push_back({.method = Method::put,
                          .path = of.path,
                          .needs = of.needs,
                          .summary = of.put_summary,
                          .handler = of.put,
                          .body = of.body,
                          .example = of.example,
                          .answer = of.answer});
        routes.push_back({.method = Method::delete_,
                          .path = of.path,
                          .needs = of.needs,
                          .summary = "Remove one",
                          .handler = of.drop,
                          .status = 204});
    }
    routes.push_back({.method = Method::get,
                      .path = "/v1/gateway",
                      .needs = Access::read,
                      .summary = "Show the settings of the gateway",
                      .handler = get_single<gateway_document>,
                      .answer = shown_schema<gateway_members>});
    routes.push_back({.method = Method::put,
                      .path = "/v1/gateway",
                      .needs = Access::operate,
                      .summary = "Set the settings of the gateway; omitted members get their defaults",
                      .handler = put_single<gateway_document>,
                      .body = document_schema<gateway_members>,
                      .example = R"({"unknown_model": "deny", "wait_s": 15})",
                      .answer = shown_schema<gateway_members>});
    routes.push_back({.method = Method::get,
                      .path = "/v1/sandbox",
                      .needs = Access::read,
                      .summary = "Show the sandbox levels of runs",
                      .handler = get_single<sandbox_document>,
                      .reach = Reach::server,
                      .answer = shown_schema<sandbox_members>});
    routes.push_back({.method = Method::put,
                      .path = "/v1/sandbox",
                      .needs = Access::operate,
                      .summary = "Set the sandbox levels of runs; omitted members get their defaults",
                      .handler = put_single<sandbox_document>,
                      .reach = Reach::server,
                      .body = document_schema<sandbox_members>,
                      .example = R"({"default": "files", "minimum": "guarded"})",
                      .answer = shown_schema<sandbox_members>});
    return routes;
}

}  // namespace interlock::api
