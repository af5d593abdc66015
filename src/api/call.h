// One request on its way through the API: who calls, what they sent, and the ways to carry it out.
//
//   1. A handler reaches rows only with its caller's org: ask() and read() add it. Only the handler that makes orgs
//      names one: submit_to().
//   2. Every mutation has a key; a repeat gets the first answer and says so.
//
// Handlers are coroutines on the connection's thread. They never block: commands go to the engine, reads to the
// workers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/key_ring.h"
#include "api/parts.h"
#include "api/problem.h"
#include "api/wire.h"
#include "core/command.h"
#include "core/reply.h"
#include "net/http.h"
#include "net/worker_pool.h"
#include "store/read_pool.h"

namespace interlock::api {

struct Call {
    Parts& parts;
    net::Request request;
    std::string request_id;
    Principal caller;
    std::vector<std::string> names;                          // What stands for {…} in the route's path.
    std::vector<std::pair<std::string, std::string>> query;  // Only names the route knows.
    // The body, where a worker has parsed it. parse_body() takes it. Its parts are in `parsed_memory`.
    std::shared_ptr<json::monotonic_resource> parsed_memory = {};
    mutable std::optional<Result<json::value, Problem>> parsed = {};

    std::string_view parameter(std::string_view name) const;  // Empty when it is not there.
    bool is_home() const { return caller.org == parts.home; }
};

using ResponseTask = net::Task<net::Response>;

// ---- what was sent ------------------------------------------------------------------------------------------------

// The body as JSON; an empty one is {}.
Result<json::value, Problem> parse_body(const Call& call);
// Has a worker parse a large body, before a handler asks for it: other requests of the connection's thread go on.
net::Task<void> parse_ahead(Call& call);

// Whatever its case and its parameters.
bool has_media_type(const Call& call, std::string_view type);

template <class Body>
Result<Body, Problem> read_body(const Call& call) {
    const auto parsed = parse_body(call);
    if (!parsed) return fail(parsed.error());
    auto body = from_json<Body>(*parsed);
    if (!body) return fail(invalid(body.error()));
    return std::move(*body);
}

// For requests that need nothing else.
struct OnlyKey {
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(OnlyKey, (), (key))

template <class T>
Result<T, Problem> read_id(std::string_view what, std::string_view text) {
    const auto id = id_from_text(id_prefix<T>, text);
    if (!id || id->empty()) return fail(not_found(what, text));
    return T(*id);
}

// `limit` and numeric `after`, with their bounds.
Result<std::int64_t, Problem> read_count(const Call& call, std::string_view name, std::int64_t otherwise,
                                         std::int64_t min, std::int64_t max);
inline Result<std::int64_t, Problem> read_limit(const Call& call) { return read_count(call, "limit", 100, 1, 1000); }

// An instant, where one is given.
Result<Instant, Problem> read_instant(const Call& call, std::string_view name, Instant otherwise);

// "a,b" → {"a", "b"}; nothing for nothing.
std::vector<std::string> comma_separated(std::string_view text);

// The command's key: the header's, the body's, or a fresh one. Both must agree.
struct Key {
    core::CommandKey key;
    std::string text;
    core::CommandKey former = {};  // Where an older version stored the command.
};
Result<Key, Problem> read_key(const Call& call, const std::optional<std::string>& in_body);
// Keys belong to the caller's agent, so that no agent can use up another's; operators and admins share one space. It
// does not depend on the API key: a retry after it was replaced finds the first answer.
Key key_of(const Principal& caller, std::string text);

// ---- carrying it out ----------------------------------------------------------------------------------------------

// A command that was carried out.
struct DoneCommand {
    core::Reply reply;
    bool repeated = false;  // It was carried out before, and this is its first reply.

    template <class Reply>
    const Reply& as() const {
        return std::get<Reply>(reply);
    }
};

net::Task<engine::SubmitResult> submit(Call& call, Key key, core::CommandBody body);
// The engine hashes what commands say on the thread that submits them: for a large body, a worker's. Or it answers
// busy.
void submit_off_io(Call& call, std::vector<engine::Submission> submissions);
net::Task<engine::SubmitResult> submit_to(Call& call, core::OrgId org, Key key, core::CommandBody body);
// A refusal of the rules points at the member it speaks of, where its sentence begins with one.
Problem pointed(Problem problem, std::string_view body);

// Carries a command out under the key of the header or the body. A refusal comes back as a problem.
net::Task<Result<DoneCommand, Problem>> ask(Call& call, core::CommandBody body,
                                            std::optional<std::string> key_in_body = {});

// Runs `work` on a snapshot of the store, on a worker. What it refers to outlives the wait: the handler's own frame.
net::Task<Result<void, Problem>> read_snapshot(Call& call,
                                               std::function<Result<void, store::ReadError>(store::Snapshot&)> work);

template <class Work, class Value = typename std::invoke_result_t<Work&, store::Snapshot&>::value_type>
net::Task<Result<Value, Problem>> read(Call& call, Work work) {
    // Not in this frame: a connection that ends while it waits is gone before the work is done.
    const auto value = std::make_shared<std::optional<Value>>();
    const auto done = co_await read_snapshot(
        call, [value, work](store::Snapshot& snapshot) mutable -> Result<void, store::ReadError> {
            auto result = work(snapshot);
            if (!result) return fail(std::move(result.error()));
            value->emplace(std::move(*result));
            return {};
        });
    if (!done) co_return fail(done.error());
    co_return std::move(**value);
}

// ---- what is sent back --------------------------------------------------------------------------------------------

net::Response respond(int status, std::string body);
net::Response respond(const Call& call, const Problem& problem);
net::Response no_content(bool repeated);

template <class T>
net::Response respond(int status, const T& value, bool repeated) {
    net::Response response = respond(status, to_json(value));
    if (!repeated) return response;
    response.headers.push_back({"idempotent-replayed", "true"});
    if constexpr (!requires { value.repeated; }) {  // Said in the body of every repeat.
        response.body.pop_back();
        response.body += ",\"repeated\":true}";
    }
    return response;
}

// A list with a cursor for the rest.
template <class T>
struct Page {
    std::vector<T> items;
    std::optional<std::string> next;
};

// From rows of which one more was read than is asked for, so that it is known whether there is a rest.
template <class T, class Cursor>
Page<T> page_of(std::vector<T> items, std::int64_t limit, Cursor cursor) {
    Page<T> page{std::move(items), {}};
    if (static_cast<std::int64_t>(page.items.size()) > limit) {
        page.items.resize(static_cast<std::size_t>(limit));
        page.next = cursor(page.items.back());
    }
    return page;
}

template <class T>
std::string text_of(const Page<T>& page) {
    return "{\"items\":" + to_json(page.items) + ",\"next\":" + to_json(page.next) + "}";
}
template <class T>
net::Response respond(const Page<T>& page) {
    return respond(200, text_of(page));
}

template <class T>
json::value page_schema() {
    return {{"type", "object"},
            {"properties",
             {{"items", {{"type", "array"}, {"items", schema_of<T>()}}}, {"next", {{"type", {"string", "null"}}}}}}};
}

}  // namespace interlock::api
