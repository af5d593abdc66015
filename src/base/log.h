// Structured log lines: one event, some named values, one line.
//
//     2026-11-15T09:00:00.123Z warn  store_reopened reason="disk I/O error" commands=12
//     {"at":"…","level":"warn","event":"store_reopened","reason":"disk I/O error","commands":12}
//
// A line is written whole, with one write, so lines of several threads never mix. Values are escaped; secrets are not
// given to a log in the first place.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

#include "base/instant.h"

namespace interlock {

enum class LogLevel { debug, info, warn, error };
enum class LogFormat { text, json };

struct LogField {
    std::string_view name;
    std::variant<std::int64_t, std::string_view> value;
};

std::string format_log_line(LogFormat format, Instant at, LogLevel level, std::string_view event,
                            std::initializer_list<LogField> fields);

class Log {
 public:
    struct Options {
        LogLevel level_min = LogLevel::info;
        LogFormat format = LogFormat::text;
        std::function<Instant()> clock;               // Required: base/ has no clock of its own.
        std::function<void(std::string_view)> write;  // Gets one whole line, newline included; called from any thread.
    };
    explicit Log(Options options);

    void debug(std::string_view event, std::initializer_list<LogField> fields = {}) {
        line(LogLevel::debug, event, fields);
    }
    void info(std::string_view event, std::initializer_list<LogField> fields = {}) {
        line(LogLevel::info, event, fields);
    }
    void warn(std::string_view event, std::initializer_list<LogField> fields = {}) {
        line(LogLevel::warn, event, fields);
    }
    void error(std::string_view event, std::initializer_list<LogField> fields = {}) {
        line(LogLevel::error, event, fields);
    }

    void line(LogLevel level, std::string_view event, std::initializer_list<LogField> fields);

 private:
    Options options_;
};

}  // namespace interlock
