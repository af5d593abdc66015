// The tails of all orgs' feeds, each made when somebody first follows it.
//
//   (1) Whoever follows an org hears of its commits and of no other's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>

#include "api/feed_tail.h"

namespace interlock::api {

class FeedTails {
 public:
    explicit FeedTails(store::ReadPool& reads) : reads_(reads) {}

    FeedTail& of(core::OrgId org);  // As long as this is there.
    // Something was committed; in no org in particular: in any. From any thread, and cheap.
    void committed(std::optional<core::OrgId> org);

 private:
    store::ReadPool& reads_;
    std::shared_mutex mutex_;
    std::map<core::OrgId, std::unique_ptr<FeedTail>> tails_;
};

}  // namespace interlock::api
