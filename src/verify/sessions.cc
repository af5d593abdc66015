#include "verify/sessions.h"

#include <fmt/format.h>

#include <unordered_map>

namespace interlock::verify {
namespace {

struct Session {
    Id parent;
    std::int64_t first_seq = 0;
    std::int64_t next_seq = 0;
    std::int64_t input_tokens = 0;
    std::int64_t output_tokens = 0;
    std::int64_t settled = 0;
    std::int64_t events = 0;
    // Of the messages met so far.
    std::int64_t expected_seq = 0;
    Sum input_sum = 0;
    Sum output_sum = 0;
};
using Sessions = std::unordered_map<Id, Session>;

Sessions read_sessions(std::int64_t org, SnapshotReader& reader) {
    Sessions sessions;
    const std::string sql = fmt::format(
        "select id, parent, first_seq, next_seq, input_tokens, output_tokens, settled, events from sessions where org "
        "= {}",
        org);
    reader.each("sessions", sql, [&](ColumnReader row) {
        Session& session = sessions[row.id()];
        session.parent = row.id();
        session.first_seq = session.expected_seq = row.integer();
        session.next_seq = row.integer();
        session.input_tokens = row.integer();
        session.output_tokens = row.integer();
        session.settled = row.integer();
        session.events = row.integer();
    });
    return sessions;
}

void read_messages(std::int64_t org, SnapshotReader& reader, Findings& findings, Sessions& sessions) {
    const std::string sql = fmt::format(
        "select session, seq, input_tokens, output_tokens from messages where org = {} order by session, seq", org);
    reader.each("messages", sql, [&](ColumnReader row) {
        const Id id = row.id();
        const std::int64_t seq = row.integer();
        findings.checked(Promise::one_order);
        const auto violated = [&](std::string what) {
            findings.violated(Promise::one_order, row_of("messages", org, {{"session", stored(id)}, {"seq", seq}}),
                              std::move(what));
        };
        const auto found = sessions.find(id);
        if (found == sessions.end()) return violated("there is no such session");

        Session& session = found->second;
        if (seq != session.expected_seq)
            violated(fmt::format("the message before it is missing; expected number {}", session.expected_seq));
        session.expected_seq = seq < INT64_MAX ? seq + 1 : seq;
        session.input_sum += row.integer();
        session.output_sum += row.integer();
    });
}

void check_session(std::int64_t org, Findings& findings, const Sessions& sessions, const LedgerCheck& ledger, Id id,
                   const Session& session) {
    const store::RowName name = row_of("sessions", org, {{"id", stored(id)}});
    const auto violated = [&](std::string what) { findings.violated(Promise::one_order, name, std::move(what)); };
    if (session.expected_seq != session.next_seq) {
        violated(fmt::format("next_seq is {}, its messages end before {}", session.next_seq, session.expected_seq));
    }
    if (session.parent.empty()) {
        if (session.first_seq != 0) violated(fmt::format("first_seq is {}, and it has no parent", session.first_seq));
    } else if (const auto parent = sessions.find(session.parent); parent == sessions.end()) {
        violated("its parent is not there");
    } else if (session.first_seq < 0 || session.first_seq > parent->second.next_seq) {
        violated(fmt::format("first_seq is {}, its parent has messages before {} only", session.first_seq,
                             parent->second.next_seq));
    }
    findings.counters(Promise::one_order, name,
                      {{"input_tokens", session.input_tokens, session.input_sum},
                       {"output_tokens", session.output_tokens, session.output_sum}},
                      "its messages");
    const SessionSums sums = ledger.of_session(id);
    findings.counters(Promise::exact_ledger, name,
                      {{"settled", session.settled, sums.cost}, {"events", session.events, sums.events}},
                      "its cost events");
}

}  // namespace

void check_sessions(std::int64_t org, SnapshotReader& reader, Findings& findings, const LedgerCheck& ledger) {
    Sessions sessions = read_sessions(org, reader);
    read_messages(org, reader, findings, sessions);
    if (reader.error()) return;
    for (const auto& [id, session] : sessions) check_session(org, findings, sessions, ledger, id, session);
}

}  // namespace interlock::verify
