// Orgs: made and listed by those who run the server. What an org has is its own; here is only that it is there.
//
//   (1) No two orgs have one name. Numbers are given in order, and whoever wants the next one has seen the names of all
//       before it: of two who want the same name one finds it taken, at whatever moment they ask.
//   (2) The first key of an org is made once, under a command key that follows from the org. When whoever made the org
//       did not come to that, the next who wants the name a while later gets it.
#include <fmt/format.h>

#include "api/key_ring.h"
#include "api/route.h"
#include "core/check.h"
#include "core/limits.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct OrgBody {
    static constexpr std::array required{"name"};
    std::string name;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(OrgBody, (), (name, key))

struct OrgView {
    std::int64_t number = 0;
    std::string name;
    Instant created_at;
};
BOOST_DESCRIBE_STRUCT(OrgView, (), (number, name, created_at))

// A key that may do everything in its org.
struct OrgKeyView {
    std::string name;  // Of the org.
    std::string key_id;
    std::optional<std::string> key;  // Only the first time.
    bool repeated = false;
};
BOOST_DESCRIBE_STRUCT(OrgKeyView, (), (name, key_id, key, repeated))

OrgView view_of(const OrgFacts& org) { return {std::int64_t{org.number.value}, org.name, org.created_at}; }

net::Task<Result<std::vector<OrgFacts>, Problem>> read_orgs(Call& call) {
    auto orgs = co_await net::run_on(call.parts.workers, [&server = call.parts.operations] { return server.orgs(); });
    if (!orgs) co_return fail(unavailable("the orgs cannot be read: " + orgs.error()));
    co_return std::move(*orgs);
}

const OrgFacts* find_org(const std::vector<OrgFacts>& orgs, std::string_view name) {
    const auto found = std::ranges::find(orgs, name, &OrgFacts::name);
    return found == orgs.end() ? nullptr : &*found;
}

Problem name_taken(std::string_view name) {
    return {.status = 409, .code = "already_exists", .detail = fmt::format("org '{}' already exists", name)};
}

ResponseTask list_orgs(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const auto after = read_count(call, "after", 0, 0, UINT32_MAX);
    if (!after) co_return respond(call, after.error());
    const auto orgs = co_await read_orgs(call);
    if (!orgs) co_return respond(call, orgs.error());
    std::vector<OrgView> views;
    for (const OrgFacts& org : *orgs) {
        if (std::int64_t{org.number.value} > *after) views.push_back(view_of(org));
    }
    co_return respond(
        page_of(std::move(views), *limit, [](const OrgView& view) { return std::to_string(view.number); }));
}

// An admin key of the org. It is in force when this returns.
net::Task<Result<OrgKeyView, Problem>> make_admin_key(Call& call, core::OrgId org, std::string name, Key key,
                                                      std::string note) {
    const NewKey made = make_key();
    const auto answer =
        co_await submit_to(call, org, key, core::CreateKey{made.id, made.hash, {"admin"}, {}, {}, {}, std::move(note)});
    if (!answer) co_return fail(problem_of(answer.error()));
    if (std::holds_alternative<core::NoSuchOrg>(answer->reply)) co_return fail(not_found("org", name));
    if (auto refusal = refusal_of(answer->reply)) co_return fail(std::move(*refusal));
    const std::string id = std::get<core::KeyReply>(answer->reply).id;
    const auto row = co_await read(
        call, [=](store::Snapshot& snapshot) { return store::read_row<core::ApiKey>(snapshot, org, id); });
    if (!row) co_return fail(row.error());
    if (*row) call.parts.keys.put(org, **row);
    const bool repeated = answer->repeated;
    if (!repeated) call.parts.log.info("org_key_made", {{"org", name}, {"key", id}, {"by", call.caller.key_id}});
    co_return OrgKeyView{name, id, repeated ? std::nullopt : std::optional(made.text), repeated};
}

struct OrgLookup {
    core::OrgId org;
    bool by_us = false;      // This request made it, or did so when it was sent before.
    bool abandoned = false;  // Whoever made it has had the time to make its first key as well.
};

// Makes the org, or finds the one of that name.
net::Task<Result<OrgLookup, Problem>> found_org(Call& call, std::string name, Key key) {
    constexpr int tries_max = 20;
    constexpr std::chrono::minutes time_to_finish{1};
    for (int tries = 0; tries < tries_max; ++tries) {
        const auto orgs = co_await read_orgs(call);
        if (!orgs) co_return fail(orgs.error());
        const OrgFacts* there = find_org(*orgs, name);
        if (there == nullptr && orgs->size() >= core::limits::orgs_max) {
            co_return fail(Problem{.status = 409,
                                   .code = "too_many",
                                   .detail = fmt::format("at most {} orgs are allowed", core::limits::orgs_max)});
        }
        const bool abandoned = there != nullptr && call.parts.commands.now() - there->created_at > time_to_finish;
        const core::OrgId org = there != nullptr ? there->number : core::OrgId(orgs->back().number.value + 1);
        const auto answer = co_await submit_to(call, org, key, core::CreateOrg{name});
        if (!answer) co_return fail(problem_of(answer.error()));
        const auto* reply = std::get_if<core::OrgReply>(&answer->reply);
        // Another org has got the number meanwhile.
        if (reply != nullptr && reply->status == core::OrgStatus::name_taken) continue;
        if (auto refusal = refusal_of(answer->reply)) co_return fail(pointed(std::move(*refusal), call.request.body));
        co_return OrgLookup{org, reply->status == core::OrgStatus::created, abandoned};
    }
    co_return fail(unavailable("other orgs were created at the same time; retry with the same key"));
}

ResponseTask create_org(Call& call) {
    const auto body = read_body<OrgBody>(call);
    if (!body) co_return respond(call, body.error());
    // The rules say so too, but a lane would be opened for the org that is not made.
    if (const auto complaint = core::check_name("name", body->name)) {
        co_return respond(call, invalid(*complaint, "/name"));
    }
    const auto key = read_key(call, body->key);
    if (!key) co_return respond(call, key.error());
    const auto found = co_await found_org(call, body->name, *key);
    if (!found) co_return respond(call, found.error());
    const bool may_go_on = found->by_us || (found->abandoned && found->org != call.parts.home);
    if (!may_go_on) co_return respond(call, name_taken(body->name));

    const Key first{core::CommandKey(id_from_hash(fmt::format("the first key of org {}", found->org.value))), ""};
    const auto made = co_await make_admin_key(call, found->org, body->name, first, "created with the org");
    if (!made) co_return respond(call, made.error());
    if (made->repeated && !found->by_us) co_return respond(call, name_taken(body->name));
    const core::OrgId org = found->org;
    co_await net::run_on(call.parts.workers, [&models = call.parts.models, org] { models.settings_changed(org); });
    co_return respond(201, *made, made->repeated);
}

ResponseTask create_org_key(Call& call) {
    const auto body = read_body<OnlyKey>(call);
    if (!body) co_return respond(call, body.error());
    const auto key = read_key(call, body->key);
    if (!key) co_return respond(call, key.error());
    const auto orgs = co_await read_orgs(call);
    if (!orgs) co_return respond(call, orgs.error());
    const OrgFacts* org = find_org(*orgs, call.names[0]);
    if (org == nullptr) co_return respond(call, not_found("org", call.names[0]));
    const auto made = co_await make_admin_key(call, org->number, org->name, *key, "created by the server's org");
    co_return made ? respond(201, *made, made->repeated) : respond(call, made.error());
}

}  // namespace

std::vector<ApiRoute> org_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::get,
         .path = "/v1/orgs",
         .needs = administer,
         .summary = "List orgs",
         .handler = list_orgs,
         .reach = Reach::server,
         .query = {"after", "limit"},
         .answer = page_schema<OrgView>},
        {.method = Method::post,
         .path = "/v1/orgs",
         .needs = administer,
         .summary = "Create an org and its first admin key; only this response has its secret",
         .handler = create_org,
         .reach = Reach::server,
         .body = schema_of<OrgBody>,
         .example = R"({"name": "research"})",
         .answer = schema_of<OrgKeyView>,
         .status = 201},
        {.method = Method::post,
         .path = "/v1/orgs/{name}/keys",
         .needs = administer,
         .summary = "Create another admin key of an org",
         .handler = create_org_key,
         .reach = Reach::server,
         .body = schema_of<OnlyKey>,
         .answer = schema_of<OrgKeyView>,
         .status = 201},
    };
}

}  // namespace interlock::api
