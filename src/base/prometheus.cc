#include "base/prometheus.h"

#include <fmt/format.h>

namespace interlock {

void write_family(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void write_metric(std::string& out, std::string_view name, std::string_view type, std::string_view help,
                  std::uint64_t value) {
    write_family(out, name, type, help);
    out += fmt::format("{} {}\n", name, value);
}

std::string label(std::string_view name, std::string_view value) {
    std::string text = fmt::format("{}=\"", name);
    for (const char c : value) {
        if (c == '\n') {
            text += "\\n";
            continue;
        }
        if (c == '"' || c == '\\') text += '\\';
        text += c;
    }
    return text + '"';
}

}  // namespace interlock
