// Responses that go on: server-sent events, fed from the tail of the feed.
#pragma once

#include <functional>
#include <string>

#include "api/call.h"
#include "api/feed_tails.h"

namespace interlock::api {

// What the client has seen last: Last-Event-ID, or ?after=. Empty: it begins now.
Result<std::optional<std::int64_t>, Problem> read_cursor(const Call& call);

// The number of the feed's last event, now.
net::Task<Result<core::Seq, store::ReadError>> current_head(Parts& parts, core::OrgId org);

// A text/event-stream that `follow` writes until it returns.
net::Response event_stream(std::function<net::Task<void>(net::StreamWriter&)> follow);

// Waits for the bell, for as long as the client is there and its key is in force, and keeps the connection alive
// meanwhile. False: it has gone, or has to.
net::Task<bool> wait_for_news(net::StreamWriter& writer, Parts& parts, const Principal& caller, std::uint64_t seen);

}  // namespace interlock::api
