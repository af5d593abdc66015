// Sessions and messages as clients see them, and how they are read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/wire.h"
#include "core/rows.h"
#include "store/store.h"

namespace interlock::api {

struct SessionView {
    core::SessionId id;
    std::string agent;
    std::string title;
    JsonText metadata;
    Instant created_at;
    core::SessionId parent;
    std::int64_t first_seq = 0;
    std::int64_t next_seq = 0;
    std::int64_t messages = 0;
    bool closed = false;
    std::int64_t input_tokens = 0;
    std::int64_t output_tokens = 0;
    Money spent;
    std::int64_t events = 0;
};
BOOST_DESCRIBE_STRUCT(SessionView, (),
                      (id, agent, title, metadata, created_at, parent, first_seq, next_seq, messages, closed,
                       input_tokens, output_tokens, spent, events))
SessionView session_view_of(const core::Session& session);

struct MessageView {
    std::int64_t seq = 0;
    core::MessageId id;
    core::SessionId session;
    core::Role role = core::Role::user;
    std::string content;
    JsonText metadata;
    Instant at;
    std::int64_t input_tokens = 0;
    std::int64_t output_tokens = 0;
    core::RunId run;
};
BOOST_DESCRIBE_STRUCT(MessageView, (),
                      (seq, id, session, role, content, metadata, at, input_tokens, output_tokens, run))

// The messages after `after`, the shared ones of a fork's forebears included, in order, at most `limit`. Stops early
// rather than read more than `read_bytes_max` characters of contents, but gives one message at least.
constexpr std::int64_t read_bytes_max = 16 << 20;
Result<std::vector<MessageView>, store::ReadError> read_messages(store::Snapshot& snapshot, core::OrgId org,
                                                                 const core::Session& session, std::int64_t after,
                                                                 std::int64_t limit);

}  // namespace interlock::api
