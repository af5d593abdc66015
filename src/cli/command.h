// Commands as data. What a person can type, what it asks of the server, how the answer looks, and the examples are one
// description; parsing, help, completion and the tests all read it.
#pragma once

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

// What a value is, and so what becomes of it in the query or the body.
enum class ValueType {
    text,
    number,    // A whole number.
    amount,    // Money or a count, as a decimal number; a leading $ is allowed. Sent as text: no float touches it.
    words,     // a,b,c → an array of texts in a body, the text as it is in a query.
    numbers,   // 50,80 → an array of numbers.
    repeat,    // May be given again and again; → an array of texts.
    pairs,     // k=v, again and again; → an object.
    counts,    // k=5, again and again; → an object of numbers.
    length,    // How long: 90s, 30m, 2h, 1d; → seconds.
    json,      // A JSON object.
    instant,   // A date, an instant, or how long ago: 2026-11-01, 2026-11-01T09:00:00Z, 24h.
    date,      // The same, to the day.
    path,      // A file or directory as seen from here; sent as an absolute path.
    paths,     // The same, again and again; → an array.
    segments,  // Words with slashes between them, as in a path: provider/anthropic.
    content,   // Text; "-" reads standard input.
    on,        // A switch: present → true.
    off,       // A switch: present → false.
};

constexpr bool is_switch(ValueType takes) { return takes == ValueType::on || takes == ValueType::off; }

struct Flag {
    std::string name;  // Without the dashes.
    std::string value = {};
    std::string help = {};
    ValueType takes = ValueType::text;
    std::string member = {};                // Where it goes: "scope.agent". Empty: by its name, with _ for -.
    std::vector<std::string> choices = {};  // What it may be; empty: anything.
    std::string completes = {};             // The noun whose names complete it.
    bool local = false;                     // Not sent: the command itself looks at it.
    bool required = false;
    std::string short_name = {};
};

struct Argument {
    enum class Needed { yes, no, many };
    std::string name;  // As in the path: {name}. What is in no path goes to the body.
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

// What was typed, taken apart but not yet understood.
struct Invocation {
    std::vector<std::string> arguments = {};
    std::map<std::string, std::vector<std::string>> flags = {};

    bool has(const std::string& flag) const { return flags.contains(flag); }
    std::optional<std::string> value(const std::string& flag) const {
        const auto found = flags.find(flag);
        return found == flags.end() || found->second.empty() ? std::nullopt : std::optional(found->second.back());
    }
};

struct CliCommand {
    enum class ResponseShape {
        list,   // In pages.
        whole,  // A list that comes in one piece.
        one,
        nothing,  // 204: what was done is said on the error stream.
    };

    std::vector<std::string> words;  // {"agents", "ls"}, {"status"}
    std::string summary;
    std::vector<Argument> arguments = {};
    std::vector<Flag> flags = {};
    std::vector<Example> examples = {};

    // Most commands are one request and its answer…
    std::string method = {};
    std::string path = {};
    ResponseShape answer = ResponseShape::one;
    const View* view = nullptr;
    std::string done = {};  // "paused agent {name}"; said on the error stream.

    // … the others are written out.
    std::function<ExitCode(Context&, const Invocation&)> run = {};
    std::string notes = {};  // Shown in the help, above the examples.
    bool hidden = false;

    bool reads() const { return method == "GET"; }
    bool changes() const { return !method.empty() && !reads(); }
    std::string name() const;
};

struct Noun {
    std::string name;
    std::string summary;
};

// Everything there is, in the order of the help.
const std::vector<CliCommand>& commands();
const std::vector<Noun>& nouns();
const CliCommand* find_command(const std::vector<std::string>& words);

// Flags that every command of a kind has, beside its own.
const std::vector<Flag>& global_flags();
std::vector<Flag> all_flags(const CliCommand& command);

}  // namespace interlock::cli
