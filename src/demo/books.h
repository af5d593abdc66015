// What the simulated agents were told, in their own books: no row of the store is read for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/money.h"

namespace interlock::demo {

constexpr const char* budget_name = "demo";
constexpr Money budget_limit = Money::dollars(10);

// "agent-007"
inline std::string agent_name(int agent) { return fmt::format("agent-{:03}", agent); }

// Which message it is. Its text in the store is made of nothing else, so it can be told from every other.
struct DemoMessage {
    int agent = 0;
    int turn = 0;
    int part = 0;  // Of the turn.
    std::string text() const { return fmt::format("{}, turn {}, part {}", agent_name(agent), turn, part); }
};

struct PlaceBook {
    std::string name;
    std::string other_name = {};  // A symbolic link that leads there too.
    std::string worker = {};      // Who works there now; empty: nobody.
    std::int64_t runs = 0;        // That got the place.
    std::int64_t in_line = 0;
    std::int64_t turned_away = 0;
};

struct DemoBooks {
    std::int64_t spent = 0;  // Nano-dollars.
    std::int64_t held = 0;
    std::int64_t calls_paid = 0;
    std::int64_t calls_refused = 0;  // By the budget; so are these:
    std::int64_t runs_refused = 0;
    std::vector<DemoMessage> messages;  // By their number in the session.
    std::int64_t messages_told = 0;
    std::vector<PlaceBook> places;
    std::int64_t collisions = 0;   // A directory's lock was taken when its run began.
    std::vector<std::string> odd;  // Answers that nothing here can explain: the first few.

    std::int64_t runs() const {
        std::int64_t sum = 0;
        for (const PlaceBook& place : places) sum += place.runs;
        return sum;
    }
};

// What the kill left behind, and what became of it.
struct KillTally {
    std::string left_behind = {};    // What the checker finds in the dead process's files; empty: nothing.
    std::int64_t acknowledged = 0;   // Commands that were done and said to be done, before the kill.
    std::int64_t remembered = 0;     // Of those: the latest, to be asked again. All, unless there were very many.
    std::int64_t asked_again = 0;    // Of those: with the same key, after it.
    std::int64_t found = 0;          // Of those: known, with the same answer.
    std::vector<std::string> lost;   // The first few that were not.
    std::int64_t in_flight = 0;      // Without an answer when the process was killed.
    std::int64_t had_been_done = 0;  // Of those: done by the killed process, and answered from the first time.
    std::int64_t done_later = 0;     // Of those: carried out, or refused, by the next process.
};

}  // namespace interlock::demo
