// Interlock inside your own program: 20 threads spend from one budget, and the total is exact to the last digit.
//
//     embed [directory]        the data is kept there; without an argument, in ./interlock-data
//
// Run it as often as you like: the data stays, and every run adds another 15 dollars to the same month.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/embedded.h"

namespace {

using namespace interlock;

constexpr int thread_count = 20;
constexpr int charges_per_thread = 1'000;
constexpr std::string_view cost_text = "0.00075";    // What one call costs, in dollars.
constexpr std::string_view expected_text = "15.00";  // 20 x 1,000 x 0.00075. With doubles this would be 15.000000000…

// Every command gets one of three kinds of answer. This turns all but the one we hope for into a message:
//   - the engine could not do it (the queue is full, the disk failed): answer.error() says which;
//   - the rules refused it: its reply has another status than the one for success;
//   - it was done: nullopt.
template <class Reply, class Status>
std::optional<std::string> problem_of(const engine::SubmitResult& answer, std::initializer_list<Status> good) {
    if (!answer) return fmt::format("the engine could not carry it out (error {})", static_cast<int>(answer.error()));
    const auto* reply = std::get_if<Reply>(&answer->reply);
    if (reply == nullptr) return "the answer is of another kind";
    for (const Status status : good) {
        if (reply->status == status) return std::nullopt;
    }
    return fmt::format("refused (status {}) {}", static_cast<int>(reply->status), reply->detail);
}

// A worker that may spend, and what it may spend in a calendar month. Putting the same agent or budget again changes
// nothing, so a program can simply do this every time it starts.
std::optional<std::string> set_up(engine::Embedded& interlock) {
    core::PutAgent agent;
    agent.name = "writer";
    const auto agent_answer = interlock.ask({.org = {}, .key = {}, .body = agent});
    if (const auto problem =
            problem_of<core::AgentReply>(agent_answer, {core::AgentStatus::done, core::AgentStatus::unchanged})) {
        return "agent: " + *problem;
    }

    core::PutBudget budget;
    budget.name = "writer-monthly";
    budget.scope.agent = "writer";  // Covers whatever is charged to this agent.
    budget.window = WindowKind::month;
    budget.zone = "Europe/Berlin";  // Whose midnight the month turns at.
    budget.limit_units = Money::dollars(1'000'000).nanos();
    const auto budget_answer = interlock.ask({.org = {}, .key = {}, .body = budget});
    if (const auto problem =
            problem_of<core::BudgetReply>(budget_answer, {core::BudgetStatus::done, core::BudgetStatus::unchanged})) {
        return "budget: " + *problem;
    }
    return std::nullopt;
}

// ask() returns when the charge is on disk. With the same key it can be asked again, whatever happened to the first
// try, and is charged once; a program that must survive its own crash keeps the key with the work it stands for.
std::optional<std::string> charge_once(engine::Embedded& interlock, Money cost) {
    core::Charge charge;
    charge.who.agent = "writer";
    charge.who.provider = "anthropic";
    charge.who.model = "claude-sonnet-4";
    charge.cost = cost;
    charge.usage.input_tokens = 100;
    charge.usage.output_tokens = 30;
    const core::CommandKey key(interlock.fresh_id());
    for (int attempt = 1;; ++attempt) {
        const auto answer = interlock.ask({.org = {}, .key = key, .body = charge});
        const bool try_again = !answer && (answer.error() == engine::SubmitError::busy ||
                                           answer.error() == engine::SubmitError::outcome_unknown);
        if (try_again && attempt < 10) continue;
        return problem_of<core::ChargeReply>(answer, {core::ChargeStatus::charged});
    }
}

// What the ledger has for the agent, read beside the engine from a snapshot of the committed rows.
std::optional<Money> total_of(engine::Embedded& interlock, std::string& problem) {
    auto snapshot = interlock.store().snapshot();
    if (!snapshot) {
        problem = snapshot.error().detail;
        return std::nullopt;
    }
    std::int64_t nanos = 0;
    const auto read = (*snapshot)->query("select settled from agent_totals where agent = 'writer'",
                                         [&](const std::vector<store::Value>& row) {
                                             if (const auto* value = std::get_if<std::int64_t>(&row.at(0)))
                                                 nanos = *value;
                                         });
    if (!read) {
        problem = read.error().detail;
        return std::nullopt;
    }
    return Money::nanos(nanos);
}

int complain(std::string_view what) {
    fmt::print(stderr, "embed: {}\n", what);
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 2) return complain("usage: embed [directory]");
    const std::string directory = argc == 2 ? argv[1] : "interlock-data";

    auto opened =
        engine::Embedded::open({.directory = directory, .engine = {}, .ask_timeout = std::chrono::seconds(30)});
    if (!opened) return complain(opened.error().detail);
    engine::Embedded& interlock = **opened;
    if (const auto problem = set_up(interlock)) return complain(*problem);

    std::string problem;
    const auto before = total_of(interlock, problem);
    if (!before) return complain(problem);

    // Money is read from text and never passes through a float.
    const auto cost = money_from_text(cost_text);
    const auto expected = money_from_text(expected_text);
    if (!cost || !expected) return complain("an amount in this program is not an amount");

    std::vector<std::optional<std::string>> problems(thread_count);
    std::vector<std::thread> threads;
    for (int number = 0; number < thread_count; ++number) {
        threads.emplace_back([&interlock, cost, &first_problem = problems[static_cast<std::size_t>(number)]] {
            for (int i = 0; i < charges_per_thread && !first_problem; ++i)
                first_problem = charge_once(interlock, *cost);
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& first_problem : problems) {
        if (first_problem) return complain("charge: " + *first_problem);
    }

    const auto after = total_of(interlock, problem);
    if (!after) return complain(problem);
    const auto added = checked_difference(*after, *before);
    if (!added) return complain("the totals are out of range");
    fmt::print("{} threads x {} charges of {}: {} dollars, expected {}\n", thread_count, charges_per_thread, cost_text,
               to_text(*added), to_text(*expected));
    return *added == *expected ? 0 : complain("the total is not what it should be");
}
