// What nodes say to each other: commands on their way to the node that writes their org, and the answers back.
//
//   (1) A message begins with `format`. A node of another format is told so and nothing is read further.
//   (2) Answers come in the order of their commands, one for each.
//   (3) What cannot be read is refused whole; nobody's bytes are trusted (base/codec.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace interlock::nodes {

inline constexpr std::uint64_t format = 5;  // Changes with any command or reply.

// A command on its way. How long it may still wait is said instead of until when: clocks differ.
struct Forwarded {
    core::Command command;
    Duration timeout{};
    std::uint32_t hops = 0;
};

std::string encode_commands(const std::vector<engine::Submission>& submissions, Instant now);
std::optional<std::vector<Forwarded>> decode_commands(std::string_view bytes);

// How far the writer's history of an org went when it answered. Whoever passes the answer on remembers it first.
struct Head {
    core::OrgId org;
    core::Seq last_seq;
    std::string hash;
    friend bool operator==(const Head&, const Head&) = default;
};
BOOST_DESCRIBE_STRUCT(Head, (), (org, last_seq, hash))

struct Answers {
    bool written_here = false;  // The node that answered is the one that writes the org.
    std::vector<Head> heads;
    std::vector<engine::SubmitResult> answers;
};
std::string encode_answers(const Answers& answers);
std::optional<Answers> decode_answers(std::string_view bytes);

}  // namespace interlock::nodes
