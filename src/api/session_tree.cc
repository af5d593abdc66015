// The family of a session: the one that all were forked from, and its forks, and theirs.
#include "api/route.h"
#include "api/session_view.h"
#include "api/sessions.h"
#include "store/read_rows.h"
#include "store/read_value.h"

namespace interlock::api {
namespace {

constexpr std::int64_t family_max = 500;

struct MemberView {
    core::SessionId id;
    core::SessionId parent;
    std::string agent;
    std::string title;
    std::int64_t first_seq = 0;
    std::int64_t next_seq = 0;
    bool closed = false;
    Instant created_at;
};
BOOST_DESCRIBE_STRUCT(MemberView, (), (id, parent, agent, title, first_seq, next_seq, closed, created_at))

struct SessionTree {
    core::SessionId root;
    std::vector<MemberView> items;
    bool more = false;  // The family is larger than what is shown.
};
BOOST_DESCRIBE_STRUCT(SessionTree, (), (root, items, more))

constexpr std::string_view find_root =
    "with recursive forebears(id, parent) as (select id, parent from sessions where org = $1 and id = $2 union all "
    "select older.id, older.parent from sessions older join forebears on older.id = forebears.parent "
    "where older.org = $1) select id from forebears where parent is null";

// Those next to the root come first, and so are there when not all can be.
constexpr std::string_view of_family =
    "and id in (with recursive family(id) as (select id from sessions where org = $1 and id = $2 union all "
    "select fork.id from sessions fork join family on fork.parent = family.id where fork.org = $1) "
    "select id from family limit $3) order by id";

Result<SessionTree, store::ReadError> read_tree(store::Snapshot& snapshot, const Principal& caller,
                                                core::SessionId id) {
    SessionTree tree{.root = id, .items = {}};
    if (!caller.run.value.empty()) {
        tree.root = caller.session;  // What is above it is not the run's.
    } else {
        bool good = true;
        const auto found = snapshot.query(
            find_root, {std::int64_t{caller.org.value}, id.value},
            [&](const std::vector<store::Value>& row) { good = store::read_value(row.front(), tree.root); });
        if (!found) return fail(found.error());
        if (!good) return fail(store::ReadError{"a session has an id that makes no sense"});
    }
    const auto sessions =
        store::read_rows<core::Session>(snapshot, caller.org, of_family, {tree.root.value, family_max + 1});
    if (!sessions) return fail(sessions.error());
    for (const core::Session& session : *sessions) {
        if (!caller.may_see_agent(session.agent)) continue;
        tree.more = std::ssize(tree.items) == family_max;
        if (tree.more) break;
        tree.items.push_back({.id = session.id,
                              .parent = session.parent,
                              .agent = session.agent,
                              .title = session.title,
                              .first_seq = session.first_seq,
                              .next_seq = session.next_seq,
                              .closed = session.closed,
                              .created_at = session.created_at});
    }
    return tree;
}

ResponseTask get_tree(Call& call) {
    const auto session = co_await find_session(call);
    if (!session) co_return respond(call, session.error());
    const Principal caller = call.caller;
    const core::SessionId id = session->id;
    const auto tree = co_await read(call, [=](store::Snapshot& snapshot) { return read_tree(snapshot, caller, id); });
    if (!tree) co_return respond(call, tree.error());
    co_return respond(200, *tree, false);
}

}  // namespace

std::vector<ApiRoute> session_tree_routes() {
    return {{.method = net::Method::get,
             .path = "/v1/sessions/{id}/tree",
             .needs = Access::read,
             .summary = "Show the fork tree of a session",
             .handler = get_tree,
             .narrowest = Bound::run,
             .answer = schema_of<SessionTree>}};
}

}  // namespace interlock::api
