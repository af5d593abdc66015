#include "core/check.h"

#include <fmt/format.h>

#include "core/limits.h"

namespace interlock::core {
namespace {

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool has_control_character(std::string_view text) {
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return true;
    }
    return false;
}

}  // namespace

Complaint check_name(std::string_view what, std::string_view name) {
    if (name.empty()) return fmt::format("{} must not be empty", what);
    if (name.size() > limits::name_bytes_max) {
        return fmt::format("{} is {} bytes long; at most {} are allowed", what, name.size(), limits::name_bytes_max);
    }
    bool ok = is_letter_or_digit(name.front());
    for (const char c : name) ok = ok && (is_letter_or_digit(c) || c == '.' || c == '_' || c == '-');
    if (!ok)
        return fmt::format("{} must begin with a letter or digit and have only letters, digits, '.', '_' and '-'",
                           what);
    return std::nullopt;
}

Complaint check_label(std::string_view what, std::string_view label) {
    if (label.size() > limits::name_bytes_max) {
        return fmt::format("{} is {} bytes long; at most {} are allowed", what, label.size(), limits::name_bytes_max);
    }
    if (has_control_character(label)) return fmt::format("{} must not have control characters", what);
    return std::nullopt;
}

Complaint check_text(std::string_view what, std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) return std::nullopt;
    return fmt::format("{} is {} bytes long; at most {} are allowed", what, text.size(), bytes_max);
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
    // Most are short and clean; the sentence is only made where it is needed.
    return first_of(check_label("agent", who.agent), check_label("workflow", who.workflow),
                    check_label("provider", who.provider), check_label("model", who.model),
                    check_label("api_key", who.api_key), check_tags(who.tags));
}

Complaint check_amounts(std::string_view what, const Amounts& amounts) {
    const bool calls_ok = amounts.calls >= 0 && amounts.calls <= limits::calls_per_event_max;
    if (amounts.usd >= 0 && amounts.tokens >= 0 && calls_ok && amounts.runs == 0) return std::nullopt;
    return fmt::format("{} must not be negative, and counts no runs", what);
}

Complaint check_place(const Place& place) {
    if (auto complaint =
            first_of(check_label("host", place.host), check_text("path", place.path, limits::text_bytes_max))) {
        return complaint;
    }
    if (place.kind == ClaimKind::resource) {
        if (!place.chain.empty()) return "a resource has a name and no chain";
        return check_name("a resource's name", place.path);
    }
    if (!place.path.starts_with('/')) return fmt::format("path '{}' is not absolute", place.path);
    if (place.path.find('\0') != std::string::npos) return "path must not have NUL bytes";
    if (place.path.size() > 1 && place.path.ends_with('/'))
        return fmt::format("path '{}' is not canonical", place.path);
    for (const std::string_view part : {"//", "/./", "/../"}) {
        if (place.path.find(part) != std::string::npos) return fmt::format("path '{}' is not canonical", place.path);
    }
    if (place.path.ends_with("/.") || place.path.ends_with("/.."))
        return fmt::format("path '{}' is not canonical", place.path);
    if (place.chain.size() > limits::place_depth_max) {
        return fmt::format("path is {} levels deep; at most {} are allowed", place.chain.size(),
                           limits::place_depth_max);
    }
    for (const std::string& identity : place.chain) {
        if (auto complaint = check_label("identity", identity)) return complaint;
    }
    return std::nullopt;
}

}  // namespace interlock::core
