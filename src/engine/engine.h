// The engine: many callers, one order.
//
// Whatever has queued up while the last commit was on its way is the next batch: taken together, applied one after
// another by the core, written in one transaction, answered. Nobody who wants an answer waits for a timer, and nobody
// is answered before the batch is durable.
//
//   (1) Commands are applied in the order they were queued, each to the state its predecessors left.
//   (2) A command is answered exactly once.
//   (3) An answer that says something was done is durable.
//   (4) When a commit fails or its outcome is lost, memory is dropped and read back from the store; what happened to
//       each command is then looked up by its key. A command without a key is answered outcome_unknown.
//   (5) The queue is bounded: a full one answers busy at once.
//   (6) When another node writes the store now, the engine has moved: what it was asked and could not answer is handed
//       back with its key, to be asked there.
//
// The engine owns no thread and no clock. submit() may be called from any thread; step() and open() from one at a time:
// a lane's thread in the server (lane.h), a loop in the simulator.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/command.h"
#include "core/reply.h"
#include "core/state_machine.h"
#include "store/seals.h"
#include "store/store.h"

namespace interlock::engine {

enum class SubmitError {
    busy,             // The queue is full: come back.
    too_late,         // Its deadline had passed before its turn came; nothing was done.
    key_reused,       // The key came with other content before; nothing was done.
    not_committed,    // The store refused the batch; nothing was done.
    outcome_unknown,  // The store's answer was lost and the command has no key to look it up by.
    unavailable,      // The store cannot be reached at present; nothing was done.
};
BOOST_DESCRIBE_ENUM(SubmitError, busy, too_late, key_reused, not_committed, outcome_unknown, unavailable)

struct CommandResult {
    core::Reply reply;
    bool repeated = false;  // The command was carried out before; this is its first answer.
};
using SubmitResult = Result<CommandResult, SubmitError>;
using OnAnswer = std::function<void(SubmitResult)>;

struct Submission {
    core::Command command;
    OnAnswer on_answer;             // Called once, from step(), or at once from submit() when refused.
    Instant deadline = far_future;  // Past it the command is not begun.
    std::uint32_t hops = 0;         // How many nodes it came through to get here.
    bool can_wait = false;          // Nobody waits for its answer: it may share the commit of what comes next.
};

struct EngineStats {
    std::uint64_t batches = 0;
    std::uint64_t commands = 0;
    std::uint64_t batch_max = 0;
    std::uint64_t failed_commits = 0;
    std::uint64_t reloads = 0;
    std::uint64_t run_commits = 0;  // Those that wrote a run, or of which it is not known.
    std::string last_failure;       // Why the latest of the failed commits failed.
};

class Engine {
 public:
    struct Options {
        std::size_t queue_max = 65'536;
        std::size_t batch_max = 4'096;
        std::size_t batch_bytes_max = 64u << 20;  // Of message contents: a batch is held in memory and in the log.
        // From step(), for what is left of a batch when the engine has moved. Empty: answered as unavailable.
        std::function<void(std::vector<Submission>)> on_moved = {};
        // Commits are sealed with it (store/seals.h).
        store::SealKey seal_key = store::SealKey::from_text({});
    };

    Engine(store::Store& store, Options options);

    // Reads the state. Also what step() does by itself after a failure. `now` starts every lease anew: nobody could
    // be heard while we were away.
    Result<void, store::OpenError> open(Instant now);

    void submit(Submission submission);
    // The same for many at once, with one lock.
    void submit(std::vector<Submission> submissions);

    // Carries out one batch. Returns how many commands it answered.
    std::size_t step(Instant now);

    // Whether step() has something to do, and when time alone will give it something. From step()'s thread.
    bool has_work(Instant now) const;
    std::optional<Instant> next_deadline() const;

    // This thread was held up, and nobody could be heard: the next step starts every lease anew, as open() does.
    void stood_still() { stood_still_ = true; }

    bool moved() const { return moved_; }  // For good: make another engine to come back. From step()'s thread.

    // Whether something is queued, and all of it can wait. From any thread, like the next.
    bool can_wait() const;
    std::size_t queue_depth() const;
    const EngineStats& stats() const { return stats_; }

 private:
    std::vector<Submission>& take_batch();
    Result<void, store::CommitError> apply_and_commit(const std::vector<Submission>& batch, Instant now);
    void prefetch(const std::vector<Submission>& batch, Instant now);
    void apply_ticks(Instant now);
    SubmitResult apply(const Submission& submission, Instant now);
    Result<void, store::CommitError> commit(Instant now);
    Result<void, store::OpenError> seal_older_rows(core::OrgState& state, Instant now);
    bool recover(Instant now);
    std::size_t turn_away(std::vector<Submission>& batch);
    SubmitResult answer_by_key(const Submission& submission, bool known, bool recovered);

    store::Store& store_;
    const Options options_;
    core::StateMachine machine_;
    bool ready_ = false;
    bool moved_ = false;
    bool stood_still_ = false;
    Instant retry_at_ =
        far_past;  // While it is not ready: time must pass for what is stored, whether anybody asks or not.
    Instant last_now_ = far_past;

    mutable std::mutex queue_mutex_;
    std::vector<Submission> queue_;
    std::size_t queue_head_ = 0;
    bool hurried_ = false;           // Not all that is queued can wait.
    std::vector<Submission> batch_;  // step()'s own, kept for the room they have.
    std::vector<SubmitResult> answers_;
    EngineStats stats_;
};

}  // namespace interlock::engine
