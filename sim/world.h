// The world: servers on a store, clients that talk to them through a bad network, and a clock that cannot be trusted.
//
//   (1) Everything that happens follows from the seed: no thread, no wall clock, no address, no walk over a hash table.
//   (2) A client's command reaches a server (nodes.h) never, once or several times, now or much later; its answer
//       likewise reaches the client now, later or never. Clients who hear nothing ask again with the same key.
//   (3) A crash takes the server and everything it had not written; the store's contents stay.
//
// Workloads say what clients want (workload.h), checkers say what must have come of it (checker.h). The world itself
// checks what was answered call by call: that a key has one answer, and that what must be refused is.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/call.h"
#include "sim/findings.h"
#include "sim/history.h"
#include "sim/known.h"
#include "sim/nodes.h"
#include "sim/profile.h"
#include "sim/random.h"
#include "store/memory_database.h"

namespace interlock::sim {

class Checker;

struct CallOptions {
    std::uint64_t tag = 0;
    Expect expect = Expect::anything;
    Promise broken = Promise::honest_answers;  // By an answer that is not as expected.
    std::optional<core::CommandKey> key = {};  // In place of a new one.
};

struct Troubles {
    std::uint64_t failed_commits = 0;
    std::uint64_t lost_commit_answers = 0;
    std::uint64_t lost_writes = 0;
    std::uint64_t failed_loads = 0;
    std::uint64_t failed_opens = 0;
    std::uint64_t lost_answers = 0;
    std::uint64_t late_answers = 0;
    std::uint64_t twin_requests = 0;
    std::uint64_t late_requests = 0;
    std::uint64_t retries = 0;
    std::uint64_t dead_clients = 0;
    std::uint64_t crashes = 0;
    std::uint64_t long_downtimes = 0;
    std::uint64_t clock_jumps = 0;
    // Of several nodes.
    std::uint64_t forwards = 0;
    std::uint64_t lost_between_nodes = 0;
    std::uint64_t repeated_forwards = 0;
    std::uint64_t takeovers = 0;
    std::uint64_t false_suspicions = 0;
    std::uint64_t lost_races = 0;
    std::uint64_t moves = 0;
    std::uint64_t freezes = 0;
    std::uint64_t stuck_commits = 0;
    std::uint64_t late_commits = 0;
    std::uint64_t departures = 0;
};
BOOST_DESCRIBE_STRUCT(Troubles, (),
                      (failed_commits, lost_commit_answers, lost_writes, failed_loads, failed_opens, lost_answers,
                       late_answers, twin_requests, late_requests, retries, dead_clients, crashes, long_downtimes,
                       clock_jumps, forwards, lost_between_nodes, repeated_forwards, takeovers, false_suspicions,
                       lost_races, moves, freezes, stuck_commits, late_commits, departures))

class World {
 public:
    // `nodes`: how many there are, whatever the seed says; 0: as it says.
    World(std::uint64_t seed, std::uint32_t nodes, bool trace);
    ~World();

    // ---- for the story ----
    void add(std::unique_ptr<Workload> workload, std::uint32_t weight);
    void add(std::unique_ptr<Checker> checker);
    void setup();
    void step();       // Some clients act, some time passes, the servers take a turn, answers arrive.
    void calm_down();  // No more troubles, and every client asks until it knows.
    void settle();     // Likewise, in the middle of the story.
    void check();      // Every checker looks at all rows.

    // ---- for workloads and checkers ----
    Call& call(Workload& from, core::OrgId org, core::CommandBody body, CallOptions options = {});
    void ask_again(Call& call);  // One more copy of it, whatever is known about it.
    Id new_id();
    Instant now() const { return now_; }
    const std::deque<Call>& calls() const { return calls_; }
    Call& call_at(std::uint32_t id) { return calls_[id]; }
    const Call* find_call(core::OrgId org, core::CommandKey key) const;
    bool is_calm() const { return calm_; }
    bool tracing() const { return trace_; }
    void trace(const std::string& line) const;
    void violated(Promise promise, std::string text);

    const Profile profile;
    Random random;
    Findings findings;
    Troubles troubles;
    OutcomeCounts outcomes{};
    const std::shared_ptr<store::MemoryDatabase> database = std::make_shared<store::MemoryDatabase>();
    Known known;
    History history;  // As of the last check.

    std::uint64_t commands() const { return commands_; }
    std::uint64_t steps() const { return step_; }
    std::uint64_t hash() const { return hash_; }

    // Whether the commands that `begin` sends change any row, apart from what time alone changes.
    bool writes_anything(const std::function<void()>& begin);

    // ---- for the servers ----
    Nodes& nodes() { return *nodes_; }
    void answered(Call& call, engine::SubmitResult answer);  // It leaves the server, and may reach its client.
    void lose(Call& call);                                   // The client will never hear of this copy.
    void stop_waiting(Call& call);                           // It may still hear of it, but does not wait for that.
    void sleep_long();

    // Changes an answer on its way to a client. Set by tests that show what the checkers notice.
    std::function<void(const Call&, engine::SubmitResult&)> forge_answer;

 private:
    struct Arrived {
        std::uint32_t call = 0;
        engine::SubmitResult answer;
        std::uint64_t number = 0;
    };
    struct Later {
        enum class What { request, retry, answer } what;
        std::uint32_t call = 0;
        std::shared_ptr<Arrived> answer;
    };

    void follow(const store::WriteSet& writes);
    void pass_time();
    void send(Call& call);
    void submit(Call& call);
    void take_due();
    void hear(Arrived arrived);
    void learn(Call& call, const Arrived& arrived);
    void check_answer(Call& call, const Arrived& arrived, const std::string& encoded);
    void plan_retry(Call& call);

    const bool trace_;
    bool calm_ = false;
    Instant now_;
    std::uint64_t step_ = 0;
    std::uint64_t commands_ = 0;
    std::uint64_t answers_ = 0;
    std::uint64_t written_ = 0;  // Commits of rows that truly happened.
    std::uint64_t hash_ = 0xCBF29CE484222325ull;

    std::vector<std::pair<std::unique_ptr<Workload>, std::uint32_t>> workloads_;
    std::uint64_t weights_ = 0;
    std::vector<std::unique_ptr<Checker>> checkers_;

    std::unique_ptr<Nodes> nodes_;
    std::deque<Call> calls_;
    struct KeyHash {
        std::size_t operator()(const std::pair<core::OrgId, core::CommandKey>& key) const {
            return std::hash<Id>{}(key.second.value) ^ key.first.value;
        }
    };
    std::unordered_map<std::pair<core::OrgId, core::CommandKey>, std::uint32_t, KeyHash> by_key_;
    std::multimap<std::uint64_t, Later> later_;
    std::string scratch_;
};

}  // namespace interlock::sim
