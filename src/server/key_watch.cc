#include "server/key_watch.h"

#include <algorithm>

#include "store/read_rows.h"

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
    // Times are stamped before the commit: what becomes visible later may be a little older than what was seen.
    constexpr std::chrono::minutes overlap{5};
    Instant newest;
    {
        const std::lock_guard lock(mutex_);
        newest = newest_;
    }
    const std::int64_t since = micros(newest) - std::chrono::duration_cast<Duration>(overlap).count();
    const auto rows = reads_.with([&](store::Snapshot& snapshot) {
        return store::read_rows<core::ApiKey>(snapshot, org_, "and (created_at >= $2 or revoked_at >= $2)", {since});
    });
    if (!rows) return fail(rows.error());
    for (const core::ApiKey& row : *rows) {
        keys_.put(org_, row);
        newest = std::max({newest, row.created_at, row.revoked_at});
    }
    const std::lock_guard lock(mutex_);
    newest_ = std::max(newest_, newest);
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
