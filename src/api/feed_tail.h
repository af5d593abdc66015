// The end of the feed, kept in memory for those who follow it.
//
//   (1) Items are in feed order without gap; whoever falls behind the oldest one kept reads the store instead.
//   (2) A commit is read and put into words once, however many follow.
//   (3) While nobody follows, nothing is read.
//
// One thread of its own reads the store after each commit it hears of and rings the bell.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/feed_item.h"
#include "core/rows.h"
#include "net/notifier.h"
#include "store/read_pool.h"

namespace interlock::api {

class FeedTail {
 public:
    static constexpr std::size_t items_max = 20'000;

    FeedTail(core::OrgId org, store::ReadPool& reads);
    ~FeedTail();

    // Something was committed. From any thread, and cheap.
    void committed();

    // For as long as one of these is there, the tail is kept.
    class Follower {
     public:
        explicit Follower(FeedTail& tail);
        ~Follower();
        Follower(const Follower&) = delete;
        Follower& operator=(const Follower&) = delete;

     private:
        FeedTail& tail_;
    };

    using Items = std::vector<std::shared_ptr<const FeedItem>>;
    // What came after `seq`, at most `limit`. Empty optional: the tail does not reach back that far, read the store.
    std::optional<Items> after(core::Seq seq, std::size_t limit) const;

    net::Notifier& notifier() { return notifier_; }

 private:
    void run();
    bool read_on();  // False when the store could not be read.

    const core::OrgId org_;
    store::ReadPool& reads_;
    net::Notifier notifier_;
    mutable std::mutex mutex_;
    std::condition_variable work_;
    std::deque<std::shared_ptr<const FeedItem>> items_;
    core::Seq head_{-1};  // Of the last item kept or passed over; -1: not known yet.
    std::size_t followers_ = 0;
    bool news_ = false;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace interlock::api
