#include "api/incidents.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "api/problem.h"
#include "api/route.h"
#include "base/calendar.h"
#include "base/shell.h"
#include "store/read_rows.h"
#include "store/read_value.h"

namespace interlock::api {
namespace {

using enum IncidentKind;
using enum IncidentLevel;
using Incidents = std::vector<Incident>;

constexpr std::size_t incidents_max = 500;
constexpr std::chrono::hours failed_within{24};
// A run that ended badly today may have begun long ago.
constexpr std::chrono::days begun_within{7};
constexpr std::int64_t bad_ends_max = 1000;  // Of each kind.
constexpr std::chrono::minutes may_wait_for{10};
constexpr std::int64_t waiting_max = 2000;
constexpr std::int64_t refusals_max = 2000;
constexpr std::size_t unpriced_max = 20;

std::string text_in(const store::Value& value) {
    const auto* text = std::get_if<std::string>(&value);
    return text == nullptr ? std::string() : *text;
}

std::int64_t number_in(const store::Value& value) {
    const auto* number = std::get_if<std::int64_t>(&value);
    return number == nullptr ? 0 : *number;
}

std::string count_of(std::int64_t count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// ---- budgets ------------------------------------------------------------------------------------------------------

// Each with its latest window: that is one look into the index, however many windows there were.
constexpr std::string_view budgets_and_windows =
    "select b.name, b.metric, b.limit_units, b.hard, b.frozen, w.end_at, w.settled, w.warned, w.exhausted "
    "from budgets b left join budget_windows w on w.org = b.org and w.budget = b.name and w.start_at = "
    "(select max(latest.start_at) from budget_windows latest where latest.org = b.org and latest.budget = b.name and "
    "latest.start_at <= $2) where b.org = $1 and b.deleted = 0";

struct BudgetState {
    std::string name;
    core::Metric metric = core::Metric::usd;
    std::int64_t limit = 0;
    bool hard = true;
    std::string frozen;
    Instant window_end;
    std::int64_t settled = 0;
    std::int64_t warned = 0;
    bool exhausted = false;
};

// What was said once in a window stays on record there. Where the limit was raised since, it is no longer so.
bool is_past_warning(const BudgetState& budget) {
    return budget.warned > 0 &&
           static_cast<__int128>(budget.settled) * 100 >= static_cast<__int128>(budget.limit) * budget.warned;
}

std::optional<Incident> incident_of(const BudgetState& budget) {
    Incident incident{.subject = budget.name, .title = {}, .detail = {}, .command = {}};
    const std::string_view unit =
        budget.metric == core::Metric::usd ? "dollars" : boost::describe::enum_to_string(budget.metric, "");
    const std::string used = fmt::format("{} of {} {}", amount_text(budget.metric, budget.settled),
                                         amount_text(budget.metric, budget.limit), unit);
    const std::string until =
        budget.window_end == far_future ? "" : fmt::format("; its window ends at {}", to_iso8601(budget.window_end));
    const std::string raise = shell_command({"interlock", "budgets", "limit", budget.name, "AMOUNT"});
    if (!budget.frozen.empty()) {
        incident.kind = budget_frozen;
        incident.level = stop;
        incident.title = fmt::format("budget '{}' is frozen", budget.name);
        incident.detail = budget.frozen;
        incident.command = shell_command({"interlock", "budgets", "unfreeze", budget.name});
    } else if (budget.exhausted) {
        incident.kind = budget_exhausted;
        incident.level = budget.hard ? stop : warn;
        incident.title = fmt::format("budget '{}' is exhausted", budget.name);
        incident.detail =
            used +
            (budget.hard ? "; charges that it covers are refused" : "; the budget is soft, so spending continues") +
            until;
        incident.command = raise;
    } else if (is_past_warning(budget)) {
        incident.kind = budget_warned;
        incident.level = warn;
        incident.title = fmt::format("budget '{}' has passed {} %", budget.name, budget.warned);
        incident.detail = used + until;
        incident.command = raise;
    } else {
        return std::nullopt;
    }
    return incident;
}

Result<void, store::ReadError> add_budgets(store::Snapshot& snapshot, core::OrgId org, Instant now, Incidents& all) {
    return snapshot.query(
        budgets_and_windows, {std::int64_t{org.value}, micros(now)}, [&](const std::vector<store::Value>& row) {
            BudgetState budget{.name = text_in(row[0]),
                               .limit = number_in(row[2]),
                               .hard = number_in(row[3]) != 0,
                               .frozen = text_in(row[4]),
                               .window_end = from_micros(number_in(row[5]))};
            boost::describe::enum_from_string(text_in(row[1]).c_str(), budget.metric);
            if (budget.window_end > now) {
                budget.settled = number_in(row[6]);
                budget.warned = number_in(row[7]);
                // One that has nothing to give is not used up: somebody wanted it so.
                budget.exhausted = budget.limit > 0 && (number_in(row[8]) != 0 || budget.settled >= budget.limit);
            }
            if (auto incident = incident_of(budget)) all.push_back(std::move(*incident));
        });
}

// ---- agents and runs ----------------------------------------------------------------------------------------------

Result<void, store::ReadError> add_agents(store::Snapshot& snapshot, core::OrgId org, Instant now, Incidents& all) {
    const auto agents = store::read_rows<core::Agent>(snapshot, org, "and archived = 0 and pauses <> '[]'");
    if (!agents) return fail(agents.error());
    for (const core::Agent& agent : *agents) {
        Incident incident{.kind = agent_paused,
                          .level = note,
                          .subject = agent.name,
                          .title = fmt::format("agent '{}' is paused", agent.name),
                          .detail = {},
                          .command = shell_command({"interlock", "agents", "resume", agent.name})};
        for (const core::AgentPause& pause : agent.pauses) {
            if (pause.until <= now) continue;
            if (incident.since == far_past || pause.since < incident.since) incident.since = pause.since;
            if (pause.by != "operator") incident.level = warn;
            incident.detail += (incident.detail.empty() ? "" : "; ") + (pause.reason.empty() ? pause.by : pause.reason);
        }
        if (incident.since != far_past) all.push_back(std::move(incident));
    }
    return {};
}

Result<void, store::ReadError> add_failed_runs(store::Snapshot& snapshot, core::OrgId org, Instant now,
                                               Incidents& all) {
    std::vector<BadEnd> ends;
    const Id from = time_ordered_id(now - begun_within, 0, 0);
    for (const char* state : {"failed", "timed_out", "lost"}) {
        const auto read = snapshot.query(
            "select agent, ended_at, reason from runs where org = $1 and state = $2 and id >= $3 order by id desc "
            "limit $4",
            {std::int64_t{org.value}, std::string(state), from, bad_ends_max},
            [&](const std::vector<store::Value>& row) {
                const Instant at = from_micros(number_in(row[1]));
                if (at >= now - failed_within) ends.push_back({text_in(row[0]), state, at, text_in(row[2])});
            });
        if (!read) return read;
    }
    std::ranges::move(failed_runs(ends), std::back_inserter(all));
    return {};
}

// One for each agent: it is about the run that has waited longest.
Result<void, store::ReadError> add_waiting_runs(store::Snapshot& snapshot, core::OrgId org, Instant now,
                                                Incidents& all) {
    std::map<std::string, Incident> by_agent;
    const auto read = snapshot.query(
        "select id, agent, created_at, not_before from runs where org = $1 and state = 'queued' and id < $2 "
        "order by id limit $3",
        {std::int64_t{org.value}, time_ordered_id(now - may_wait_for, 0, 0), waiting_max},
        [&](const std::vector<store::Value>& row) {
            core::RunId id;
            store::read_value(row[0], id);
            const std::string agent = text_in(row[1]);
            const Instant since = from_micros(std::max(number_in(row[2]), number_in(row[3])));
            if (since > now - may_wait_for) return;
            auto [found, is_first] = by_agent.try_emplace(agent);
            Incident& incident = found->second;
            if (!is_first) ++incident.count;
            if (!is_first && incident.since <= since) return;
            incident.since = since;
            incident.subject = id_text(id);
        });
    if (!read) return read;
    for (auto& [agent, incident] : by_agent) {
        incident.kind = run_waiting;
        incident.level = warn;
        incident.title = incident.count == 1 ? fmt::format("a run of '{}' is queued", agent)
                                             : fmt::format("{} runs of '{}' are queued", incident.count, agent);
        incident.detail = fmt::format("queued for more than {} minutes", may_wait_for.count());
        incident.command = shell_command({"interlock", "runs", "show", incident.subject});
        all.push_back(std::move(incident));
    }
    return {};
}

// ---- models -------------------------------------------------------------------------------------------------------

struct Unpriced {
    std::int64_t free = 0;  // Calls that counted as if they cost nothing.
    std::int64_t refused = 0;
};
using UnpricedModels = std::map<ModelName, Unpriced>;

// Models that may have been used without a price. Whether they have one by now is for those to say who know prices.
Result<UnpricedModels, store::ReadError> read_unpriced(store::Snapshot& snapshot, core::OrgId org, Instant now) {
    UnpricedModels models;
    const auto name_in = [](const std::vector<store::Value>& row) {
        return ModelName{text_in(row[0]), text_in(row[1])};
    };
    const auto used = snapshot.query(
        "select provider, model, sum(calls) from rollups where org = $1 and day >= $2 and model <> '' and cost = 0 and "
        "input_tokens + output_tokens > 0 group by provider, model",
        {std::int64_t{org.value}, utc_day(now) - 1},
        [&](const std::vector<store::Value>& row) { models[name_in(row)].free = number_in(row[2]); });
    if (!used) return fail(used.error());
    const auto refused = snapshot.query(
        "select provider, model, count(*) from (select provider, model, refusal from model_calls where org = $1 and "
        "id >= $2 and refusal <> '' order by id desc limit $3) as newest where refusal = 'unknown_model' "
        "group by provider, model",
        {std::int64_t{org.value}, time_ordered_id(now - failed_within, 0, 0), refusals_max},
        [&](const std::vector<store::Value>& row) { models[name_in(row)].refused = number_in(row[2]); });
    if (!refused) return fail(refused.error());
    return models;
}

Incidents unpriced_models(Models& priced, core::OrgId org, const UnpricedModels& models,
                          const std::vector<UpstreamFacts>& upstreams) {
    // Clients that charge by themselves may well say that something costs nothing: only the gateway goes by prices.
    std::set<std::string_view> providers;
    for (const UpstreamFacts& upstream : upstreams) providers.insert(upstream.provider);
    std::vector<ModelName> names;
    for (const auto& [name, unpriced] : models) {
        if (unpriced.refused > 0 || providers.contains(name.provider)) names.push_back(name);
    }
    const auto prices = priced.used_prices(org, names);
    Incidents found;
    for (std::size_t i = 0; i < names.size() && found.size() < unpriced_max; ++i) {
        if (prices[i]) continue;
        const Unpriced& unpriced = models.at(names[i]);
        const std::string name = names[i].provider + "/" + names[i].model;
        std::string detail;
        if (unpriced.refused > 0) detail = count_of(unpriced.refused, "call") + " refused";
        if (unpriced.free > 0) {
            detail += (detail.empty() ? "" : ", ") + count_of(unpriced.free, "call") + " that no dollar budget counted";
        }
        found.push_back({.kind = models_unpriced,
                         .level = warn,
                         .subject = name,
                         .title = fmt::format("model '{}' has no price", name),
                         .detail = std::move(detail),
                         .command = shell_command(
                             {"interlock", "prices", "set", name, "--input", "DOLLARS", "--output", "DOLLARS"}),
                         .count = unpriced.refused + unpriced.free});
    }
    return found;
}

// Calls whose provider has reported what no model can have used. They were charged at their bound; a person decides
// whether that stands.
Result<void, store::ReadError> add_implausible_usage(store::Snapshot& snapshot, core::OrgId org, Instant now,
                                                     Incidents& all) {
    std::map<std::string, Incident> by_upstream;
    const auto read = snapshot.query(
        "select id, upstream, at from (select id, upstream, at, refusal from model_calls where org = $1 and id >= $2 "
        "and refusal <> '' order by id desc limit $3) as newest where refusal = 'implausible_usage'",
        {std::int64_t{org.value}, time_ordered_id(now - failed_within, 0, 0), refusals_max},
        [&](const std::vector<store::Value>& row) {
            core::CallId id;
            store::read_value(row[0], id);
            auto [found, is_first] = by_upstream.try_emplace(text_in(row[1]));
            Incident& incident = found->second;
            if (!is_first) ++incident.count;
            // The newest comes first.
            if (is_first) incident.command = fmt::format("interlock calls show {}", id_text(id));
            incident.since = from_micros(number_in(row[2]));
        });
    if (!read) return read;
    for (auto& [upstream, incident] : by_upstream) {
        incident.kind = usage_implausible;
        incident.level = warn;
        incident.subject = upstream;
        incident.title = fmt::format("upstream '{}' reports impossible usage", upstream);
        incident.detail = fmt::format(
            "{} within a day: charged at the bound and marked as estimated; check what the "
            "provider bills",
            count_of(incident.count, "call"));
        all.push_back(std::move(incident));
    }
    return {};
}

// ---- all of them --------------------------------------------------------------------------------------------------

struct Read {
    Incidents incidents;
    UnpricedModels unpriced;
};

Result<Read, store::ReadError> read_incidents(store::Snapshot& snapshot, core::OrgId org, Instant now) {
    Read read;
    for (auto* add : {add_budgets, add_agents, add_failed_runs, add_waiting_runs, add_implausible_usage}) {
        if (auto added = add(snapshot, org, now, read.incidents); !added) return fail(added.error());
    }
    auto unpriced = read_unpriced(snapshot, org, now);
    if (!unpriced) return fail(unpriced.error());
    read.unpriced = std::move(*unpriced);
    return read;
}

ResponseTask list_incidents(Call& call) {
    const core::OrgId org = call.caller.org;
    const Instant now = call.parts.commands.now();
    auto found = co_await read(call, [=](store::Snapshot& snapshot) { return read_incidents(snapshot, org, now); });
    if (!found) co_return respond(call, found.error());
    Incidents& all = found->incidents;
    const auto upstreams = call.parts.models.upstreams(org);
    std::ranges::move(failing_upstreams(upstreams), std::back_inserter(all));
    std::ranges::move(unpriced_models(call.parts.models, org, found->unpriced, upstreams), std::back_inserter(all));
    // What holds for the store as a whole is the business of those who run it.
    if (call.is_home())
        std::ranges::move(broken_promises(call.parts.operations.last_verify()), std::back_inserter(all));
    sort_worst_first(all);
    if (all.size() > incidents_max) all.resize(incidents_max);
    co_return respond(200, "{\"items\":" + to_json(all) + "}");
}

json::value incidents_schema() {
    return {{"type", "object"}, {"properties", {{"items", {{"type", "array"}, {"items", schema_of<Incident>()}}}}}};
}

}  // namespace

void sort_worst_first(std::vector<Incident>& incidents) {
    const auto rank = [](const Incident& incident) {
        // What is not known is not older than what is.
        const Instant since = incident.since == far_past ? far_future : incident.since;
        return std::tuple(incident.level, incident.kind, -incident.count, since, std::string_view(incident.subject));
    };
    std::ranges::sort(incidents, [&](const Incident& a, const Incident& b) { return rank(a) < rank(b); });
}

std::vector<Incident> broken_promises(const LastVerify& last) {
    Incidents found;
    if (last.report.empty()) return found;
    boost::system::error_code unreadable;
    const json::value report = json::parse(last.report, unreadable);
    const json::value* promises = report.is_object() ? report.get_object().if_contains("promises") : nullptr;
    if (promises == nullptr || !promises->is_array()) return found;
    for (const json::value& promise : promises->get_array()) {
        const std::int64_t violations = promise.at("violations").to_number<std::int64_t>();
        if (violations == 0) continue;
        const std::string id(promise.at("id").as_string());
        found.push_back({.kind = promise_broken,
                         .level = stop,
                         .subject = id,
                         .title = fmt::format("guarantee {} is violated: {}", id,
                                              std::string_view(promise.at("title").as_string())),
                         .detail = count_of(violations, "violation"),
                         .since = last.at,
                         .command = "interlock verify",
                         .count = violations});
    }
    return found;
}

std::vector<Incident> failing_upstreams(const std::vector<UpstreamFacts>& upstreams) {
    Incidents found;
    for (const UpstreamFacts& upstream : upstreams) {
        const bool cooling = upstream.state == UpstreamState::cooling;
        if (!upstream.enabled || (!cooling && upstream.state != UpstreamState::failing)) continue;
        found.push_back(
            {.kind = cooling ? upstream_cooling : upstream_failing,
             .level = cooling ? warn : note,
             .subject = upstream.name,
             .title = cooling ? fmt::format("upstream '{}' is in cooldown", upstream.name)
                              : fmt::format("upstream '{}' is failing", upstream.name),
             .detail = fmt::format("{} in a row, the last: {}", count_of(upstream.failures_in_a_row, "failure"),
                                   upstream.last_error.value_or("not known")),
             .since = upstream.failing_since,
             .command = shell_command({"interlock", "calls", "ls", "--upstream", upstream.name}),
             .count = upstream.failures_in_a_row});
    }
    return found;
}

std::vector<Incident> failed_runs(const std::vector<BadEnd>& ends) {
    struct OfAgent {
        std::map<std::string, std::int64_t> by_state;
        Instant first = far_future;
        Instant last = far_past;
        std::string reason;
    };
    std::map<std::string, OfAgent> agents;
    for (const BadEnd& end : ends) {
        OfAgent& of = agents[end.agent];
        ++of.by_state[end.state];
        of.first = std::min(of.first, end.ended_at);
        if (end.ended_at < of.last) continue;
        of.last = end.ended_at;
        of.reason = end.reason;
    }
    Incidents found;
    for (const auto& [agent, of] : agents) {
        std::int64_t count = 0;
        std::string detail;
        for (const auto& [state, times] : of.by_state) {
            count += times;
            detail +=
                fmt::format("{}{} {}", detail.empty() ? "" : ", ", times, state == "timed_out" ? "timed out" : state);
        }
        if (!of.reason.empty()) detail += "; the last: " + of.reason;
        found.push_back({.kind = runs_failed,
                         .level = warn,
                         .subject = agent,
                         .title = fmt::format("{} of '{}' failed within a day", count_of(count, "run"), agent),
                         .detail = std::move(detail),
                         .since = of.first,
                         .command = shell_command(
                             {"interlock", "runs", "ls", "--agent", agent, "--status", "failed,timed_out,lost"}),
                         .count = count});
    }
    return found;
}

std::vector<ApiRoute> incident_routes() {
    return {{.method = net::Method::get,
             .path = "/v1/incidents",
             .needs = Access::read,
             .summary = "List problems that need attention, most severe first",
             .handler = list_incidents,
             .answer = incidents_schema}};
}

}  // namespace interlock::api
