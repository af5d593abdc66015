// API keys: made, listed, revoked. The secret is shown once and never kept.
#include "api/feed_tails.h"
#include "api/key_ring.h"
#include "api/route.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct KeyBody {
    static constexpr std::array required{"scopes"};
    std::vector<std::string> scopes;
    std::string agent;
    core::RunId run;
    std::string budget;
    std::string note;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(KeyBody, (), (scopes, agent, run, budget, note, key))

struct KeyView {
    std::string id;
    std::vector<std::string> scopes;
    std::optional<std::string> agent;
    core::RunId run;
    std::optional<std::string> budget;
    std::string note;
    Instant created_at;
    Instant revoked_at;
};
BOOST_DESCRIBE_STRUCT(KeyView, (), (id, scopes, agent, run, budget, note, created_at, revoked_at))

struct NewKeyView : KeyView {
    std::optional<std::string> key;  // Only the first time.
    bool repeated = false;
};
BOOST_DESCRIBE_STRUCT(NewKeyView, (KeyView), (key, repeated))

KeyView view_of(const core::ApiKey& key) {
    return {.id = key.id,
            .scopes = key.scopes,
            .agent = key.agent.empty() ? std::nullopt : std::optional(key.agent),
            .run = key.run,
            .budget = key.budget.empty() ? std::nullopt : std::optional(key.budget),
            .note = key.note,
            .created_at = key.created_at,
            .revoked_at = key.revoked_at};
}

net::Task<Result<core::ApiKey, Problem>> find_key(Call& call, std::string id) {
    const core::OrgId org = call.caller.org;
    auto key = co_await read(
        call, [=](store::Snapshot& snapshot) { return store::read_row<core::ApiKey>(snapshot, org, id); });
    if (!key) co_return fail(key.error());
    if (!*key) co_return fail(not_found("key", id));
    co_return std::move(**key);
}

ResponseTask show_key(Call& call, std::string id) {
    const auto key = co_await find_key(call, id);
    co_return key ? respond(200, view_of(*key), false) : respond(call, key.error());
}

ResponseTask get_key(Call& call) { return show_key(call, call.names[0]); }
ResponseTask get_own_key(Call& call) {
    const auto key = co_await find_key(call, call.caller.key_id);
    if (key) co_return respond(200, view_of(*key), false);
    if (call.caller.is_local()) {  // An admin: grants are stored.
        core::ApiKey local;
        local.id = call.caller.key_id;
        local.scopes = {"admin"};
        local.note = "a user of this machine, through the Unix socket";
        co_return respond(200, view_of(local), false);
    }
    // A run's own key is in no store: it is as good as the run.
    if (call.caller.run.value.empty()) co_return respond(call, key.error());
    core::ApiKey own;
    own.id = call.caller.key_id;
    own.scopes = {"agent"};
    own.agent = call.caller.agent;
    own.run = call.caller.run;
    own.note = "expires with its run";
    co_return respond(200, view_of(own), false);
}

ResponseTask list_keys(Call& call) {
    const core::OrgId org = call.caller.org;
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const std::int64_t count = *limit;
    const std::string after(call.parameter("after"));
    const auto keys = co_await read(call, [=](store::Snapshot& snapshot) {
        return store::read_rows<core::ApiKey>(snapshot, org, "and id > $2 order by id limit $3", {after, count + 1});
    });
    if (!keys) co_return respond(call, keys.error());
    std::vector<KeyView> views;
    for (const core::ApiKey& key : *keys) views.push_back(view_of(key));
    co_return respond(page_of(std::move(views), count, [](const KeyView& view) { return view.id; }));
}

ResponseTask create_key(Call& call) {
    const auto body = read_body<KeyBody>(call);
    if (!body) co_return respond(call, body.error());
    if (!body->run.value.empty()) {
        const core::OrgId org = call.caller.org;
        const Id run = body->run.value;
        const auto there = co_await read(
            call, [=](store::Snapshot& snapshot) { return store::read_row<core::Run>(snapshot, org, run); });
        if (!there) co_return respond(call, there.error());
        if (!*there) co_return respond(call, not_found("run", id_text(body->run)));
    }
    const NewKey made = make_key();
    const auto done = co_await ask(
        call, core::CreateKey{made.id, made.hash, body->scopes, body->agent, body->run, body->budget, body->note},
        body->key);
    if (!done) co_return respond(call, done.error());
    const auto key = co_await find_key(call, done->as<core::KeyReply>().id);
    if (!key) co_return respond(call, key.error());
    call.parts.keys.put(call.caller.org, *key);
    call.parts.log.info("key_made", {{"key", key->id}, {"by", call.caller.key_id}});
    NewKeyView view;
    static_cast<KeyView&>(view) = view_of(*key);
    if (!done->repeated) view.key = made.text;
    view.repeated = done->repeated;
    co_return respond(201, view, done->repeated);
}

ResponseTask revoke_key(Call& call) {
    const auto done = co_await ask(call, core::RevokeKey{call.names[0]});
    if (!done) co_return respond(call, done.error());
    // Before the answer: from then on nobody comes in with it, and those who follow something by it are woken to leave.
    call.parts.keys.revoke(call.names[0]);
    call.parts.feeds.of(call.caller.org).notifier().notify_all();
    call.parts.log.info("key_revoked", {{"key", call.names[0]}, {"by", call.caller.key_id}});
    co_return no_content(done->repeated);
}

}  // namespace

std::vector<ApiRoute> key_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::post,
         .path = "/v1/keys",
         .needs = administer,
         .summary = "Create an API key; only this response has its secret",
         .handler = create_key,
         .body = schema_of<KeyBody>,
         .example = R"({"scopes": ["agent"], "note": "for the build machine"})",
         .answer = schema_of<NewKeyView>,
         .status = 201},
        {.method = Method::get,
         .path = "/v1/keys",
         .needs = administer,
         .summary = "List API keys",
         .handler = list_keys,
         .query = {"after", "limit"},
         .answer = page_schema<KeyView>},
        {.method = Method::get,
         .path = "/v1/keys/self",
         .needs = read,
         .summary = "Show the API key of this request",
         .handler = get_own_key,
         .narrowest = Bound::budget,
         .answer = schema_of<KeyView>},
        {.method = Method::get,
         .path = "/v1/keys/{id}",
         .needs = administer,
         .summary = "Show an API key",
         .handler = get_key,
         .answer = schema_of<KeyView>},
        {.method = Method::delete_,
         .path = "/v1/keys/{id}",
         .needs = administer,
         .summary = "Revoke an API key immediately",
         .handler = revoke_key,
         .status = 204},
    };
}

}  // namespace interlock::api
