// Sessions: conversations whose messages are numbered 0, 1, 2, … without gap or duplicate.
#include <fmt/format.h>

#include "api/attribution.h"
#include "api/route.h"
#include "api/session_view.h"
#include "api/sessions.h"
#include "store/read_rows.h"
#include "store/read_value.h"

namespace interlock::api {
namespace {

struct SessionBody {
    std::string agent;
    std::string title;
    JsonText metadata;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(SessionBody, (), (agent, title, metadata, key))

struct ForkBody {
    static constexpr std::array required{"at_seq"};
    std::int64_t at_seq = 0;
    std::string title;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(ForkBody, (), (at_seq, title, key))

struct MessageBody {
    static constexpr std::array required{"role", "content"};
    std::string role;
    std::string content;
    JsonText metadata;
    std::int64_t input_tokens = 0;
    std::int64_t output_tokens = 0;
};
BOOST_DESCRIBE_STRUCT(MessageBody, (), (role, content, metadata, input_tokens, output_tokens))

struct OneBody : MessageBody {
    static constexpr std::array required{"role", "content"};
    std::optional<std::string> key;
    std::optional<std::int64_t> expected_seq;
    core::RunId run;
    core::Fence fence;
};
BOOST_DESCRIBE_STRUCT(OneBody, (MessageBody), (key, expected_seq, run, fence))

struct TurnBody {
    static constexpr std::array required{"messages"};
    std::vector<MessageBody> messages;
    std::optional<std::string> key;
    std::optional<std::int64_t> expected_seq;
    core::RunId run;
    core::Fence fence;
};
BOOST_DESCRIBE_STRUCT(TurnBody, (), (messages, key, expected_seq, run, fence))

struct OneAnswer {
    std::int64_t seq = 0;
    core::MessageId id;
    bool repeated = false;
};
BOOST_DESCRIBE_STRUCT(OneAnswer, (), (seq, id, repeated))

struct TurnAnswer {
    std::int64_t first_seq = 0;
    std::int64_t last_seq = 0;
    bool repeated = false;
};
BOOST_DESCRIBE_STRUCT(TurnAnswer, (), (first_seq, last_seq, repeated))

ResponseTask get_session(Call& call) {
    const auto session = co_await find_session(call);
    if (!session) co_return respond(call, session.error());
    co_return respond(200, session_view_of(*session), false);
}

// So many are looked at for one page of a search; the cursor says where the next goes on.
constexpr std::int64_t searched_max = 20'000;

// The ids that begin like this, if it is the beginning of one.
struct IdRange {
    Id first;
    Id last;
};
std::optional<IdRange> ids_from(std::string_view text) {
    constexpr std::size_t length = 4 + 26;
    if (!text.starts_with("ses_") || text.size() > length) return std::nullopt;
    std::string first(text);
    std::string last(text);
    // The first of its characters has three bits.
    if (text.size() == 4) last += '7';
    first.resize(length, '0');
    last.resize(length, 'z');
    const auto from = id_from_text("ses", first);
    const auto to = id_from_text("ses", last);
    if (!from || !to) return std::nullopt;
    return IdRange{*from, *to};
}

// For "like": anything, the text, anything. In small letters as both stores make them, which is those of ASCII.
std::string pattern_of(std::string_view text) {
    std::string pattern = "%";
    for (const char c : text) {
        if (c == '%' || c == '_' || c == '!') pattern += '!';
        pattern += c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    }
    return pattern + '%';
}

struct Search {
    std::string text;
    std::string agent;  // Only its sessions; empty: everybody's.
    Id before;
    std::int64_t limit = 0;
};

Result<Page<SessionView>, store::ReadError> search_sessions(store::Snapshot& snapshot, core::OrgId org,
                                                            const Search& search) {
    const std::string of_agent = search.agent.empty() ? "" : "and agent = $3 ";
    Result<std::vector<core::Session>, store::ReadError> found = std::vector<core::Session>();
    core::SessionId last;  // Of those that are looked at now; none: all that are left are.
    if (const auto range = ids_from(search.text)) {
        found = store::read_rows<core::Session>(
            snapshot, org, "and id < $2 " + of_agent + "and id >= $4 and id <= $5 order by id desc limit $6",
            {search.before, search.agent, range->first, range->last, search.limit + 1});
    } else {
        const auto end = snapshot.query(
            "select id from sessions where org = $1 and id < $2 " + of_agent + "order by id desc limit 1 offset $4",
            {std::int64_t{org.value}, search.before, search.agent, searched_max - 1},
            [&](const std::vector<store::Value>& row) { store::read_value(row.front(), last); });
        if (!end) return fail(end.error());
        // An agent's own are picked from its index first: asked at once, the whole table would be walked for them.
        const std::string within =
            search.agent.empty() ? "and id < $2 and id >= $4 "
                                 : "and id in (select mine.id from sessions mine where mine.org = $1 and mine.id < $2 "
                                   "and mine.agent = $3 order by mine.id desc limit $4) ";
        const store::Parameter until =
            search.agent.empty() ? store::Parameter(last.value) : store::Parameter(searched_max);
        found = store::read_rows<core::Session>(
            snapshot, org,
            within +
                "and (lower(title) like $5 escape '!' or lower(agent) like $5 escape '!') order by id desc limit $6",
            {search.before, search.agent, until, pattern_of(search.text), search.limit + 1});
    }
    if (!found) return fail(found.error());
    std::vector<SessionView> views;
    for (const core::Session& session : *found) views.push_back(session_view_of(session));
    auto page = page_of(std::move(views), search.limit, [](const SessionView& view) { return id_text(view.id); });
    if (!page.next && !last.value.empty()) page.next = id_text(last);
    return page;
}

ResponseTask list_sessions(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    Id before{~0ull, ~0ull};
    if (const auto text = call.parameter("after"); !text.empty()) {
        const auto id = read_id<core::SessionId>("session", text);
        if (!id) co_return respond(call, invalid("after is not a cursor of this list"));
        before = id->value;
    }
    const std::string agent(call.caller.agent.empty() ? call.parameter("agent") : std::string_view(call.caller.agent));
    const core::OrgId org = call.caller.org;
    const std::int64_t count = *limit;
    if (const auto text = call.parameter("q"); !text.empty()) {
        const Search search{std::string(text), agent, before, count};
        const auto page =
            co_await read(call, [=](store::Snapshot& snapshot) { return search_sessions(snapshot, org, search); });
        co_return page ? respond(*page) : respond(call, page.error());
    }
    // Metadata may be large, so a worker writes it out.
    auto text = co_await read(call, [=](store::Snapshot& snapshot) -> Result<std::string, store::ReadError> {
        const auto sessions = store::read_rows<core::Session>(
            snapshot, org,
            std::string("and id < $2 ") + (agent.empty() ? "" : "and agent = $4 ") + "order by id desc limit $3",
            {before, count + 1, agent});
        if (!sessions) return fail(sessions.error());
        std::vector<SessionView> views;
        for (const core::Session& session : *sessions) views.push_back(session_view_of(session));
        return text_of(page_of(std::move(views), count, [](const SessionView& view) { return id_text(view.id); }));
    });
    if (!text) co_return respond(call, text.error());
    co_return respond(200, std::move(*text));
}

ResponseTask create_session(Call& call) {
    auto body = read_body<SessionBody>(call);
    if (!body) co_return respond(call, body.error());
    if (body->agent.empty()) body->agent = call.caller.agent;
    if (!call.caller.may_see_agent(body->agent)) co_return respond(call, not_found("agent", body->agent));
    const auto done = co_await ask(call,
                                   core::CreateSession{core::SessionId(call.parts.commands.fresh_id()), body->agent,
                                                       body->title, body->metadata.text, call.caller.key_id},
                                   body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show_session(call, done->as<core::SessionReply>().session, 201, done->repeated);
}

// A fork hangs on the session that the last shared message belongs to. Where that is older than the run's session, the
// fork would not be one of it, and the run's key could not reach what it made.
net::Task<std::optional<Problem>> check_fork(Call& call, std::int64_t at_seq) {
    if (call.caller.run.value.empty()) co_return std::nullopt;
    const core::OrgId org = call.caller.org;
    const Id id = call.caller.session.value;
    const auto session = co_await read(
        call, [=](store::Snapshot& snapshot) { return store::read_row<core::Session>(snapshot, org, id); });
    if (!session) co_return session.error();
    if (!*session || at_seq < 0 || at_seq >= (*session)->first_seq) co_return std::nullopt;
    co_return Problem{
        .status = 403,
        .code = "forbidden",
        .detail = fmt::format("message {} is older than the run's session, which begins at {}; the key of a "
                              "run can fork only its own session",
                              at_seq, (*session)->first_seq),
        .pointer = "/at_seq"};
}

ResponseTask fork_session(Call& call) {
    const auto from = co_await find_session(call);
    if (!from) co_return respond(call, from.error());
    const auto body = read_body<ForkBody>(call);
    if (!body) co_return respond(call, body.error());
    if (auto problem = co_await check_fork(call, body->at_seq)) co_return respond(call, *problem);
    const auto done =
        co_await ask(call,
                     core::ForkSession{from->id, body->at_seq, core::SessionId(call.parts.commands.fresh_id()),
                                       body->title, call.caller.key_id},
                     body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show_session(call, done->as<core::SessionReply>().session, 201, done->repeated);
}

ResponseTask close_session(Call& call) {
    const auto session = co_await find_session(call);
    if (!session) co_return respond(call, session.error());
    const auto body = read_body<OnlyKey>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask(call, core::CloseSession{session->id}, body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show_session(call, session->id, 200, done->repeated);
}

core::NewMessage new_message(Call& call, const MessageBody& body) {
    return {.id = core::MessageId(call.parts.commands.fresh_id()),
            .role = body.role,
            .content = body.content,
            .metadata = body.metadata.text,
            .input_tokens = body.input_tokens,
            .output_tokens = body.output_tokens};
}

// Keys that are bound to an agent or a run look at the session first; for all others the rules do.
net::Task<Result<core::SessionId, Problem>> reachable_session(Call& call) {
    if (call.caller.agent.empty()) co_return read_id<core::SessionId>("session", call.names[0]);
    const auto session = co_await find_session(call);
    if (!session) co_return fail(session.error());
    co_return session->id;
}

// Whose run the messages are said to come from.
net::Task<std::optional<Problem>> check_run(Call& call, core::RunId run) {
    co_return co_await check_account(call, {.agent = call.caller.agent,
                                            .workflow = {},
                                            .provider = {},
                                            .model = {},
                                            .api_key = {},
                                            .run = run,
                                            .session = {},
                                            .tags = {}});
}

ResponseTask append_turn(Call& call, core::SessionId session, const json::value& parsed) {
    const auto body = from_json<TurnBody>(parsed);
    if (!body) co_return respond(call, invalid(body.error()));
    if (auto problem = co_await check_run(call, body->run)) co_return respond(call, *problem);
    core::Append append{.session = session,
                        .messages = {},
                        .expected_seq = body->expected_seq,
                        .run = body->run.value.empty() ? call.caller.run : body->run,
                        .fence = body->fence};
    for (const MessageBody& message : body->messages) append.messages.push_back(new_message(call, message));
    const auto done = co_await ask(call, std::move(append), body->key);
    if (!done) co_return respond(call, done.error());
    const auto& reply = done->as<core::AppendReply>();
    co_return respond(201, TurnAnswer{reply.first_seq, reply.last_seq, done->repeated}, done->repeated);
}

ResponseTask append_one(Call& call, core::SessionId session, const json::value& parsed) {
    const auto body = from_json<OneBody>(parsed);
    if (!body) co_return respond(call, invalid(body.error()));
    if (auto problem = co_await check_run(call, body->run)) co_return respond(call, *problem);
    core::NewMessage message = new_message(call, *body);
    core::MessageId id = message.id;
    core::Append append{.session = session,
                        .messages = {},
                        .expected_seq = body->expected_seq,
                        .run = body->run.value.empty() ? call.caller.run : body->run,
                        .fence = body->fence};
    append.messages.push_back(std::move(message));
    const auto done = co_await ask(call, std::move(append), body->key);
    if (!done) co_return respond(call, done.error());
    if (done->repeated) {  // The id is the one that was drawn the first time.
        const core::OrgId org = call.caller.org;
        const std::int64_t seq = done->as<core::AppendReply>().first_seq;
        const auto first = co_await read(call, [=](store::Snapshot& snapshot) {
            return store::read_rows<core::Message>(snapshot, org, "and session = $2 and seq = $3",
                                                   {session.value, seq});
        });
        if (!first) co_return respond(call, first.error());
        if (!first->empty()) id = first->front().id;
    }
    co_return respond(201, OneAnswer{done->as<core::AppendReply>().first_seq, id, done->repeated}, done->repeated);
}

ResponseTask append(Call& call) {
    const auto session = co_await reachable_session(call);
    if (!session) co_return respond(call, session.error());
    const auto parsed = parse_body(call);
    if (!parsed) co_return respond(call, parsed.error());
    const bool turn = parsed->is_object() && parsed->get_object().contains("messages");
    co_return co_await (turn ? append_turn(call, *session, *parsed) : append_one(call, *session, *parsed));
}

Result<std::optional<core::Session>, store::ReadError> read_reachable(store::Snapshot& snapshot,
                                                                      const Principal& caller, Id id) {
    auto session = store::read_row<core::Session>(snapshot, caller.org, id);
    if (!session || !*session) return session;
    const auto reachable = may_reach(snapshot, caller, **session);
    if (!reachable) return fail(reachable.error());
    if (!*reachable) session->reset();
    return session;
}

json::value message_or_turn() { return {{"oneOf", {schema_of<OneBody>(), schema_of<TurnBody>()}}}; }
json::value one_or_turn_answer() { return {{"oneOf", {schema_of<OneAnswer>(), schema_of<TurnAnswer>()}}}; }

}  // namespace

Result<bool, store::ReadError> may_reach(store::Snapshot& snapshot, const Principal& caller,
                                         const core::Session& session) {
    if (!caller.may_see_agent(session.agent)) return false;
    if (caller.run.value.empty()) return true;
    if (caller.session.value.empty()) return false;
    // Towards the first of the family. A chain that is longer than this is not a run's work.
    constexpr int steps_max = 1'000;
    core::SessionId id = session.id;
    core::SessionId parent = session.parent;
    for (int steps = 0; id != caller.session; ++steps) {
        if (parent.value.empty() || steps == steps_max) return false;
        const auto row = store::read_row<core::Session>(snapshot, caller.org, parent.value);
        if (!row) return fail(row.error());
        if (!*row) return false;
        id = parent;
        parent = (*row)->parent;
    }
    return true;
}

net::Task<Result<core::Session, Problem>> find_session(Call& call) {
    const auto id = read_id<core::SessionId>("session", call.names[0]);
    if (!id) co_return fail(id.error());
    const Principal caller = call.caller;
    const Id wanted = id->value;
    auto session =
        co_await read(call, [=](store::Snapshot& snapshot) { return read_reachable(snapshot, caller, wanted); });
    if (!session) co_return fail(session.error());
    if (!*session) co_return fail(not_found("session", call.names[0]));
    co_return std::move(**session);
}

ResponseTask show_session(Call& call, core::SessionId id, int status, bool repeated) {
    const core::OrgId org = call.caller.org;
    const auto session = co_await read(
        call, [=](store::Snapshot& snapshot) { return store::read_row<core::Session>(snapshot, org, id.value); });
    if (!session) co_return respond(call, session.error());
    if (!*session) co_return respond(call, not_found("session", id_text(id)));
    co_return respond(status, session_view_of(**session), repeated);
}

std::vector<ApiRoute> session_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::post,
         .path = "/v1/sessions",
         .needs = act,
         .summary = "Create a session",
         .handler = create_session,
         .narrowest = Bound::agent,
         .body = schema_of<SessionBody>,
         .example = R"({"agent": "writer", "title": "Release notes", "metadata": {"issue": 12}})",
         .answer = schema_of<SessionView>,
         .status = 201},
        {.method = Method::get,
         .path = "/v1/sessions",
         .needs = read,
         .summary = "List sessions, newest first; q is part of a title or agent name, or the start of an id",
         .handler = list_sessions,
         .narrowest = Bound::agent,
         .query = {"agent", "q", "after", "limit"},
         .answer = page_schema<SessionView>},
        {.method = Method::get,
         .path = "/v1/sessions/{id}",
         .needs = read,
         .summary = "Show a session",
         .handler = get_session,
         .narrowest = Bound::run,
         .answer = schema_of<SessionView>},
        {.method = Method::post,
         .path = "/v1/sessions/{id}/messages",
         .needs = act,
         .summary = "Append a message or a turn",
         .handler = append,
         .narrowest = Bound::run,
         .body = message_or_turn,
         .example = R"({"role": "user", "content": "Hello", "key": "greeting-1", "expected_seq": 0})",
         .answer = one_or_turn_answer,
         .status = 201},
        {.method = Method::post,
         .path = "/v1/sessions/{id}/fork",
         .needs = act,
         .summary = "Fork a session at a message",
         .handler = fork_session,
         .narrowest = Bound::run,
         .body = schema_of<ForkBody>,
         .example = R"({"at_seq": 0, "title": "Another way"})",
         .answer = schema_of<SessionView>,
         .status = 201},
        {.method = Method::post,
         .path = "/v1/sessions/{id}/close",
         .needs = act,
         .summary = "Close a session",
         .handler = close_session,
         .narrowest = Bound::agent,
         .body = schema_of<OnlyKey>,
         .answer = schema_of<SessionView>},
    };
}

}  // namespace interlock::api
