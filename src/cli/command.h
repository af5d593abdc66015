// Commands as tables: names, flags, the request, the view of the response, and examples. Parsing, help, completion,
// docs/cli.md and the tests use the same table.
#pragma once

#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/exit_code.h"
#include "cli/view.h"

namespace interlock::cli {

struct Context;

// The type of a value, which decides its form in the query or body.
enum class ValueType {
    text,
    number,    // A whole number.
    decimal,   // A number that may have a fraction.
    amount,    // Money or a count, as a decimal number with an optional $. Sent as text, never as a float.
    words,     // a,b,c → an array of texts in a body, the text as it is in a query.
    numbers,   // 50,80 → an array of numbers.
    repeat,    // Repeatable; → an array of texts.
    pairs,     // k=v, repeatable; → an object.
    counts,    // k=5, repeatable; → an object of numbers.
    length,    // A time: 90s, 30m, 2h, 1d; → seconds.
    json,      // A JSON object.
    instant,   // A date, an instant, or a time ago: 2026-11-01, 2026-11-01T09:00:00Z, 24h.
    date,      // The same, rounded to the day.
    path,      // Relative to the current directory; sent as an absolute path.
    paths,     // The same, repeatable; → an array.
    segments,  // Words with slashes between them, as in a path: provider/anthropic.
    content,   // Text; "-" reads standard input.
    on,        // A switch: present → true.
    off,       // A switch: present → false.
};

constexpr bool is_switch(ValueType takes) { return takes == ValueType::on || takes == ValueType::off; }

struct Range {
    double min;
    double max;
};

struct Flag {
    std::string name;  // Without the dashes.
    std::string value = {};
    std::string help = {};
    ValueType takes = ValueType::text;
    std::string member = {};                // Of the request, such as "scope.agent". Empty: the name, with _ for -.
    std::vector<std::string> choices = {};  // Allowed values; empty: any.
    std::string completes = {};             // The noun whose names complete it.
    bool local = false;                     // Not sent; the command reads it itself.
    bool required = false;
    std::string short_name = {};
    std::vector<std::string> old_names = {};  // Accepted, and not in the help.
    std::optional<Range> range = {};          // Of a number.
    bool hidden = false;                      // Not in the help and not completed.
};

struct Argument {
    enum class Needed { yes, no, many };
    std::string name;  // Replaces {name} in the path. If the path lacks it, it is a member of the request.
    std::string help = {};
    std::string completes = {};
    ValueType takes = ValueType::text;
    Needed needed = Needed::yes;
    std::vector<std::string> choices = {};
    std::string member = {};
};

struct Example {
    std::string line;
    std::string what;
};

// The arguments and flags that were typed, as texts.
struct Invocation {
    std::vector<std::string> arguments = {};
    std::map<std::string, std::vector<std::string>> flags = {};

    bool has(const std::string& flag) const { return flags.contains(flag); }
    std::optional<std::string> value(const std::string& flag) const {
        const auto found = flags.find(flag);
        return found == flags.end() || found->second.empty() ? std::nullopt : std::optional(found->second.back());
    }
    std::string text(const std::string& flag) const { return value(flag).value_or(""); }
    std::vector<std::string> texts(const std::string& flag) const {
        const auto found = flags.find(flag);
        return found == flags.end() ? std::vector<std::string>() : found->second;
    }
    // Of a flag with a range, whose value was checked.
    double number(const std::string& flag, double otherwise) const {
        const auto text = value(flag);
        return text ? std::strtod(text->c_str(), nullptr) : otherwise;
    }
};

struct CliCommand {
    enum class ResponseShape {
        list,   // In pages.
        whole,  // A list without pages.
        one,
        nothing,  // Status 204; `done` goes to the error stream.
    };

    std::vector<std::string> words;  // {"agents", "ls"}, {"status"}
    std::string summary;
    std::vector<Argument> arguments = {};
    std::vector<Flag> flags = {};
    std::vector<Example> examples = {};

    // Most commands are one request and its response…
    std::string method = {};
    std::string path = {};
    ResponseShape answer = ResponseShape::one;
    const View* view = nullptr;
    std::string done = {};  // "paused agent {name}", for the error stream.

    // … the others have a function.
    std::function<ExitCode(Context&, const Invocation&)> run = {};
    std::string notes = {};  // Shown in the help, above the examples.
    bool hidden = false;
    std::string old_name = {};  // An earlier last word. Still accepted, and not in the help.

    bool reads() const { return method == "GET"; }
    bool changes() const { return !method.empty() && !reads(); }
    std::string name() const;
};

struct Noun {
    std::string name;
    std::string summary;
    std::string old_name = {};  // As that of a command.
};

// The commands that are requests to a server, in the order of the help. Those that are none come from main.
const std::vector<CliCommand>& commands();
const std::vector<Noun>& nouns();
const CliCommand* find_command(const std::vector<std::string>& words);

// Flags that every command of a kind has, beside its own.
const std::vector<Flag>& global_flags();
std::vector<Flag> all_flags(const CliCommand& command);

}  // namespace interlock::cli
