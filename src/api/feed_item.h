// An event of the feed in the words of the API.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/event.h"
#include "core/rows.h"
#include "store/store.h"

namespace interlock::api {

struct FeedItem {
    core::Seq seq;
    std::string type;         // "charged", "run_ended", …
    std::string json;         // {"seq":…,"at":…,"type":…,"data":{…}}
    std::string sse;          // The same as a server-sent event.
    core::SessionId session;  // The one that has new messages, if any.
};

FeedItem feed_item(core::Seq seq, Instant at, const core::Event& event);

// The items after `after`, in order: whole pages until there are `limit` or no more.
Result<std::vector<FeedItem>, store::ReadError> read_feed(store::Snapshot& snapshot, core::OrgId org, core::Seq after,
                                                          std::size_t limit);
Result<core::Seq, store::ReadError> feed_head(store::Snapshot& snapshot, core::OrgId org);

// Every type there is.
const std::vector<std::string>& event_types();

}  // namespace interlock::api
