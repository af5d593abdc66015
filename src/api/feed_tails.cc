#include "api/feed_tails.h"

#include <mutex>

namespace interlock::api {

FeedTail& FeedTails::of(core::OrgId org) {
    {
        const std::shared_lock lock(mutex_);
        if (const auto found = tails_.find(org); found != tails_.end()) return *found->second;
    }
    const std::unique_lock lock(mutex_);
    auto& tail = tails_[org];
    if (!tail) tail = std::make_unique<FeedTail>(org, reads_);
    return *tail;
}

void FeedTails::committed(std::optional<core::OrgId> org) {
    const std::shared_lock lock(mutex_);
    for (const auto& [its, tail] : tails_) {
        if (!org || *org == its) tail->committed();
    }
}

}  // namespace interlock::api
