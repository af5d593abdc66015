// Fills the ring of keys, those of every org, and keeps it up to date where other nodes make and revoke keys too.
//
//   (1) A key that was revoked anywhere is out of the ring within a second, as long as the store can be read. When it
//       cannot, the node serves nobody (Backend::objection).
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "api/key_ring.h"
#include "store/read_pool.h"

namespace interlock::server {

class KeyWatch {
 public:
    static constexpr std::chrono::milliseconds interval{300};

    KeyWatch(store::ReadPool& reads, api::KeyRing& keys, std::function<Instant()> now)
        : reads_(reads), keys_(keys), now_(std::move(now)) {}
    ~KeyWatch();

    // Takes over what was made or revoked since the last time. Any thread.
    Result<void, store::ReadError> read_on();
    // Goes on reading by itself.
    void start();

 private:
    store::ReadPool& reads_;
    api::KeyRing& keys_;
    const std::function<Instant()> now_;
    std::mutex mutex_;
    std::condition_variable stop_;
    Instant read_at_ = far_past;  // What was made before that is known.
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace interlock::server
