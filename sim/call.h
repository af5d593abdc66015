// A call: one command that one client wants carried out, however many times it has to ask.
//
// What the client knows of it is all that the checkers may hold against the rows:
//
//   done                   Some answer said so. It must be in the rows, once.
//   may_have_happened()    Not done, but a copy is on its way or an answer was lost: both outcomes are right.
//   neither                Every copy was refused, the last one after every lost answer. It must not be in the rows.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/command.h"
#include "core/reply.h"
#include "engine/engine.h"
#include "sim/findings.h"

namespace interlock::sim {

class Workload;

// What its sender knows for sure about the outcome, before it asks.
enum class Expect {
    anything,
    refusal,     // It is nonsense, stale or about something that does not exist.
    key_reused,  // Its key was carried out with other content.
};

struct Call {
    std::uint32_t id = 0;
    Workload* from = nullptr;
    std::uint64_t tag = 0;  // The sender's own mark.
    core::Command command;
    Expect expect = Expect::anything;
    Instant deadline = far_future;

    Promise broken = Promise::honest_answers;  // By an answer that is not as expected.

    std::uint32_t on_the_way = 0;  // Copies that have not been answered: in the network or in the queue.
    std::uint32_t attempts = 0;
    // Answers are numbered as they leave the engine: one that was given before another was lost proves nothing about
    // it.
    std::uint64_t lost_at = 0;
    std::uint64_t heard_at = 0;
    std::uint64_t done_at = 0;
    std::uint64_t refused_at = 0;
    bool gave_up = false;           // Its client has died and will never ask again.
    std::uint32_t first_times = 0;  // Answers that said it was done just now.
    bool done = false;
    std::string first_answer;  // Of a done call: the reply, encoded.

    bool has_key() const { return !command.key.value.empty(); }
    bool answer_lost() const { return lost_at > heard_at; }
    bool may_have_happened() const { return !done && (on_the_way > 0 || answer_lost()); }
    bool open() const { return !gave_up && may_have_happened(); }
};

// Whether the reply says that the command was carried out. Every status enum puts the ways to succeed first.
bool says_done(const core::Reply& reply);

// What can come of a call: a kind of reply with its status, or one of the engine's own errors.
struct Outcome {
    std::size_t kind = 0;
    std::size_t status = 0;
};
constexpr std::size_t outcome_kinds = std::variant_size_v<core::Reply::Kinds> + 1;
constexpr std::size_t outcome_statuses_max = 16;
using OutcomeCounts = std::array<std::array<std::uint64_t, outcome_statuses_max>, outcome_kinds>;

Outcome outcome_of(const engine::SubmitResult& answer);
std::vector<Outcome> all_outcomes();
std::string name_of(Outcome outcome);  // "ChargeReply.budget_exceeded"
std::string kind_of(const core::Command& command);

}  // namespace interlock::sim
