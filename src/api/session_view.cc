#include "api/session_view.h"

#include <algorithm>

#include "store/read_rows.h"

namespace interlock::api {
namespace {

// One session's own share of the numbers.
struct Stretch {
    core::SessionId session;
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

Result<std::vector<Stretch>, store::ReadError> lineage(store::Snapshot& snapshot, core::OrgId org,
                                                       const core::Session& session) {
    std::vector<Stretch> stretches{{session.id, session.first_seq, session.next_seq}};
    core::SessionId parent = session.parent;
    while (!parent.value.empty()) {
        const auto found = store::read_row<core::Session>(snapshot, org, parent.value);
        if (!found) return fail(found.error());
        if (!*found) return fail(store::ReadError{"a fork's parent is missing"});
        stretches.push_back({parent, (*found)->first_seq, stretches.back().begin});
        parent = (*found)->parent;
    }
    std::ranges::reverse(stretches);
    return stretches;
}

// Up to which of the messages from `from` to before `end` their texts have at most `room` characters; 0: not even one.
Result<std::int64_t, store::ReadError> last_that_fits(store::Snapshot& snapshot, core::OrgId org,
                                                      core::SessionId session, std::int64_t from, std::int64_t end,
                                                      std::int64_t room) {
    return store::read_number(snapshot, org,
                              "select coalesce(max(seq), 0) from (select seq, sum(length(content) + length(metadata)) "
                              "over (order by seq) as characters from messages where org = $1 and session = $2 and "
                              "seq >= $3 and seq < $4) as sums where characters <= $5",
                              {session.value, from, end, room});
}

MessageView view_of(core::Message&& message) {
    return {.seq = message.seq,
            .id = message.id,
            .session = message.session,
            .role = message.role,
            .content = std::move(message.content),
            .metadata = {std::move(message.metadata)},
            .at = message.at,
            .input_tokens = message.input_tokens,
            .output_tokens = message.output_tokens,
            .run = message.run};
}

}  // namespace

SessionView session_view_of(const core::Session& session) {
    return {.id = session.id,
            .agent = session.agent,
            .title = session.title,
            .metadata = {session.metadata},
            .created_at = session.created_at,
            .parent = session.parent,
            .first_seq = session.first_seq,
            .next_seq = session.next_seq,
            .messages = session.next_seq,
            .closed = session.closed,
            .input_tokens = session.input_tokens,
            .output_tokens = session.output_tokens,
            .spent = Money::nanos(session.settled),
            .events = session.events};
}

Result<std::vector<MessageView>, store::ReadError> read_messages(store::Snapshot& snapshot, core::OrgId org,
                                                                 const core::Session& session, std::int64_t after,
                                                                 std::int64_t limit) {
    constexpr std::int64_t rows_at_a_time = 64;
    const auto stretches = lineage(snapshot, org, session);
    if (!stretches) return fail(stretches.error());
    std::vector<MessageView> views;
    std::int64_t room = read_bytes_max;
    for (const Stretch& stretch : *stretches) {
        std::int64_t from = std::max(stretch.begin, after + 1);
        while (from < stretch.end && static_cast<std::int64_t>(views.size()) < limit && room > 0) {
            const std::int64_t most =
                std::min({rows_at_a_time, stretch.end - from, limit - static_cast<std::int64_t>(views.size())});
            const auto last = last_that_fits(snapshot, org, stretch.session, from, from + most, room);
            if (!last) return fail(last.error());
            const std::int64_t end = std::max(*last, from) + 1;  // One message is always given.
            auto rows = store::read_rows<core::Message>(snapshot, org,
                                                        "and session = $2 and seq >= $3 and seq < $4 order by seq",
                                                        {stretch.session.value, from, end});
            if (!rows) return fail(rows.error());
            if (rows->empty()) break;
            for (core::Message& row : *rows) {
                room -= static_cast<std::int64_t>(row.content.size() + row.metadata.size());
                views.push_back(view_of(std::move(row)));
            }
            if (end < from + most) return views;
            from = end;
        }
    }
    return views;
}

}  // namespace interlock::api
