// Incidents: what somebody should look at, each with the command that helps.
//
//   (1) An incident is there while its cause is, and by itself no longer: nothing is stored, and nobody dismisses one.
//   (2) The worst come first, always in the same order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "api/dependencies.h"
#include "base/instant.h"

namespace interlock::api {

enum class IncidentLevel {
    stop,  // Something stands still, or is not as promised, until somebody acts.
    warn,
    note,  // Somebody wanted it so, or it may pass by itself.
};
BOOST_DESCRIBE_ENUM(IncidentLevel, stop, warn, note)

// In the order in which they are told within a level.
enum class IncidentKind {
    promise_broken,
    budget_frozen,
    budget_exhausted,
    usage_implausible,
    budget_warned,
    agent_paused,
    runs_failed,
    run_waiting,
    upstream_cooling,
    upstream_failing,
    models_unpriced,
};
BOOST_DESCRIBE_ENUM(IncidentKind, promise_broken, budget_frozen, budget_exhausted, usage_implausible, budget_warned,
                    agent_paused, runs_failed, run_waiting, upstream_cooling, upstream_failing, models_unpriced)

struct Incident {
    IncidentKind kind = IncidentKind::promise_broken;
    IncidentLevel level = IncidentLevel::note;
    std::string subject;  // The name or id that it is about.
    std::string title;
    std::string detail;
    Instant since = far_past;  // far_past: not known.
    std::string command;
    std::int64_t count = 1;  // Of runs, calls or violations that it stands for.
};
BOOST_DESCRIBE_STRUCT(Incident, (), (kind, level, subject, title, detail, since, command, count))

// By level, kind and count; then by how long it has been so, and by name.
void sort_worst_first(std::vector<Incident>& incidents);

// What the last check found broken.
std::vector<Incident> broken_promises(const LastVerify& last);
// Upstreams that fail or are left alone.
std::vector<Incident> failing_upstreams(const std::vector<UpstreamFacts>& upstreams);

// A run that did not end well.
struct BadEnd {
    std::string agent;
    std::string state;  // failed, timed_out or lost
    Instant ended_at;
    std::string reason;
};
// One for each agent.
std::vector<Incident> failed_runs(const std::vector<BadEnd>& ends);

}  // namespace interlock::api
