#include "api/feed_tail.h"

#include <algorithm>

namespace interlock::api {

FeedTail::FeedTail(core::OrgId org, store::ReadPool& reads) : org_(org), reads_(reads), thread_([this] { run(); }) {}

FeedTail::~FeedTail() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    work_.notify_one();
    thread_.join();
}

void FeedTail::committed() {
    {
        const std::lock_guard lock(mutex_);
        if (followers_ == 0 || news_) return;
        news_ = true;
    }
    work_.notify_one();
}

FeedTail::Follower::Follower(FeedTail& tail) : tail_(tail) {
    {
        const std::lock_guard lock(tail_.mutex_);
        if (tail_.followers_++ > 0) return;
        tail_.news_ = true;  // The first one starts the reading.
    }
    tail_.work_.notify_one();
}

FeedTail::Follower::~Follower() {
    const std::lock_guard lock(tail_.mutex_);
    if (--tail_.followers_ > 0) return;
    tail_.items_.clear();
    tail_.head_ = core::Seq(-1);
}

std::optional<FeedTail::Items> FeedTail::after(core::Seq seq, std::size_t limit) const {
    const std::lock_guard lock(mutex_);
    const core::Seq before_first(items_.empty() ? head_.value : items_.front()->seq.value - 1);
    if (head_.value < 0 || seq < before_first) return std::nullopt;
    Items items;
    if (seq >= head_) return items;
    const auto skip = static_cast<std::size_t>(seq.value - before_first.value);
    const std::size_t count = std::min(limit, items_.size() - skip);
    const auto begin = items_.begin() + static_cast<std::ptrdiff_t>(skip);
    items.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    return items;
}

void FeedTail::run() {
    constexpr std::chrono::milliseconds retry{100};
    std::unique_lock lock(mutex_);
    while (true) {
        work_.wait(lock, [&] { return news_ || stopping_; });
        if (stopping_) return;
        news_ = false;
        lock.unlock();
        const bool read = read_on();
        if (read) notifier_.notify_all();
        lock.lock();
        if (!read && !stopping_) {
            work_.wait_for(lock, retry);
            news_ = followers_ > 0;
        }
    }
}

bool FeedTail::read_on() {
    core::Seq head;
    {
        const std::lock_guard lock(mutex_);
        head = head_;
    }
    if (head.value < 0) {
        const auto found = reads_.with([&](store::Snapshot& snapshot) { return feed_head(snapshot, org_); });
        if (!found) return false;
        const std::lock_guard lock(mutex_);
        if (followers_ > 0) head_ = *found;
        return true;
    }
    auto items = reads_.with([&](store::Snapshot& snapshot) { return read_feed(snapshot, org_, head, items_max); });
    if (!items) return false;
    const std::lock_guard lock(mutex_);
    if (head_ != head) return true;  // Everybody left meanwhile.
    for (FeedItem& item : *items) {
        head_ = item.seq;
        items_.push_back(std::make_shared<const FeedItem>(std::move(item)));
    }
    while (items_.size() > items_max) items_.pop_front();
    return true;
}

}  // namespace interlock::api
