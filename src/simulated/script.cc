#include "simulated/script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>

namespace interlock::simulated {
namespace {

struct Number {
    std::string_view name;
    std::int64_t Script::* member;
    std::int64_t max;
};

constexpr std::int64_t any_number_max = 1'000'000'000'000;

constexpr std::array numbers{
    Number{"cached", &Script::cached, any_number_max},
    Number{"cache_write", &Script::cache_write, any_number_max},
    Number{"cache_write_1h", &Script::cache_write_1h, any_number_max},
    Number{"audio_in", &Script::audio_in, any_number_max},
    Number{"reasoning", &Script::reasoning, any_number_max},
    Number{"audio_out", &Script::audio_out, any_number_max},
    Number{"searches", &Script::searches, 100},
    Number{"exceed", &Script::exceed, any_number_max},
    Number{"chunks", &Script::chunks, simulated_chunks_max},
    Number{"delay_ms", &Script::delay_ms, simulated_wait_ms_max},
    Number{"chunk_delay_ms", &Script::chunk_delay_ms, simulated_wait_ms_max},
    Number{"retry_after", &Script::retry_after, any_number_max},
    Number{"fail_times", &Script::fail_times, any_number_max},
};

// Walks over a text and knows whether it is inside of quotes or braces, where a separator separates nothing.
class Nesting {
 public:
    bool step(char c) {
        if (escaped_) {
            escaped_ = false;
        } else if (quoted_) {
            escaped_ = c == '\\';
            quoted_ = c != '"';
        } else {
            quoted_ = c == '"';
            if (c == '{') ++depth_;
            if (c == '}') depth_ = std::max(0, depth_ - 1);
        }
        return !quoted_ && depth_ == 0;
    }

 private:
    bool quoted_ = false;
    bool escaped_ = false;
    int depth_ = 0;
};

// Takes the next key=value from the front.
std::string_view take_pair(std::string_view& text, std::string_view separators) {
    const auto begin = text.find_first_not_of(separators);
    if (begin == std::string_view::npos) return text = {};
    Nesting nesting;
    std::size_t end = begin;
    while (end < text.size() && !(nesting.step(text[end]) && separators.find(text[end]) != std::string_view::npos))
        ++end;
    const std::string_view pair = text.substr(begin, end - begin);
    text.remove_prefix(end);
    return pair;
}

std::optional<std::int64_t> number_of(std::string_view value, std::int64_t max) {
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < 0 || number > max) return std::nullopt;
    return number;
}

std::optional<bool> switch_of(std::string_view value) {
    if (value == "1" || value == "0") return value == "1";
    return std::nullopt;
}

bool is_json_object(std::string_view text) {
    boost::system::error_code error;
    return boost::json::parse(text, error).is_object() && !error;
}

bool is_dollars(std::string_view text) {
    boost::system::error_code error;
    const boost::json::value value = boost::json::parse(text, error);
    return !error && value.is_number() && !text.starts_with('-');
}

// Stores a value that was understood.
template <class Member, class Value>
bool set(Member& member, const std::optional<Value>& value) {
    if (value) member = static_cast<Value>(*value);
    return value.has_value();
}

// False: it cannot be meant. Nothing: there is no such directive.
std::optional<bool> obey(Script& script, std::string_view name, const std::string& value) {
    for (const Number& each : numbers) {
        if (each.name == name) return set(script.*each.member, number_of(value, each.max));
    }
    if (name == "input") return set(script.input, number_of(value, any_number_max));
    if (name == "output") return set(script.output, number_of(value, simulated_tokens_max));
    if (name == "cut_after") return set(script.cut_after, number_of(value, any_number_max));
    if (name == "no_usage") return set(script.no_usage, switch_of(value));
    if (name == "hang") return set(script.hang, switch_of(value));
    if (name == "text") return script.text = value, true;
    if (name == "tool") return script.tool = value, !value.empty();
    if (name == "tool_args") return script.tool_args = value, is_json_object(value);
    if (name == "fail_key") return script.fail_key = value, true;
    if (name == "cost") return script.cost = value, is_dollars(value);
    if (name == "status") {
        const auto status = number_of(value, 599);
        script.status = static_cast<int>(status.value_or(0));
        return script.status >= 400;
    }
    return std::nullopt;
}

// "a b" → a b
std::string without_quotes(std::string_view value) {
    if (value.size() < 2 || !value.starts_with('"') || !value.ends_with('"')) return std::string(value);
    std::string text;
    for (std::size_t i = 1; i + 1 < value.size(); ++i) {
        if (value[i] == '\\' && i + 2 < value.size()) ++i;
        text.push_back(value[i]);
    }
    return text;
}

}  // namespace

Result<void, std::string> read_script(std::string_view text, ScriptForm form, Script& script) {
    const std::string_view separators = form == ScriptForm::header ? "; \t" : " \t\r\n";
    while (true) {
        const std::string_view pair = take_pair(text, separators);
        if (pair.empty()) return {};
        const auto equals = pair.find('=');
        if (equals == std::string_view::npos) {
            return fail(fmt::format("a directive is key=value, and '{}' is not", pair));
        }
        const std::string_view name = pair.substr(0, equals);
        const auto obeyed = obey(script, name, without_quotes(pair.substr(equals + 1)));
        if (!obeyed) return fail(fmt::format("there is no directive '{}'", name));
        if (!*obeyed) return fail(fmt::format("the directive '{}' cannot be '{}'", name, pair.substr(equals + 1)));
    }
}

std::optional<std::string_view> find_script(std::string_view prompt) {
    const auto begin = prompt.rfind(script_begin);
    if (begin == std::string_view::npos) return std::nullopt;
    const std::string_view text = prompt.substr(begin + script_begin.size());
    Nesting nesting;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (nesting.step(text[i]) && text.substr(i).starts_with("]]")) return text.substr(0, i);
    }
    return std::nullopt;
}

}  // namespace interlock::simulated
