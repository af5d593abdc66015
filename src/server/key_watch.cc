#include "server/key_watch.h"

#include <algorithm>

#include "store/read_every_org.h"

namespace interlock::server {

KeyWatch::~KeyWatch() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    stop_.notify_one();
    if (thread_.joinable()) thread_.join();
}

Result<void, store::ReadError> KeyWatch::read_on() {
    // Times are stamped before the commit: what becomes visible later may be a little older than the last look.
    constexpr std::chrono::minutes overlap{5};
    const Instant begun = now_();
    Instant known;
    {
        const std::lock_guard lock(mutex_);
        known = read_at_;
    }
    const std::int64_t since = micros(known) - std::chrono::duration_cast<Duration>(overlap).count();
    const auto rows = reads_.with([&](store::Snapshot& snapshot) {
        return store::read_every_org<core::ApiKey>(snapshot, "where created_at >= $1 or revoked_at >= $1", {since});
    });
    if (!rows) return fail(rows.error());
    for (const auto& [org, row] : *rows) keys_.put(org, row);
    const std::lock_guard lock(mutex_);
    read_at_ = std::max(read_at_, begun);
    return {};
}

void KeyWatch::start() {
    thread_ = std::thread([this] {
        std::unique_lock lock(mutex_);
        while (!stop_.wait_for(lock, interval, [&] { return stopping_; })) {
            lock.unlock();
            (void)read_on();
            lock.lock();
        }
    });
}

}  // namespace interlock::server
