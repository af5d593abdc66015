// What other users of this machine may ask for by the Unix socket. A grant is kept as a key without a secret, so it is
// listed with the keys too, and revoked as one. The server's user and root are admins without a grant.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "api/feed_tails.h"
#include "api/key_ring.h"
#include "api/route.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct GrantBody {
    static constexpr std::array required{"scope"};
    std::string scope;
    std::string agent;
    std::string note;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(GrantBody, (), (scope, agent, note, key))

struct GrantView {
    std::int64_t user = 0;
    std::string id;  // Of the key that stands for the grant.
    std::string scope;
    std::optional<std::string> agent;
    std::string note;
    Instant created_at;
};
BOOST_DESCRIBE_STRUCT(GrantView, (), (user, id, scope, agent, note, created_at))

GrantView view_of(const core::ApiKey& grant) {
    return {.user = user_of_grant(grant.id).value_or(0),
            .id = grant.id,
            .scope = grant.scopes.empty() ? "" : grant.scopes.front(),
            .agent = grant.agent.empty() ? std::nullopt : std::optional(grant.agent),
            .note = grant.note,
            .created_at = grant.created_at};
}

Result<std::uint32_t, Problem> read_user(const Call& call) {
    const std::string& text = call.names[0];
    std::uint32_t user = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), user);
    if (error == std::errc() && end == text.data() + text.size() && user != static_cast<std::uint32_t>(-1)) return user;
    return fail(invalid(fmt::format("'{}' is not a user number; 'id -u NAME' prints one", text)));
}

// In force: those of one user, or of all.
net::Task<Result<std::vector<core::ApiKey>, Problem>> read_grants(Call& call, std::optional<std::uint32_t> user) {
    const core::OrgId org = call.caller.org;
    const std::string first = user ? fmt::format("user-{}-", *user) : "user-";
    std::string last = first;
    last.back() = '.';  // What comes after '-'.
    co_return co_await read(call, [=](store::Snapshot& snapshot) {
        return store::read_rows<core::ApiKey>(snapshot, org, "and id > $2 and id < $3 and revoked_at = $4 order by id",
                                              {first, last, micros(far_past)});
    });
}

void revoke(Call& call, const std::string& id) {
    call.parts.keys.revoke(id);
    call.parts.feeds.of(call.caller.org).notifier().notify_all();
    call.parts.log.info("key_revoked", {{"key", id}, {"by", call.caller.key_id}});
}

ResponseTask list_grants(Call& call) {
    const auto grants = co_await read_grants(call, std::nullopt);
    if (!grants) co_return respond(call, grants.error());
    Page<GrantView> page;
    for (const core::ApiKey& grant : *grants) page.items.push_back(view_of(grant));
    co_return respond(page);
}

ResponseTask put_grant(Call& call) {
    const auto user = read_user(call);
    if (!user) co_return respond(call, user.error());
    const auto body = read_body<GrantBody>(call);
    if (!body) co_return respond(call, body.error());
    if (body->scope != "read" && body->scope != "agent" && body->scope != "operator") {
        co_return respond(
            call, invalid(fmt::format("scope is '{}'; it must be read, agent or operator", body->scope), "/scope"));
    }
    if (!body->agent.empty() && body->scope != "agent") {
        co_return respond(call, invalid("agent is only allowed with scope agent", "/agent"));
    }
    if (call.parts.keys.holder_of(local_id(*user))) {
        co_return respond(call, Problem{.status = 409,
                                        .code = "wrong_state",
                                        .detail = fmt::format("user {} is already an admin without a grant", *user)});
    }
    const auto grants = co_await read_grants(call, *user);
    if (!grants) co_return respond(call, grants.error());
    const auto same = std::ranges::find_if(*grants, [&](const core::ApiKey& grant) {
        return grant.scopes == std::vector{body->scope} && grant.agent == body->agent;
    });
    if (same != grants->end()) co_return respond(200, view_of(*same), false);

    // The new grant comes first, so that a narrower or wider one leaves no gap.
    core::CreateKey command{.id = new_grant_id(*user),
                            .hash = make_key().hash,
                            .scopes = {body->scope},
                            .agent = body->agent,
                            .run = {},
                            .budget = {},
                            .note = body->note};
    const auto done = co_await ask(call, std::move(command), body->key);
    if (!done) co_return respond(call, done.error());
    const std::string id = done->as<core::KeyReply>().id;
    const core::OrgId org = call.caller.org;
    const auto made = co_await read(
        call, [=](store::Snapshot& snapshot) { return store::read_row<core::ApiKey>(snapshot, org, id); });
    if (!made) co_return respond(call, made.error());
    if (!*made) co_return respond(call, not_found("grant", id));
    call.parts.keys.put(org, **made);
    call.parts.log.info("user_granted", {{"user", std::int64_t{*user}}, {"scope", body->scope}, {"key", id}});
    for (const core::ApiKey& before : *grants) {
        if (before.id == id) continue;
        const auto revoked = co_await submit(call, Key{core::CommandKey(call.parts.commands.fresh_id()), ""},
                                             core::RevokeKey{before.id});
        if (!revoked) co_return respond(call, problem_of(revoked.error()));
        revoke(call, before.id);
    }
    co_return respond(200, view_of(**made), done->repeated);
}

ResponseTask drop_grant(Call& call) {
    const auto user = read_user(call);
    if (!user) co_return respond(call, user.error());
    const auto grants = co_await read_grants(call, *user);
    if (!grants) co_return respond(call, grants.error());
    if (grants->empty()) co_return respond(call, not_found("user", call.names[0]));
    for (const core::ApiKey& grant : *grants) {
        const auto revoked =
            co_await submit(call, Key{core::CommandKey(call.parts.commands.fresh_id()), ""}, core::RevokeKey{grant.id});
        if (!revoked) co_return respond(call, problem_of(revoked.error()));
        revoke(call, grant.id);
    }
    co_return no_content(false);
}

}  // namespace

std::vector<ApiRoute> user_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::get,
         .path = "/v1/users",
         .needs = administer,
         .summary = "List the grants of other users of this machine",
         .handler = list_grants,
         .reach = Reach::server,
         .answer = page_schema<GrantView>},
        {.method = Method::put,
         .path = "/v1/users/{user}",
         .needs = administer,
         .summary = "Grant a user of this machine access through the Unix socket",
         .handler = put_grant,
         .reach = Reach::server,
         .body = schema_of<GrantBody>,
         .example = R"({"scope": "agent", "agent": "writer", "note": "the night shift"})",
         .answer = schema_of<GrantView>},
        {.method = Method::delete_,
         .path = "/v1/users/{user}",
         .needs = administer,
         .summary = "Revoke the grant of a user immediately",
         .handler = drop_grant,
         .reach = Reach::server,
         .status = 204},
    };
}

}  // namespace interlock::api
