// What `interlock apply` would do: the files beside what the server has, step by step.
//
//   (1) The same files again make a plan that changes nothing.
//   (2) Only what an earlier apply of the same set has made is ever removed, and only if that was asked for. An
//       agent's tags say what was made for it: a budget or schedule that a person made stays.
//   (3) What is new is there before what it replaces goes.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "cli/apply_files.h"

namespace interlock::cli {

// What the server has, as its lists show it.
struct ServerLists {
    boost::json::array caps = {};
    boost::json::array agents = {};
    boost::json::array budgets = {};
    boost::json::array schedules = {};
};

enum class PlanAction {
    create,
    change,
    unchanged,
    remove,
    leave,  // It would be removed, if that were asked for.
};
std::string_view name_of(PlanAction action);

struct FieldChange {
    std::string field;        // "timeout_s", "tags.team"
    boost::json::value from;  // Null: it was not there.
    boost::json::value to;    // Null: it goes.
    bool secret = false;      // That it changes may be shown, what it is may not.
};

struct PlanStep {
    PlanAction action = PlanAction::unchanged;
    Kind kind = Kind::agent;
    std::string name;
    std::vector<FieldChange> fields = {};
    std::string file = {};  // Where it is wanted; empty for what goes.
    Spot at = {};
};

// One request, as it is sent.
struct PlannedRequest {
    std::string method;
    std::string target;
    std::string body = {};
    std::string what;  // "agent coder"
};

struct Plan {
    std::vector<PlanStep> steps;           // As they are shown.
    std::vector<PlannedRequest> requests;  // As they are carried out.
    std::vector<Mistake> mistakes;         // What the server will not do.

    std::size_t count(PlanAction action) const;
};

enum class Prune { no, yes };
Plan make_plan(const ApplyFiles& files, const ServerLists& state, Prune prune);

boost::json::object to_json(const Plan& plan);

}  // namespace interlock::cli
