// Snapshots to share: each is used by one reader at a time and renewed between two.
//
//   (1) A reader sees every commit that succeeded before it began.
//   (2) A snapshot that waits here holds no lock, so it holds back no checkpoint.
//   (3) At most `idle_max` wait; readers beyond that open one of their own and close it again.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "store/store.h"

namespace interlock::store {

class ReadPool {
 public:
    static constexpr std::size_t idle_max = 8;

    explicit ReadPool(Store& store) : store_(store) {}

    // Runs `read`, which returns a Result<…, ReadError>, on a snapshot of now. From any thread.
    template <class Read>
    auto with(Read read) -> decltype(read(std::declval<Snapshot&>())) {
        auto snapshot = take();
        if (!snapshot) return fail(snapshot.error());
        auto result = read(**snapshot);
        if (result && (*snapshot)->renew()) give_back(std::move(*snapshot));
        return result;
    }

 private:
    Result<std::unique_ptr<Snapshot>, ReadError> take() {
        {
            const std::lock_guard lock(mutex_);
            if (!idle_.empty()) {
                auto snapshot = std::move(idle_.back());
                idle_.pop_back();
                return snapshot;
            }
        }
        return store_.snapshot();
    }
    void give_back(std::unique_ptr<Snapshot> snapshot) {
        const std::lock_guard lock(mutex_);
        if (idle_.size() < idle_max) idle_.push_back(std::move(snapshot));
    }

    Store& store_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Snapshot>> idle_;
};

}  // namespace interlock::store
