#include "cli/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <filesystem>

#include "base/calendar.h"
#include "base/nearest.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/files.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

struct ArgumentTarget {
    bool in_body;
    std::string label;  // As it was typed: "--limit", "NAME".
    std::string help;   // The command that explains it.
};

Outcome<json::value> value_of(ValueType takes, const ArgumentTarget& place, const std::vector<std::string>& texts,
                              const std::vector<std::string>& choices, Instant now, std::FILE* in);
Failure wrong(const ArgumentTarget& place, std::string_view text, std::string_view wanted);
void put(json::object& body, std::string_view path, json::value value);
std::string member_name(const std::string& member, const std::string& name);
std::string encoded_segments(std::string_view text);

}  // namespace

Outcome<Built> build_request(const CliCommand& command, const Invocation& invocation, Instant now, std::FILE* in) {
    const bool in_body = command.method == "POST" || command.method == "PUT";
    Built built{.target = command.path};
    const std::string help = fmt::format("interlock {} --help", command.name());
    json::object body;
    const auto place_value = [&](const std::string& member, json::value value) {
        if (in_body) return put(body, member, std::move(value));
        built.target = with_query(built.target, member,
                                  value.is_string() ? std::string(value.get_string()) : json::serialize(value));
    };

    // 1. Arguments, in their order; the last may be many.
    for (std::size_t i = 0; i < command.arguments.size() && i < invocation.arguments.size(); ++i) {
        const Argument& argument = command.arguments[i];
        const bool many = argument.needed == Argument::Needed::many;
        const auto first = invocation.arguments.begin() + static_cast<std::ptrdiff_t>(i);
        const std::vector<std::string> texts(first, many ? invocation.arguments.end() : first + 1);
        auto value = value_of(many ? ValueType::repeat : argument.takes, {in_body, argument.name, help}, texts,
                              argument.choices, now, in);
        if (!value) return fail(value.error());
        const std::string hole = '{' + argument.name + '}';
        const std::size_t at = built.target.find(hole);
        if (at == std::string::npos) {
            place_value(member_name(argument.member, argument.name), std::move(*value));
            continue;
        }
        if (texts[0].empty()) {
            return fail(bad_usage(fmt::format("{} is empty", argument.name), "pass a name or an id"));
        }
        const bool segments = argument.takes == ValueType::segments;
        built.target.replace(at, hole.size(), segments ? encoded_segments(texts[0]) : percent_encoded(texts[0]));
    }

    // 2. Flags, in the order of the description, so that the same request is always the same bytes.
    for (const Flag& flag : command.flags) {
        const auto given = invocation.flags.find(flag.name);
        if (given == invocation.flags.end() || flag.local) continue;
        auto value = value_of(flag.takes, {in_body, "--" + flag.name, help}, given->second, flag.choices, now, in);
        if (!value) return fail(value.error());
        place_value(member_name(flag.member, flag.name), std::move(*value));
    }
    if (in_body) built.body = json::serialize(body);
    return built;
}

Outcome<void> check_values(const std::vector<Flag>& flags, const Invocation& invocation, const std::string& help) {
    for (const Flag& flag : flags) {
        const auto given = invocation.flags.find(flag.name);
        if (given == invocation.flags.end() || (flag.choices.empty() && !flag.range)) continue;
        const ArgumentTarget place{.in_body = false, .label = "--" + flag.name, .help = help};
        const auto value = value_of(flag.takes, place, given->second, flag.choices, far_past, nullptr);
        if (!value) return fail(value.error());
        if (!flag.range) continue;
        const double number = value->to_number<double>();
        if (number >= flag.range->min && number <= flag.range->max) continue;
        return fail(wrong(place, given->second.back(),
                          fmt::format("a number from {} to {}", flag.range->min, flag.range->max)));
    }
    return {};
}

std::optional<Instant> instant_from_text(std::string_view text, Instant now) {
    if (const auto at = from_iso8601(text)) return at;
    if (const auto at = from_iso8601(std::string(text) + "T00:00:00Z")) return at;
    constexpr std::array<std::pair<char, std::int64_t>, 4> units{{{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}}};
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end + 1 != text.data() + text.size() || number < 0 || number > 1'000'000) return {};
    for (const auto& [letter, seconds] : units) {
        if (*end == letter) return now - std::chrono::seconds(number * seconds);
    }
    return {};
}

namespace {

std::vector<std::string> split(std::string_view text, char mark) {
    std::vector<std::string> words;
    while (true) {
        const std::size_t at = text.find(mark);
        if (at != 0 && !text.empty()) words.emplace_back(text.substr(0, at));
        if (at == std::string_view::npos) return words;
        text.remove_prefix(at + 1);
    }
}

std::optional<std::int64_t> number_from(std::string_view text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return {};
    return number;
}

bool is_decimal(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos &&
           std::ranges::count(text, '.') <= 1 && text != ".";
}

Failure wrong(const ArgumentTarget& place, std::string_view text, std::string_view wanted) {
    return bad_usage(fmt::format("{} takes {}, not '{}'", place.label, wanted, one_line(text)), place.help);
}

Outcome<json::value> number_value(const ArgumentTarget& place, const std::string& text) {
    const auto number = number_from(text);
    if (!number) return fail(wrong(place, text, "a whole number"));
    return json::value(*number);
}

Outcome<json::value> pairs_value(const ArgumentTarget& place, const std::vector<std::string>& texts) {
    json::object object;
    for (const std::string& text : texts) {
        const std::size_t equals = text.find('=');
        if (equals == std::string::npos || equals == 0) return fail(wrong(place, text, "NAME=VALUE"));
        object[text.substr(0, equals)] = text.substr(equals + 1);
    }
    return json::value(std::move(object));
}

Outcome<json::value> counts_value(const ArgumentTarget& place, const std::vector<std::string>& texts) {
    auto pairs = pairs_value(place, texts);
    if (!pairs) return pairs;
    for (auto& [name, value] : pairs->get_object()) {
        auto number = number_value(place, std::string(value.get_string()));
        if (!number) return number;
        value = std::move(*number);
    }
    return pairs;
}

json::value path_value(const std::string& text) {
    std::string path = std::filesystem::absolute(text).lexically_normal().string();
    if (path.size() > 1 && path.ends_with('/')) path.pop_back();  // As a shell's completion leaves it.
    return json::value(path);
}

Outcome<json::value> time_value(const ArgumentTarget& place, const std::string& text, Instant now, ValueType takes) {
    const auto at = instant_from_text(text, now);
    if (!at) return fail(wrong(place, text, "a date (2026-11-01), an instant, or a time ago (24h, 7d)"));
    return json::value(takes == ValueType::date ? to_iso8601(*at).substr(0, 10) : to_iso8601(*at));
}

Outcome<json::value> value_of(ValueType takes, const ArgumentTarget& place, const std::vector<std::string>& texts,
                              const std::vector<std::string>& choices, Instant now, std::FILE* in) {
    for (const std::string& each : texts) {
        if (!is_utf8(each)) return fail(wrong(place, each, "text in UTF-8"));
    }
    const std::string text = texts.empty() ? "" : texts.back();
    const std::vector<std::string> chosen = takes == ValueType::words ? split(text, ',') : std::vector{text};
    for (const std::string& word : chosen) {
        if (choices.empty() || std::ranges::find(choices, word) != choices.end()) continue;
        const auto meant = nearest(word, choices);
        return fail(bad_usage(fmt::format("{} is {}, not '{}'", place.label, either(choices), one_line(word)),
                              meant ? fmt::format("did you mean '{}'?", *meant) : place.help));
    }
    switch (takes) {
        case ValueType::text:
        case ValueType::segments:
            return json::value(text);
        case ValueType::number:
            return number_value(place, text);
        case ValueType::decimal: {
            double number = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
            if (error != std::errc() || end != text.data() + text.size()) return fail(wrong(place, text, "a number"));
            return json::value(number);
        }
        case ValueType::amount: {
            const std::string amount = text.starts_with('$') ? text.substr(1) : text;
            if (!is_decimal(amount)) return fail(wrong(place, text, "an amount such as 10, 0.25 or $10.00"));
            return json::value(amount);
        }
        case ValueType::words:
            if (!place.in_body) return json::value(text);
            return json::value_from(chosen);
        case ValueType::numbers: {
            json::array numbers;
            for (const std::string& word : split(text, ',')) {
                auto number = number_value(place, word);
                if (!number) return number;
                numbers.push_back(std::move(*number));
            }
            return json::value(std::move(numbers));
        }
        case ValueType::repeat:
            return json::value_from(texts);
        case ValueType::pairs:
            return pairs_value(place, texts);
        case ValueType::counts:
            return counts_value(place, texts);
        case ValueType::length: {
            const auto seconds = seconds_from_text(text);
            if (!seconds) return fail(wrong(place, text, "a time such as 90s, 30m, 2h or 1d"));
            return json::value(*seconds);
        }
        case ValueType::json: {
            auto value = parse_strict_json(text);
            if (!value || !value->is_object()) {
                return fail(wrong(place, text, R"(a JSON object such as {"a":1}, with no member twice)"));
            }
            return std::move(*value);
        }
        case ValueType::instant:
        case ValueType::date:
            return time_value(place, text, now, takes);
        case ValueType::path:
            return path_value(text);
        case ValueType::paths: {
            json::array paths;
            for (const std::string& path : texts) paths.push_back(path_value(path));
            return json::value(std::move(paths));
        }
        case ValueType::content:
            return json::value(text == "-" ? read_all(in) : text);
        case ValueType::on:
            return json::value(true);
        case ValueType::off:
            return json::value(false);
    }
    return json::value(text);
}

void put(json::object& body, std::string_view path, json::value value) {
    const std::size_t dot = path.find('.');
    if (dot == std::string_view::npos) {
        body[path] = std::move(value);
        return;
    }
    json::value& inner = body[path.substr(0, dot)];
    if (!inner.is_object()) inner = json::object();
    put(inner.get_object(), path.substr(dot + 1), std::move(value));
}

std::string encoded_segments(std::string_view text) {
    std::string encoded;
    for (const std::string& segment : split(text, '/'))
        encoded += (encoded.empty() ? "" : "/") + percent_encoded(segment);
    return encoded;
}

std::string member_name(const std::string& member, const std::string& name) {
    if (!member.empty()) return member;
    std::string made = name;
    std::ranges::replace(made, '-', '_');
    return made;
}

}  // namespace
}  // namespace interlock::cli
