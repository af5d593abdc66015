// The gateway's side of the ledger: holds that are kept alive while their calls go on, ends of holds that are said
// until they are heard, and calls that are recorded.
//
//   (1) A hold that was given out is settled or released exactly once, by end(); who forgets it loses nothing but
//       precision: its lease lapses and the core charges it at its bound. A settlement that comes after that is taken
//       all the same: the core books the difference.
//   (2) An end that the engine could not take is said again, with the same key, until it is taken.
//   (3) Money first: calls are recorded behind it, many at once, and only to be looked at.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "core/command.h"
#include "engine/engine.h"
#include "gateway/headroom.h"
#include "net/task.h"

namespace interlock::gateway {

// Only the gateway and operators may end the gateway's holds; the core refuses all others.
inline const core::Actor by_gateway{.kind = core::ActorKind::gateway};

class LedgerLink {
 public:
    struct Options {
        std::function<void(std::vector<engine::Submission>)> submit;
        std::function<Instant()> now;
        std::function<Id()> fresh_id;
    };
    LedgerLink(Options options, Headroom& headroom, Log& log);
    ~LedgerLink();
    LedgerLink(const LedgerLink&) = delete;
    LedgerLink& operator=(const LedgerLink&) = delete;

    void close();  // Says what is left to be said. Nobody asks any more.

    net::Task<engine::SubmitResult> ask(core::OrgId org, core::CommandBody body);

    // The call that this hold is for goes on until end().
    void keep(core::OrgId org, core::HoldId hold, std::int64_t ttl_s);
    void end(core::OrgId org, core::HoldId hold, core::CommandBody settle_or_release);

    // A turn of a session. Lost with the process, if it comes to that: the ledger is elsewhere.
    void append(core::OrgId org, core::Append turn);
    void record(core::OrgId org, core::ModelCall call);

 private:
    struct Kept {
        core::OrgId org;
        std::int64_t ttl_s = 60;
        Instant extend_at;
    };
    struct Said {
        core::OrgId org;
        core::CommandKey key;
        core::CommandBody body;
        int tries = 0;
    };
    void say(Said said);
    void run();
    void extend_leases();
    void repeat();
    void write_calls();

    const Options options_;
    Headroom& headroom_;
    Log& log_;

    std::mutex mutex_;
    std::condition_variable stop_;
    bool stopping_ = false;
    std::unordered_map<Id, Kept> kept_;
    std::vector<Said> unheard_;
    std::map<core::OrgId, std::vector<core::ModelCall>> calls_;
    std::thread thread_;
};

}  // namespace interlock::gateway
