// How much of the memory for bodies each owner of requests has, so that none takes all of it.
//
// For all threads of a server.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "base/by_text.h"

namespace interlock::net {

class BodyShares {
 public:
    struct Share {
        std::atomic<std::size_t> bytes = 0;
    };
    // The one of this owner, for as long as a request keeps it.
    std::shared_ptr<Share> of(const std::string& owner) {
        const std::lock_guard lock(mutex_);
        if (shares_.size() >= forget_at_) {
            std::erase_if(shares_, [](const auto& named) { return named.second.expired(); });
            forget_at_ = std::max<std::size_t>(forget_at_min, shares_.size() * 2);
        }
        std::weak_ptr<Share>& known = shares_[owner];
        auto share = known.lock();
        if (!share) known = share = std::make_shared<Share>();
        return share;
    }

 private:
    static constexpr std::size_t forget_at_min = 256;

    std::mutex mutex_;
    ByText<std::weak_ptr<Share>> shares_;
    std::size_t forget_at_ = forget_at_min;
};

}  // namespace interlock::net
