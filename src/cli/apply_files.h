// The files of `interlock apply`: agents with their budgets and schedules, and caps.
//
//   DIR/agents/*.yaml (or DIR/*.yaml, if there is no DIR/agents): one agent per document.
//   DIR/interlock.yaml: an optional name of the directory, and caps.
//
//   (1) One reading finds all mistakes of all files, each with its place.
//   (2) Omitted members get their defaults, so that the files alone define the result.
//   (3) Amounts go from the file to the server as text.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/yaml.h"

namespace interlock::cli {

inline constexpr std::size_t label_bytes_max = 128;  // The server's limit for names and tags.

struct Mistake {
    std::string file;
    Spot at = {};
    std::string what;
    std::string hint = {};
};

enum class Kind { cap, agent, budget, schedule };
std::string_view name_of(Kind kind);

// An object that the files define.
struct Wanted {
    Kind kind = Kind::agent;
    std::string name;  // Of a cap: "org", "provider/anthropic", "node/a".
    boost::json::object body = {};
    std::string agent = {};  // The agent whose document has this budget or schedule.
    std::string file = {};
    Spot at = {};
};

struct ApplyFiles {
    std::string set;             // Marks everything that comes from this directory.
    std::vector<Wanted> wanted;  // In the order of the files.
    std::vector<Mistake> mistakes;
};

// `home` replaces ~ in paths.
ApplyFiles read_apply_files(const std::string& directory, const std::string& home);

// The defaults of omitted members.
const boost::json::object& defaults_of(Kind kind);

// Splits a line like a shell, with quotes and backslashes and nothing else. Empty if a quote is not closed.
std::optional<std::vector<std::string>> shell_words(std::string_view text);

// Tags of an agent with this prefix belong to `apply`.
inline constexpr std::string_view mark_prefix = "interlock.";
inline constexpr std::string_view set_mark = "interlock.apply";
// The tag of an agent that says that apply made this budget or schedule for it.
std::string mark_of(Kind kind, std::string_view name);

}  // namespace interlock::cli
