#include "cli/apply_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "base/calendar.h"
#include "base/cron.h"
#include "base/money.h"
#include "base/nearest.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

std::string but_not(const Yaml& node) {
    return node.kind == Yaml::Kind::text ? fmt::format(", not '{}'", one_line(node.text)) : "";
}

}  // namespace

void ApplySource::mistake(Spot at, std::string what, std::string hint) {
    mistakes_.push_back({file_, at, std::move(what), std::move(hint)});
}

const Yaml* ApplySource::member(const Yaml& map, std::string_view name) {
    const auto found = std::ranges::find(map.items, name, &Yaml::name);
    return found == map.items.end() || found->kind == Yaml::Kind::nothing ? nullptr : &*found;
}

const Yaml* ApplySource::member(const Yaml& map, std::string_view name, std::string_view old_name) {
    const Yaml* found = member(map, name);
    const Yaml* old = member(map, old_name);
    if (found != nullptr && old != nullptr && found->text != old->text) {
        mistake(old->name_at, fmt::format("{} is the old name of {}, and they have different values", old_name, name),
                fmt::format("write only {}", name));
    }
    return found != nullptr ? found : old;
}

bool ApplySource::check_map(const Yaml& node, std::string_view what, const Names& known) {
    if (node.kind != Yaml::Kind::map) {
        mistake(node.at, fmt::format("{} must be a map of names and values", what),
                fmt::format("possible names: {}", fmt::join(known, ", ")));
        return false;
    }
    for (const Yaml& item : node.items) {
        if (std::ranges::find(known, item.name) != known.end()) continue;
        const auto meant = nearest(item.name, known);
        mistake(item.name_at, fmt::format("{} has no '{}'", what, one_line(item.name)),
                meant ? fmt::format("did you mean '{}'?", *meant)
                      : fmt::format("possible names: {}", fmt::join(known, ", ")));
    }
    return true;
}

std::string ApplySource::text(const Yaml& node, std::string_view what) {
    if (node.kind == Yaml::Kind::text) return node.text;
    mistake(node.at, fmt::format("{} must be text", what));
    return {};
}

bool ApplySource::boolean(const Yaml& node, std::string_view what) {
    if (node.kind == Yaml::Kind::text && !node.quoted && (node.text == "true" || node.text == "false")) {
        return node.text == "true";
    }
    mistake(node.at, fmt::format("{} must be true or false{}", what, but_not(node)));
    return false;
}

std::int64_t ApplySource::number(const Yaml& node, std::string_view what, std::int64_t min, std::int64_t max) {
    std::int64_t number = 0;
    const char* const last = node.text.data() + node.text.size();
    const auto [end, error] = std::from_chars(node.text.data(), last, number);
    const bool good = node.kind == Yaml::Kind::text && error == std::errc() && end == last && !node.text.empty();
    if (good && number >= min && number <= max) return number;
    mistake(node.at, fmt::format("{} must be a whole number from {} to {}{}", what, min, max, but_not(node)));
    return min;
}

std::int64_t ApplySource::seconds(const Yaml& node, std::string_view what, std::int64_t min) {
    const auto length = node.kind == Yaml::Kind::text ? seconds_from_text(node.text) : std::nullopt;
    if (length && *length >= min) return *length;
    mistake(node.at, fmt::format("{} must be a time such as 90s, 30m, 2h or 1d{}", what, but_not(node)));
    return min;
}

std::string ApplySource::choice(const Yaml& node, std::string_view what, const Names& choices) {
    if (node.kind == Yaml::Kind::text && std::ranges::find(choices, node.text) != choices.end()) return node.text;
    const auto meant = node.kind == Yaml::Kind::text ? nearest(node.text, choices) : std::nullopt;
    mistake(node.at, fmt::format("{} must be {}{}", what, either(choices), but_not(node)),
            meant ? fmt::format("did you mean '{}'?", *meant) : "");
    return choices.front();
}

std::string ApplySource::dollars(const Yaml& node, std::string_view what) {
    const std::string_view text = std::string_view(node.text).substr(node.text.starts_with('$') ? 1 : 0);
    const auto money = node.kind == Yaml::Kind::text ? money_from_text(text) : std::nullopt;
    if (money && money->nanos() >= 0) return to_text(*money);
    mistake(node.at,
            fmt::format("{} must be dollars such as 10 or 0.25, with at most nine decimals{}", what, but_not(node)));
    return "0.00";
}

std::string ApplySource::name(const Yaml& node, std::string_view what) {
    const std::string name = text(node, what);
    if (node.kind == Yaml::Kind::text) check_name(node.at, name, what);
    return name;
}

void ApplySource::check_name(Spot at, std::string_view name, std::string_view what) {
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const bool good = !name.empty() && name.size() <= label_bytes_max &&
                      letters.find(name.front()) != std::string_view::npos &&
                      name.find_first_not_of(std::string(letters) + "._-") == std::string_view::npos;
    if (good) return;
    mistake(at, fmt::format("{} is not valid: '{}'", what, one_line(name)),
            fmt::format("a name begins with a letter or digit, has only letters, digits, '.', '_' and '-', and is "
                        "at most {} bytes long",
                        label_bytes_max));
}

json::array ApplySource::texts(const Yaml& node, std::string_view what) {
    json::array all;
    if (node.kind != Yaml::Kind::list) {
        mistake(node.at, fmt::format("{} must be a list", what), fmt::format("write {}: [a, b]", node.name));
        return all;
    }
    for (const Yaml& item : node.items) all.emplace_back(text(item, fmt::format("each of {}", what)));
    return all;
}

json::object ApplySource::pairs(const Yaml& node, std::string_view what) {
    json::object all;
    if (node.kind != Yaml::Kind::map) {
        mistake(node.at, fmt::format("{} must be a map of names and texts", what));
        return all;
    }
    for (const Yaml& item : node.items) {
        if (item.kind == Yaml::Kind::text) {
            all[item.name] = item.text;
        } else {
            mistake(item.name_at, fmt::format("{}.{} must be text", what, one_line(item.name)),
                    item.kind == Yaml::Kind::nothing ? "write \"\" for an empty text" : "");
        }
    }
    return all;
}

json::object ApplySource::counts(const Yaml& node, std::string_view what, std::int64_t max) {
    json::object all;
    if (node.kind != Yaml::Kind::map) {
        mistake(node.at, fmt::format("{} must be a map of names and numbers", what));
        return all;
    }
    for (const Yaml& item : node.items) {
        all[item.name] = number(item, fmt::format("{}.{}", what, one_line(item.name)), 0, max);
    }
    return all;
}

std::string ApplySource::path(const Yaml& node, std::string_view what) {
    const std::string given = text(node, what);
    if (given.empty()) return given;
    if (given == "~" || given.starts_with("~/")) {
        if (home_.empty()) mistake(node.at, fmt::format("{} begins with ~, but HOME is not set", what));
        return fs::path(home_ + given.substr(1)).lexically_normal().string();
    }
    std::string made = (fs::path(directory_) / given).lexically_normal().string();
    if (made.size() > 1 && made.ends_with('/')) made.pop_back();
    return made;
}

std::string ApplySource::zone(const Yaml& node) {
    const std::string name = text(node, "timezone");
    if (node.kind == Yaml::Kind::text && !find_zone(name)) {
        mistake(node.at, fmt::format("'{}' is not a timezone", one_line(name)), "for example Europe/Berlin or UTC");
    }
    return name;
}

std::string ApplySource::cron(const Yaml& node) {
    const std::string given = text(node, "cron");
    if (node.kind != Yaml::Kind::text) return given;
    if (const auto parsed = parse_cron(given); !parsed) {
        mistake(node.at, fmt::format("cron: {}: {}", parsed.error().field, parsed.error().what),
                "for example \"0 9 * * mon-fri\" or \"@daily\"");
    }
    return given;
}

}  // namespace interlock::cli
