#include "api/problem.h"

#include <array>
#include <charconv>

#include <fmt/format.h>
#include <boost/describe/enum_to_string.hpp>

namespace interlock::api {
namespace {

struct OutcomeProblem {
    std::string_view outcome;
    int status;
    std::string_view code = {};  // Empty: the outcome's own name.
};

// Every outcome that is a refusal (core/reply.h). All others are successes.
constexpr std::array meanings{
    OutcomeProblem{"invalid_request", 400},
    OutcomeProblem{"agent_not_found", 404, "not_found"},
    OutcomeProblem{"session_not_found", 404, "not_found"},
    OutcomeProblem{"message_not_found", 404, "not_found"},
    OutcomeProblem{"run_not_found", 404, "not_found"},
    OutcomeProblem{"budget_not_found", 404, "not_found"},
    OutcomeProblem{"hold_not_found", 404, "not_found"},
    OutcomeProblem{"key_not_found", 404, "not_found"},
    OutcomeProblem{"schedule_not_found", 404, "not_found"},
    OutcomeProblem{"worktree_not_found", 404, "not_found"},
    OutcomeProblem{"setting_not_found", 404, "not_found"},
    OutcomeProblem{"charge_not_found", 404, "not_found"},
    OutcomeProblem{"not_your_hold", 403},
    OutcomeProblem{"beyond_key", 403},
    OutcomeProblem{"beyond_parent", 403},
    OutcomeProblem{"outside_roots", 403},
    OutcomeProblem{"not_your_run", 403},
    OutcomeProblem{"not_lower", 409},
    OutcomeProblem{"budget_exceeded", 402},
    OutcomeProblem{"budget_frozen", 402},
    OutcomeProblem{"workspace_busy", 409},
    OutcomeProblem{"concurrency_limit", 409},
    OutcomeProblem{"agent_paused", 409},
    OutcomeProblem{"parent_not_live", 409},
    OutcomeProblem{"stale_fence", 409},
    OutcomeProblem{"run_ended", 409},
    OutcomeProblem{"wrong_state", 409},
    OutcomeProblem{"hold_closed", 409},
    OutcomeProblem{"session_closed", 409},
    OutcomeProblem{"unexpected_seq", 409},
    OutcomeProblem{"has_unfinished_runs", 409},
    OutcomeProblem{"shape_is_fixed", 409},
    OutcomeProblem{"hold_exists", 409, "already_exists"},
    OutcomeProblem{"run_exists", 409, "already_exists"},
    OutcomeProblem{"session_exists", 409, "already_exists"},
    OutcomeProblem{"key_exists", 409, "already_exists"},
    OutcomeProblem{"name_taken", 409, "already_exists"},
    OutcomeProblem{"too_many", 409},
    OutcomeProblem{"refused", 409},
    OutcomeProblem{"amount_too_large", 422},
};

std::string_view without_suffix(std::string_view text, std::string_view suffix) {
    return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : std::string_view();
}

}  // namespace

Problem invalid(std::string detail, std::string pointer) {
    return {.status = 400, .code = "invalid_request", .detail = std::move(detail), .pointer = std::move(pointer)};
}

Problem invalid(const BadMember& bad) {
    const std::string_view name = std::string_view(bad.pointer).substr(bad.pointer.rfind('/') + 1);
    return invalid(name.empty() ? "the body " + bad.detail : fmt::format("{} {}", name, bad.detail), bad.pointer);
}

Problem not_found(std::string_view what, std::string_view name) {
    Problem problem{.status = 404, .code = "not_found", .detail = fmt::format("there is no {} '{}'", what, name)};
    problem.facts = ",\"what\":" + to_json(what) + ",\"name\":" + to_json(name);
    return problem;
}

Problem unavailable(std::string detail) { return {.status = 503, .code = "unavailable", .detail = std::move(detail)}; }

Problem not_in_this_org(std::string detail, std::string pointer) {
    return {.status = 403, .code = "not_in_this_org", .detail = std::move(detail), .pointer = std::move(pointer)};
}

Problem problem_of(engine::SubmitError error) {
    using enum engine::SubmitError;
    switch (error) {
        case busy:
            return {.status = 503,
                    .code = "busy",
                    .detail = "too many commands are queued; nothing changed; retry with the same key"};
        case too_late:
            return {.status = 503,
                    .code = "busy",
                    .detail = "the command timed out in the queue; nothing changed; retry with the same key"};
        case key_reused:
            return {.status = 422,
                    .code = "key_reused",
                    .detail = "this idempotency key belongs to an earlier, different request; use a new key"};
        case not_committed:
            return {.status = 503,
                    .code = "not_committed",
                    .detail = "the store refused the write; nothing changed; retry with the same key"};
        case outcome_unknown:
            return {.status = 503,
                    .code = "outcome_unknown",
                    .detail =
                        "the store did not confirm the write, so the change may have happened; retry with the same "
                        "idempotency "
                        "key"};
        case unavailable:
            break;
    }
    return api::unavailable("the store cannot be reached; nothing changed; retry");
}

std::optional<Problem> problem_of(Sender sender) {
    switch (sender) {
        case Sender::outside:
            return std::nullopt;
        case Sender::run:
            return Problem{.status = 403,
                           .code = "inside_a_run",
                           .detail =
                               "a program in a run must use the run's API key and cannot act as operator or admin; "
                               "run the command outside of runs"};
        case Sender::unknown:
            break;
    }
    return Problem{
        .status = 403,
        .code = "sender_unknown",
        .detail =
            "the server cannot identify the program that sent this request, so it may belong to a run; keep "
            "the connection open until the response arrives, and call from a process that the server can see"};
}

std::string_view person_needed_for(std::string_view code) {
    if (code == "budget_exceeded") return "a person can raise the limit";
    if (code == "budget_frozen") return "a person must find the reason and unfreeze it";
    if (code == "agent_paused") return "a person can resume it";
    if (code == "concurrency_limit") return "a person can raise the cap";
    return {};
}

std::string to_text(const Problem& problem, std::string_view request_id) {
    std::string out = "{\"type\":\"about:blank\",\"title\":";
    put_json(out, net::reason_of(problem.status));
    out += ",\"status\":";
    put_json(out, problem.status);
    out += ",\"code\":";
    put_json(out, problem.code);
    out += ",\"detail\":";
    put_json(out, problem.detail);
    if (!problem.pointer.empty()) {
        out += ",\"pointer\":";
        put_json(out, problem.pointer);
    }
    if (!request_id.empty()) {
        out += ",\"request_id\":";
        put_json(out, request_id);
    }
    return out + problem.facts + "}";
}

net::Response to_response(const Problem& problem, std::string_view request_id) {
    net::Response response;
    response.status = problem.status;
    response.content_type = "application/problem+json";
    response.body = to_text(problem, request_id);
    if (problem.status == 503 && problem.code != "outcome_unknown") response.headers.push_back({"retry-after", "1"});
    if (problem.status == 401) response.headers.push_back({"www-authenticate", "Bearer"});
    return response;
}

std::optional<Problem> problem_of_outcome(std::string_view outcome, std::string_view detail) {
    for (const OutcomeProblem& meaning : meanings) {
        if (meaning.outcome != outcome) continue;
        Problem problem{.status = meaning.status,
                        .code = std::string(meaning.code.empty() ? outcome : meaning.code),
                        .detail = std::string(detail)};
        if (problem.detail.empty()) problem.detail = problem.code;
        if (meaning.code == "not_found") {
            problem.facts = ",\"what\":" + to_json(without_suffix(outcome, "_not_found"));
        }
        return problem;
    }
    return std::nullopt;
}

std::string facts_of(const core::BudgetRefusal& budget) {
    const auto amount = [&](std::int64_t units) { return to_json(amount_text(budget.metric, units)); };
    std::string facts = fmt::format(
        R"(,"budget":{},"metric":{},"limit":{},"settled":{},"held":{},"requested":{},"free":{},"open_holds":{},"window_end":{})",
        to_json(budget.budget), to_json(budget.metric), amount(budget.limit_units), amount(budget.settled),
        amount(budget.held), amount(budget.requested), amount(budget.free), budget.open_holds,
        to_json(budget.window_end));
    if (!budget.frozen.empty()) facts += ",\"frozen\":" + to_json(budget.frozen);
    return facts;
}

std::string facts_of(const core::BlockingRun& holder) {
    return fmt::format(R"(,"holder":{{"run":{},"agent":{},"status":{},"path":{},"since":{}}})", to_json(holder.run),
                       to_json(holder.agent), to_json(holder.state),
                       holder.place.path.empty() ? "null" : to_json(holder.place.path), to_json(holder.since));
}

namespace {

template <class Reply>
std::optional<Problem> refusal_in(const Reply& reply) {
    if constexpr (std::is_same_v<Reply, core::NoSuchOrg>) {
        return Problem{.status = 404, .code = "not_found", .detail = "the key's org does not exist"};
    } else if constexpr (std::is_same_v<Reply, core::TickReply>) {
        return std::nullopt;
    } else {
        if constexpr (std::is_same_v<Reply, core::WakeReply>) {
            if (reply.status == core::WakeStatus::refused) return refusal_in(reply.admit);
        }
        auto problem = problem_of_outcome(boost::describe::enum_to_string(reply.status, ""), reply.detail);
        if (!problem) return problem;
        if constexpr (requires { reply.budget; }) {
            if (reply.budget) problem->facts += facts_of(*reply.budget);
        }
        if constexpr (requires { reply.holder; }) {
            if (reply.holder) problem->facts += facts_of(*reply.holder);
        }
        if constexpr (std::is_same_v<Reply, core::AppendReply>) {
            if (reply.status == core::AppendStatus::unexpected_seq) {
                problem->facts += ",\"next_seq\":" + to_json(reply.next_seq);
            }
        }
        return problem;
    }
}

}  // namespace

std::optional<Problem> refusal_of(const core::Reply& reply) {
    return std::visit([](const auto& of_kind) { return refusal_in(of_kind); }, reply);
}

std::string amount_text(core::Metric metric, std::int64_t units) {
    return metric == core::Metric::usd ? interlock::to_text(Money::nanos(units)) : std::to_string(units);
}

std::optional<std::int64_t> amount_from_text(core::Metric metric, std::string_view text) {
    if (metric == core::Metric::usd) {
        const auto money = money_from_text(text);
        return money ? std::optional(money->nanos()) : std::nullopt;
    }
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
    return count;
}

}  // namespace interlock::api
