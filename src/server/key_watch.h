// Keeps the ring of keys up to date where other nodes make and revoke keys too.
//
//   (1) A key that was revoked anywhere is out of the ring within a second, as long as the store can be read. When it
//       cannot, the node serves nobody (Backend::objection).
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "api/key_ring.h"
#include "store/read_pool.h"

namespace interlock::server {

class KeyWatch {
 public:
    static constexpr std::chrono::milliseconds interval{300};

    KeyWatch(core::OrgId org, store::ReadPool& reads, api::KeyRing& keys) : org_(org), reads_(reads), keys_(keys) {}
    ~KeyWatch();

    // Takes over what was made or revoked since the last time. Any thread.
    Result<void, store::ReadError> read_on();
    // Goes on reading by itself.
    void start();

 private:
    const core::OrgId org_;
    store::ReadPool& reads_;
    api::KeyRing& keys_;
    std::mutex mutex_;
    std::condition_variable stop_;
    Instant newest_ = far_past;  // Of all that was read.
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace interlock::server
