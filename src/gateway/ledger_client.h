// The gateway's side of the ledger: holds that are kept alive while their calls go on, commands that are repeated until
// the engine takes them, and calls that are recorded.
//
//   (1) A hold is settled or released once, by its OpenHold (open_hold.h). If the process ends before that, its lease
//       lapses and the core charges it at its bound. The core also takes a settlement that comes after that, and books
//       the difference.
//   (2) A command that the engine could not take is sent again, with the same key, until it is taken.
//   (3) Money first: calls are recorded behind it, many at once, and only to be looked at.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "core/command.h"
#include "engine/engine.h"
#include "gateway/budget_wait_queue.h"
#include "gateway/settlement.h"
#include "net/task.h"

namespace interlock::gateway {

// Only the gateway and operators may end the gateway's holds; the core refuses all others.
inline const core::Actor by_gateway{.kind = core::ActorKind::gateway};

class LedgerClient {
 public:
    struct Options {
        std::function<void(std::vector<engine::Submission>)> submit;
        std::function<Instant()> now;
        std::function<Id()> fresh_id;
    };
    LedgerClient(Options options, BudgetWaitQueue& budget_waits, Log& log);
    ~LedgerClient();
    LedgerClient(const LedgerClient&) = delete;
    LedgerClient& operator=(const LedgerClient&) = delete;

    void close();  // Flushes pending commands. submit() must not be called afterwards.

    net::Task<engine::SubmitResult> submit(core::OrgId org, core::CommandBody body);

    // For OpenHold. The hold's lease is extended until one of the two ends.
    void keep_alive(core::OrgId org, core::HoldId hold, std::int64_t ttl_s);
    void settle(core::OrgId org, core::HoldId hold, const Settlement& settlement);
    void release(core::OrgId org, core::HoldId hold);

    // A turn of a session. Lost with the process, if it comes to that: the ledger is elsewhere.
    void append(core::OrgId org, core::Append turn);
    void record(core::OrgId org, core::ModelCall call);

 private:
    struct Kept {
        core::OrgId org;
        std::int64_t ttl_s = 60;
        Instant extend_at;
    };
    // What becomes of a command is logged in its own words.
    enum class Purpose { settle, release, append };
    struct PendingCommand {
        core::OrgId org;
        core::CommandKey key;
        core::CommandBody body;
        Purpose purpose = Purpose::settle;
        Id subject = {};  // Of the hold, or of the session.
        int tries = 0;
    };
    void stop_extending(core::HoldId hold);
    void send(PendingCommand command);
    void on_answer(const PendingCommand& command, const engine::SubmitResult& answer);
    void log_failure(const PendingCommand& command, const std::string& why);
    void run();
    void extend_leases();
    void send_again();
    void write_calls();

    const Options options_;
    BudgetWaitQueue& budget_waits_;
    Log& log_;

    std::mutex mutex_;
    std::condition_variable stop_;
    bool stopping_ = false;
    std::unordered_map<Id, Kept> kept_;
    std::vector<PendingCommand> untaken_;
    std::map<core::OrgId, std::vector<core::ModelCall>> calls_;
    std::thread thread_;
};

}  // namespace interlock::gateway
