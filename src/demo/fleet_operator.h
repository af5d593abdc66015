// The simulated fleet's operator: starts processes, wakes schedules, forks sessions, cancels, pauses, pays and raises
// limits, one thing after the other.
//
// First everything once, quickly; then a round of small events that does not end before the fleet does.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "demo/client.h"
#include "demo/fleet_worker.h"

namespace interlock::demo {

class Operator {
 public:
    // `house_rests` says whether the house's provider fails at present.
    Operator(DemoFleet& fleet, std::atomic<bool>& house_rests);

    // Until the fleet stops.
    void live();
    // Ends what outlives a server: processes. False when some did not end in time.
    bool end_processes();

 private:
    void open();
    void start(const DemoScript& script, json::object more = {});
    void start_in_worktrees();
    void tell_stories();
    std::string fork(const std::string& session, std::int64_t at, const char* title);
    void say(const std::string& session, const char* role, const char* text);
    void pay(const char* agent, const char* project, const char* cost, bool incurred = false);
    void ask_for_unknown_model();
    void wake(const char* schedule);

    // The round.
    void build();
    void fork_a_session();
    void cancel_a_run();
    void pause_a_process();
    void hold_some_money();
    void pause_an_agent();
    void let_house_rest();
    void raise_limits();

    // A change whose refusal is as good as its success.
    void may(net::Method method, std::string target, const json::value& body = json::object());

    DemoFleet& fleet_;
    std::atomic<bool>& house_rests_;
    DemoClient client_;
    std::string program_;  // This one, for processes that use the command line as agents do.
    int round_ = 0;
};

}  // namespace interlock::demo
