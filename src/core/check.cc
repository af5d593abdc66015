#include "core/check.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/strict_json.h"
#include "base/text.h"
#include "core/hosts.h"
#include "core/limits.h"

namespace interlock::core {
namespace {

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

Complaint check_size(std::string_view what, std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) return std::nullopt;
    return fmt::format("{} is {} bytes long; at most {} are allowed", what, text.size(), bytes_max);
}

Complaint check_utf8(std::string_view what, std::string_view text) {
    if (is_utf8(text)) return std::nullopt;
    return fmt::format("{} is not UTF-8", what);
}

Complaint check_one_line(std::string_view what, std::string_view text) {
    if (is_line(text)) return std::nullopt;
    if (auto complaint = check_utf8(what, text)) return complaint;
    return fmt::format("{} must not have control characters", what);
}

}  // namespace

Complaint check_name(std::string_view what, std::string_view name) {
    if (name.empty()) return fmt::format("{} must not be empty", what);
    if (auto complaint = check_size(what, name, limits::name_bytes_max)) return complaint;
    bool ok = is_letter_or_digit(name.front());
    for (const char c : name) ok = ok && (is_letter_or_digit(c) || c == '.' || c == '_' || c == '-');
    if (!ok)
        return fmt::format("{} must begin with a letter or digit and have only letters, digits, '.', '_' and '-'",
                           what);
    return std::nullopt;
}

Complaint check_label(std::string_view what, std::string_view label) {
    if (label.empty() || (label.size() <= limits::name_bytes_max && is_line(label))) return std::nullopt;
    return first_of(check_size(what, label, limits::name_bytes_max), check_one_line(what, label));
}

Complaint check_text(std::string_view what, std::string_view text, std::size_t bytes_max) {
    return first_of(check_size(what, text, bytes_max), check_utf8(what, text));
}

Complaint check_line(std::string_view what, std::string_view text) {
    return first_of(check_size(what, text, limits::text_bytes_max), check_one_line(what, text));
}

Complaint check_json_object(std::string_view what, std::string_view text, std::size_t bytes_max) {
    if (text.empty()) return std::nullopt;
    if (auto complaint = check_size(what, text, bytes_max)) return complaint;
    const auto flaw = flaw_of_json_object(text);
    if (!flaw) return std::nullopt;
    return fmt::format("{}{}{} {}", what, flaw->pointer.empty() ? "" : ": ", flaw->pointer, flaw->detail);
}

Complaint check_tags(const Tags& tags) {
    if (tags.size() > limits::tags_max) {
        return fmt::format("there are {} tags; at most {} are allowed", tags.size(), limits::tags_max);
    }
    for (const auto& [name, value] : tags) {
        if (auto complaint = first_of(check_name("a tag's name", name), check_label("a tag's value", value)))
            return complaint;
    }
    return std::nullopt;
}

Complaint check_range(std::string_view what, std::int64_t value, std::int64_t min, std::int64_t max) {
    if (value >= min && value <= max) return std::nullopt;
    return fmt::format("{} is {}; it must be from {} to {}", what, value, min, max);
}

Complaint check_attribution(const Attribution& who) {
    const std::pair<std::string_view, std::string_view> labels[] = {{"agent", who.agent},
                                                                    {"workflow", who.workflow},
                                                                    {"provider", who.provider},
                                                                    {"model", who.model},
                                                                    {"api_key", who.api_key}};
    for (const auto& [what, label] : labels) {
        if (auto complaint = check_label(what, label)) return complaint;
    }
    return check_tags(who.tags);
}

Complaint check_amounts(std::string_view what, const Amounts& amounts) {
    const bool calls_ok = amounts.calls >= 0 && amounts.calls <= limits::calls_per_event_max;
    if (amounts.usd >= 0 && amounts.tokens >= 0 && calls_ok && amounts.runs == 0) return std::nullopt;
    return fmt::format("{} must not be negative, and counts no runs", what);
}

Complaint check_path(std::string_view what, const std::string& path) {
    if (auto complaint = check_text(what, path, limits::text_bytes_max)) return complaint;
    if (path.find('\0') != std::string::npos) return fmt::format("{} must not have NUL bytes", what);
    if (!path.starts_with('/')) return fmt::format("{} '{}' is not absolute", what, path);
    bool canonical = path.size() == 1 || !path.ends_with('/');
    for (const std::string_view part : {"//", "/./", "/../"}) canonical &= path.find(part) == std::string::npos;
    for (const std::string_view end : {"/.", "/.."}) canonical &= !path.ends_with(end);
    if (canonical) return std::nullopt;
    return fmt::format("{} '{}' is not canonical; write it without '.', '..', '//' and a slash at its end", what, path);
}

Complaint check_place(const Place& place) {
    if (auto complaint = check_label("host", place.host)) return complaint;
    if (place.kind == ClaimKind::resource) {
        if (!place.chain.empty()) return "a resource must have a name and no chain";
        return check_name("a resource's name", place.path);
    }
    if (auto complaint = check_path("path", place.path)) return complaint;
    if (place.chain.size() > limits::place_depth_max) {
        return fmt::format("path is {} levels deep; at most {} are allowed", place.chain.size(),
                           limits::place_depth_max);
    }
    for (const std::string& identity : place.chain) {
        if (auto complaint = check_label("identity", identity)) return complaint;
    }
    return std::nullopt;
}

Complaint check_process(const ProcessSpec& process) {
    const auto texts = [](std::string_view what, const std::vector<std::string>& list) -> Complaint {
        if (list.size() > limits::command_words_max) {
            return fmt::format("{} has {} words; at most {} are allowed", what, list.size(), limits::command_words_max);
        }
        for (const std::string& text : list) {
            if (auto complaint = check_text(what, text, limits::message_bytes_max / 8)) return complaint;
            if (text.find('\0') != std::string::npos) return fmt::format("{} must not have NUL bytes", what);
        }
        return std::nullopt;
    };
    if (auto complaint = first_of(
            texts("command", process.command), texts("pass_env", process.pass_env), texts("writable", process.writable),
            texts("readable", process.readable), check_allowed_hosts(process.allowed_hosts),
            check_text("directory", process.directory, limits::text_bytes_max),
            check_text("setup", process.setup, limits::metadata_bytes_max),
            check_text("teardown", process.teardown, limits::metadata_bytes_max),
            check_range("timeout_s", process.timeout_s, 0, limits::timeout_s_max),
            check_range("grace_s", process.grace_s, 0, limits::grace_s_max), check_range("nice", process.nice, -20, 19),
            check_label("adapter", process.adapter))) {
        return complaint;
    }
    if (!process.command.empty() && process.command.front().empty()) return "command begins with an empty word";
    if (process.env.size() > limits::environment_max) {
        return fmt::format("env has {} variables; at most {} are allowed", process.env.size(), limits::environment_max);
    }
    for (const auto& [name, value] : process.env) {
        if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos) {
            return fmt::format("env has a variable named '{}'", as_line(name));
        }
        if (auto complaint = check_line("the name of a variable of env", name)) return complaint;
        if (name.starts_with("INTERLOCK_")) return fmt::format("env sets {}, which is reserved", name);
        if (value.find('\0') != std::string::npos) return fmt::format("env: {} must not have NUL bytes", name);
        if (auto complaint = check_text("a value of env", value, limits::metadata_bytes_max)) return complaint;
    }
    static constexpr std::string_view known_limits[] = {"as",     "core",   "cpu",   "cpu_percent", "data",  "fsize",
                                                        "memory", "nofile", "nproc", "pids",        "stack", "tmp"};
    for (const auto& [name, value] : process.limits) {
        if (std::ranges::find(known_limits, name) == std::end(known_limits)) {
            return fmt::format("limits has '{}'; possible limits: {}", name, fmt::join(known_limits, ", "));
        }
        if (value < 0) return fmt::format("limits: {} must not be negative", name);
        // Those of all processes of a run together: with nothing at all none of them can start.
        if (value == 0 && (name == "memory" || name == "pids" || name == "cpu_percent" || name == "tmp")) {
            return fmt::format("limits: {} must be more than 0", name);
        }
    }
    return std::nullopt;
}

Complaint check_final_charge(const std::optional<FinalCharge>& charge) {
    if (!charge) return std::nullopt;
    if (charge->cost.negative()) return "cost must not be negative";
    if (!tokens_of(charge->usage)) return "token counts must not be negative and must add up to a 64-bit number";
    if (auto complaint = check_range("calls", charge->calls, 0, limits::calls_per_event_max)) return complaint;
    return first_of(check_label("provider", charge->provider), check_label("model", charge->model),
                    check_label("price", charge->price));
}

Complaint check_retry(const Retry& retry) {
    return first_of(check_range("retry.tries", retry.tries, 1, limits::tries_max),
                    check_range("retry.backoff_s", retry.backoff_s, 0, limits::backoff_s_max),
                    check_range("retry.backoff_max_s", retry.backoff_max_s, 0, limits::backoff_s_max));
}

}  // namespace interlock::core
