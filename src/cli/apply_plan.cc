#include "cli/apply_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/shell.h"
#include "cli/client.h"
#include "cli/text.h"
#include "cli/view.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

using Name = std::pair<Kind, std::string>;

std::string name_of_cap(const json::value& cap) {
    const std::string kind = text_of(member_of(cap, "kind"));
    return kind == "org" ? kind : kind + "/" + text_of(member_of(cap, "name"));
}

std::map<Name, json::value> by_name(const ServerLists& state) {
    std::map<Name, json::value> found;
    const auto add = [&](Kind kind, const json::array& items) {
        for (const json::value& item : items) {
            found[{kind, kind == Kind::cap ? name_of_cap(item) : text_of(member_of(item, "name"))}] = item;
        }
    };
    add(Kind::cap, state.caps);
    add(Kind::agent, state.agents);
    add(Kind::budget, state.budgets);
    add(Kind::schedule, state.schedules);
    return found;
}

// ---- what differs -------------------------------------------------------------------------------------------------

// A member of the server's document, in the form of a request body.
json::value shown_member(Kind kind, const json::value& found, std::string_view member) {
    return member_of(found, kind == Kind::budget && member == "window" ? "window.kind" : member);
}

bool is_nothing(const json::value& value) {
    return value.is_null() || (value.is_string() && value.get_string().empty()) ||
           (value.is_array() && value.get_array().empty()) || (value.is_object() && value.get_object().empty());
}

// The server resolves symlinks in the path of a directory.
bool same_path(const json::value& one, const json::value& other) {
    if (!one.is_string() || !other.is_string()) return false;
    std::error_code unknown;
    const auto first = std::filesystem::weakly_canonical(text_of(one), unknown);
    const auto second = std::filesystem::weakly_canonical(text_of(other), unknown);
    return !unknown && first == second;
}

bool same(std::string_view member, const json::value& from, const json::value& to) {
    if ((is_nothing(from) && is_nothing(to)) || from == to) return true;
    return member == "workspace" && same_path(from, to);
}

// Of a map, each of its members.
void compare_maps(const std::string& field, const json::object& from, const json::object& to,
                  std::vector<FieldChange>& changes) {
    std::set<std::string> names;
    // The server repeats renamed members of `retry` under their old names.
    const bool open = field != "retry";
    for (const auto& [name, _] : from) {
        if (open) names.emplace(name);
    }
    for (const auto& [name, _] : to) names.emplace(name);
    const bool secret = field == "env";
    for (const std::string& name : names) {
        const json::value* before = from.if_contains(name);
        const json::value* after = to.if_contains(name);
        // A key that cannot change agents does not see the values, so only names are compared.
        const bool hidden = secret && before != nullptr && before->is_null();
        if (before != nullptr && after != nullptr && (*before == *after || hidden)) continue;
        changes.push_back({.field = field + "." + name,
                           .from = before != nullptr ? *before : json::value(),
                           .to = after != nullptr ? *after : json::value(),
                           .secret = secret});
    }
}

std::vector<FieldChange> compare(Kind kind, const json::value& found, const json::object& body) {
    std::vector<FieldChange> changes;
    for (const auto& [member, to] : body) {
        const std::string field(member);
        const json::value from = shown_member(kind, found, field);
        const bool map = to.is_object() && field != "scope";
        if (map) {
            compare_maps(field, from.is_object() ? from.get_object() : json::object(), to.get_object(), changes);
        } else if (!same(field, from, to)) {
            changes.push_back({.field = field, .from = from, .to = to});
        }
    }
    return changes;
}

// The members of a new object that differ from the defaults.
std::vector<FieldChange> stated(Kind kind, const json::object& body) {
    std::vector<FieldChange> changes = compare(kind, json::value(defaults_of(kind)), body);
    for (FieldChange& change : changes) change.from = nullptr;
    return changes;
}

// ---- the plan -----------------------------------------------------------------------------------------------------

std::string target_of(Kind kind, const std::string& name) {
    if (kind == Kind::cap) {
        const std::size_t slash = name.find('/');
        return "/v1/caps/" + name.substr(0, slash) +
               (slash == std::string::npos ? "" : "/" + percent_encoded(name.substr(slash + 1)));
    }
    return fmt::format("/v1/{}s/{}", name_of(kind), percent_encoded(name));
}

class Planner {
 public:
    Planner(const ApplyFiles& files, const ServerLists& state, Prune prune)
        : files_(files), found_(by_name(state)), prune_(prune) {
        for (const Wanted& wanted : files.wanted) wanted_.insert({wanted.kind, wanted.name});
    }

    Plan make() {
        find_removals();
        for (const Kind kind : {Kind::cap, Kind::agent, Kind::budget, Kind::schedule}) {
            for (const Wanted& wanted : files_.wanted) {
                if (wanted.kind == kind) put(wanted);
            }
        }
        remove_all();
        return std::move(plan_);
    }

 private:
    const json::value* find(Kind kind, const std::string& name) const {
        const auto found = found_.find({kind, name});
        return found == found_.end() ? nullptr : &found->second;
    }

    // Finds what an earlier apply of this set created and the files no longer have.
    void find_removals() {
        for (const auto& [key, agent] : found_) {
            if (key.first != Kind::agent) continue;
            const json::value& tags = member_of(agent, "tags");
            const json::object* marks = tags.if_object();
            const json::value* set = marks != nullptr ? marks->if_contains(set_mark) : nullptr;
            if (set == nullptr || text_of(*set) != files_.set) continue;
            for (const auto& [mark, _] : *marks) find_made(key.second, mark);
            if (!wanted_.contains(key)) removals_.push_back(key);
        }
    }
    void find_made(const std::string& agent, std::string_view mark) {
        for (const Kind kind : {Kind::budget, Kind::schedule}) {
            const std::string prefix = mark_of(kind, "");
            if (!mark.starts_with(prefix)) continue;
            const Name made{kind, std::string(mark.substr(prefix.size()))};
            if (wanted_.contains(made) || !found_.contains(made)) continue;
            removals_.push_back(made);
            left_marks_[agent].emplace_back(mark);
        }
    }

    // The agent with its marks: for what apply creates for it and, until that is removed, what it created before.
    json::object marked(const Wanted& agent, bool with_left) const {
        json::object body = agent.body;
        json::object& tags = body["tags"].as_object();
        tags[set_mark] = files_.set;
        for (const Wanted& wanted : files_.wanted) {
            if (wanted.agent != agent.name || wanted.kind == Kind::agent) continue;
            tags[mark_of(wanted.kind, wanted.name)] = files_.set;
        }
        const auto left = left_marks_.find(agent.name);
        if (!with_left || left == left_marks_.end()) return body;
        for (const std::string& mark : left->second) tags[mark] = files_.set;
        return body;
    }

    void put(const Wanted& wanted) {
        const json::value* found = find(wanted.kind, wanted.name);
        json::object body = wanted.body;
        if (wanted.kind == Kind::agent) body = marked(wanted, true);
        if (wanted.kind == Kind::schedule && body["enabled"].is_null()) {
            body["enabled"] = found != nullptr ? member_of(*found, "enabled") : json::value(true);
        }
        PlanStep step{.action = PlanAction::unchanged,
                      .kind = wanted.kind,
                      .name = wanted.name,
                      .file = wanted.file,
                      .at = wanted.at};
        if (found == nullptr) {
            step.action = PlanAction::create;
            step.fields = stated(wanted.kind, wanted.body);
        } else {
            step.fields = compare(wanted.kind, *found, body);
            if (!step.fields.empty()) step.action = PlanAction::change;
        }
        check_fixed(step);
        if (step.action != PlanAction::unchanged) {
            plan_.requests.push_back({.method = "PUT",
                                      .target = target_of(wanted.kind, wanted.name),
                                      .body = json::serialize(body),
                                      .what = fmt::format("{} {}", name_of(wanted.kind), wanted.name)});
        }
        plan_.steps.push_back(std::move(step));
    }

    // Scope, metric, window and timezone of a budget are fixed, because its counters depend on them.
    void check_fixed(const PlanStep& step) {
        if (step.kind != Kind::budget || step.action != PlanAction::change) return;
        for (const FieldChange& change : step.fields) {
            if (change.field != "scope" && change.field != "metric" && change.field != "window" &&
                change.field != "timezone") {
                continue;
            }
            plan_.mistakes.push_back({step.file, step.at,
                                      fmt::format("the {} of budget '{}' cannot change from {} to {}", change.field,
                                                  step.name, text_of(change.from), text_of(change.to)),
                                      "use another name, or remove the budget: " +
                                          shell_command({"interlock", "budgets", "rm", step.name})});
        }
    }

    void remove_all() {
        for (const Kind kind : {Kind::schedule, Kind::budget, Kind::agent}) {
            if (kind == Kind::agent && prune_ == Prune::yes) unmark();
            for (const Name& name : removals_) {
                if (name.first != kind) continue;
                plan_.steps.push_back({.action = prune_ == Prune::yes ? PlanAction::remove : PlanAction::leave,
                                       .kind = kind,
                                       .name = name.second});
                if (prune_ != Prune::yes) continue;
                plan_.requests.push_back({.method = "DELETE",
                                          .target = target_of(kind, name.second),
                                          .what = fmt::format("{} {}", name_of(kind), name.second)});
            }
        }
    }

    // Removes marks only after the removal, so that a failure in between can be retried.
    void unmark() {
        for (const Wanted& wanted : files_.wanted) {
            if (wanted.kind != Kind::agent || !left_marks_.contains(wanted.name)) continue;
            plan_.requests.push_back({.method = "PUT",
                                      .target = target_of(Kind::agent, wanted.name),
                                      .body = json::serialize(marked(wanted, false)),
                                      .what = fmt::format("agent {}", wanted.name)});
        }
    }

    const ApplyFiles& files_;
    std::map<Name, json::value> found_;
    Prune prune_;
    std::set<Name> wanted_;
    std::vector<Name> removals_;
    std::map<std::string, std::vector<std::string>> left_marks_;
    Plan plan_;
};

}  // namespace

Plan make_plan(const ApplyFiles& files, const ServerLists& state, Prune prune) {
    return Planner(files, state, prune).make();
}

std::string_view name_of(PlanAction action) {
    constexpr std::string_view names[] = {"create", "change", "unchanged", "remove", "leave"};
    return names[static_cast<std::size_t>(action)];
}

std::size_t Plan::count(PlanAction action) const {
    return static_cast<std::size_t>(std::ranges::count(steps, action, &PlanStep::action));
}

json::object to_json(const Plan& plan) {
    json::array steps;
    json::object counts;
    for (const PlanAction action :
         {PlanAction::create, PlanAction::change, PlanAction::unchanged, PlanAction::remove, PlanAction::leave}) {
        counts[name_of(action)] = plan.count(action);
    }
    for (const PlanStep& step : plan.steps) {
        json::array fields;
        for (const FieldChange& change : step.fields) {
            json::object field{{"field", change.field}};
            if (change.secret) {
                field["secret"] = true;
            } else {
                field["from"] = change.from;
                field["to"] = change.to;
            }
            fields.push_back(std::move(field));
        }
        steps.push_back({{"action", name_of(step.action)},
                         {"kind", name_of(step.kind)},
                         {"name", step.name},
                         {"fields", std::move(fields)},
                         {"file", step.file.empty() ? json::value() : json::value(step.file)},
                         {"line", step.file.empty() ? json::value() : json::value(step.at.line)}});
    }
    return {{"steps", std::move(steps)}, {"counts", std::move(counts)}};
}

}  // namespace interlock::cli
