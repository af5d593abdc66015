// The plan of `interlock apply`: the differences between the files and the server, as steps and requests.
//
//   (1) Applying the same files again makes a plan without changes.
//   (2) Only --prune removes, and only what an earlier apply of the same set created. Tags of an agent mark what apply
//       created for it; budgets and schedules without such a tag stay.
//   (3) New objects are created before the old ones are removed.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "cli/apply_files.h"

namespace interlock::cli {

// The server's objects, from its lists.
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
    leave,  // --prune would remove it.
};
std::string_view name_of(PlanAction action);

struct FieldChange {
    std::string field;        // "timeout_s", "tags.team"
    boost::json::value from;  // Null: missing before.
    boost::json::value to;    // Null: removed.
    bool secret = false;      // The values must not be shown.
};

struct PlanStep {
    PlanAction action = PlanAction::unchanged;
    Kind kind = Kind::agent;
    std::string name;
    std::vector<FieldChange> fields = {};
    std::string file = {};  // Defines it; empty for removals.
    Spot at = {};
};

// A request of the plan.
struct PlannedRequest {
    std::string method;
    std::string target;
    std::string body = {};
    std::string what;  // "agent coder"
};

struct Plan {
    std::vector<PlanStep> steps;           // To show.
    std::vector<PlannedRequest> requests;  // To send, in this order.
    std::vector<Mistake> mistakes;         // Changes that the server refuses.

    std::size_t count(PlanAction action) const;
};

enum class Prune { no, yes };
Plan make_plan(const ApplyFiles& files, const ServerLists& state, Prune prune);

boost::json::object to_json(const Plan& plan);

}  // namespace interlock::cli
