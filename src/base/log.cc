#include "base/log.h"

#include <fmt/format.h>

#include "base/calendar.h"
#include "base/ensure.h"

namespace interlock {
namespace {

std::string_view name_of(LogLevel level) {
    switch (level) {
        case LogLevel::debug:
            return "debug";
        case LogLevel::info:
            return "info";
        case LogLevel::warn:
            return "warn";
        case LogLevel::error:
            return "error";
    }
    return "error";
}

// How many bytes the character at the front of `text` has; 0 when they are not UTF-8.
std::size_t utf8_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
    if (first >= 0xE0 && first <= 0xEF) {
        if (first == 0xE0 && byte(1) < 0xA0) return 0;  // Longer than need be.
        if (first == 0xED && byte(1) > 0x9F) return 0;  // Half of a UTF-16 pair.
        return continues(1) && continues(2) ? 3 : 0;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        if (first == 0xF0 && byte(1) < 0x90) return 0;
        if (first == 0xF4 && byte(1) > 0x8F) return 0;  // Past the last character there is.
        return continues(1) && continues(2) && continues(3) ? 4 : 0;
    }
    return 0;
}

// JSON's escapes serve both formats: a value can never end its line or its quotes, command the terminal it is shown on,
// or make the line something that is not UTF-8.
std::string quoted(std::string_view text) {
    std::string out = "\"";
    while (!text.empty()) {
        const char c = text.front();
        const auto byte = static_cast<unsigned char>(c);
        const std::size_t length = utf8_length(text);
        if (length == 0) {
            out += "\\ufffd";
        } else if (length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0) {
            out +=
                fmt::format("\\u{:04x}", static_cast<unsigned char>(text[1]));  // The second set of control characters.
        } else if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (byte < 0x20 || byte == 0x7F) {
            out += fmt::format("\\u{:04x}", byte);
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return out += '"';
}

// Always three decimals, so that lines stand below each other.
std::string time_text(Instant at) {
    const auto second = std::chrono::floor<std::chrono::seconds>(at);
    std::string text = to_iso8601(second);
    text.pop_back();
    return fmt::format("{}.{:03}Z", text, std::chrono::floor<std::chrono::milliseconds>(at - second).count());
}

std::string value_text(const LogField& field) {
    if (const auto* number = std::get_if<std::int64_t>(&field.value)) return fmt::format("{}", *number);
    return quoted(std::get<std::string_view>(field.value));
}

}  // namespace

std::string format_log_line(LogFormat format, Instant at, LogLevel level, std::string_view event,
                            std::initializer_list<LogField> fields) {
    const std::string time = time_text(at);
    std::string line = format == LogFormat::json
                           ? fmt::format(R"({{"at":"{}","level":"{}","event":{})", time, name_of(level), quoted(event))
                           : fmt::format("{} {:<5} {}", time, name_of(level), event);
    for (const LogField& field : fields) {
        line += format == LogFormat::json ? fmt::format(",{}:{}", quoted(field.name), value_text(field))
                                          : fmt::format(" {}={}", field.name, value_text(field));
    }
    line += format == LogFormat::json ? "}\n" : "\n";
    return line;
}

Log::Log(Options options) : options_(std::move(options)) {
    ensure(options_.clock && options_.write, "a log is given its clock and its place to write");
}

void Log::line(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
    if (level < options_.level_min) return;
    options_.write(format_log_line(options_.format, options_.clock(), level, event, fields));
}

}  // namespace interlock
