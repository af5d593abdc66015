// The files of `interlock apply`: agents with their budgets and schedules, and caps, as a directory has them.
//
//   DIR/agents/*.yaml (or DIR/*.yaml, if there is no DIR/agents) has one agent in each document;
//   DIR/interlock.yaml may have a name for all of it, and caps.
//
//   (1) Whatever is wrong is found in one reading, in all files, each mistake with its place.
//   (2) What a file does not say has its default, so that a file says all there is to know.
//   (3) Amounts go from the file to the server as text.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/yaml.h"

namespace interlock::cli {

inline constexpr std::size_t label_bytes_max = 128;  // As the server has it for names and tags.

struct Mistake {
    std::string file;
    Spot at = {};
    std::string what;
    std::string hint = {};
};

enum class Kind { cap, agent, budget, schedule };
std::string_view name_of(Kind kind);

// What the files want to be there.
struct Wanted {
    Kind kind = Kind::agent;
    std::string name;  // Of a cap: "org", "provider/anthropic", "node/a".
    boost::json::object body = {};
    std::string agent = {};  // In whose document a budget or a schedule stands.
    std::string file = {};
    Spot at = {};
};

struct ApplyFiles {
    std::string set;             // What all that comes from here is marked with.
    std::vector<Wanted> wanted;  // In the order of the files.
    std::vector<Mistake> mistakes;
};

// `home` stands for ~ in paths.
ApplyFiles read_apply_files(const std::string& directory, const std::string& home);

// What is not said of an agent, a budget or a schedule.
const boost::json::object& defaults_of(Kind kind);

// As a shell takes a line apart, with quotes and backslashes and nothing else. Nothing when a quote does not end.
std::optional<std::vector<std::string>> shell_words(std::string_view text);

// What begins like this in an agent's tags is `apply`'s own.
inline constexpr std::string_view mark_prefix = "interlock.";
inline constexpr std::string_view set_mark = "interlock.apply";
// The tag of an agent that says that apply made this budget or schedule for it.
std::string mark_of(Kind kind, std::string_view name);

}  // namespace interlock::cli
