// What a worker asks, as a function of who asks and how often he has asked: so that the parent, who only saw the
// answers, can ask the same again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/command.h"
#include "core/reply.h"

namespace interlock::crash {

struct Question {
    std::uint64_t epoch = 0;
    unsigned client = 0;
    std::uint64_t number = 0;
    std::int64_t fence = 0;  // Of the run that the question before admitted; 0: it did not.
    bool session_only = false;
};

core::SessionId shared_session();
// In order, before everything else. The same in every epoch: the second time they are repeats.
std::vector<core::Command> preparations();

// Empty when there is nothing to ask: a run that was not admitted cannot be finished.
std::optional<core::Command> command_of(const Question& question);
// What the messages of a turn say.
std::string content_of(const Question& question, std::size_t message);

// One line of the pipe.
struct Answered {
    Question question;
    std::string reply;  // Encoded.
};
std::string to_line(const Answered& answered);
std::optional<Answered> from_line(std::string_view line);

}  // namespace interlock::crash
