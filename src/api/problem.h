// What a client is told when the answer is no (RFC 9457): a stable `code`, a sentence, and the facts behind it.
//
// The codes and their statuses are one table (problem.cc). Core's outcome names are codes; those that say "X_not_found"
// share one, with `what` beside it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/wire.h"
#include "core/reply.h"
#include "engine/engine.h"
#include "net/http.h"

namespace interlock::api {

struct Problem {
    int status = 500;
    std::string code;
    std::string detail;
    std::string pointer = {};  // Where in the body; empty: nowhere in particular.
    std::string facts = {};    // More members, as JSON text: ,"holder":{…}
};

Problem invalid(std::string detail, std::string pointer = {});
Problem invalid(const BadMember& bad);
Problem not_found(std::string_view what, std::string_view name);
Problem unavailable(std::string detail);
// What only the org of those who run the server has.
Problem not_in_this_org(std::string detail, std::string pointer = {});
Problem problem_of(engine::SubmitError error);

// Where the program is that sends a request, as far as this machine's kernel shows it.
enum class Sender { outside, run, unknown };
// Why it may not act as operator or admin; nothing: it may.
std::optional<Problem> problem_of(Sender sender);

// What a person can do where an agent is refused with this code; empty: nothing that the agent cannot.
std::string_view person_needed_for(std::string_view code);

// The JSON object, and the response that carries it.
std::string to_text(const Problem& problem, std::string_view request_id);
net::Response to_response(const Problem& problem, std::string_view request_id);

// The problem that an outcome's name stands for. Empty: it is one of the ways to succeed.
std::optional<Problem> problem_of_outcome(std::string_view outcome, std::string_view detail);

std::string facts_of(const core::BudgetRefusal& budget);
std::string facts_of(const core::BlockingRun& holder);

// The refusal in a reply, with every fact the reply has. Empty: the command was carried out.
std::optional<Problem> refusal_of(const core::Reply& reply);

// "10.00" or "1000": an amount in a budget's metric.
std::string amount_text(core::Metric metric, std::int64_t units);
// Empty when it is not one.
std::optional<std::int64_t> amount_from_text(core::Metric metric, std::string_view text);

}  // namespace interlock::api
