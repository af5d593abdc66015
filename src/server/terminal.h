// Where a command writes to, and how: with marks and colours for people, plain for pipes and files.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace interlock::server {

struct Terminal {
    std::FILE* out = stdout;
    std::FILE* err = stderr;
    bool styled = false;    // `out` is a terminal that shows colours and marks, and nobody asked for none (NO_COLOR).
    bool progress = false;  // `err` is a terminal, so a line may be written over and over.

    std::string bold(std::string_view text) const { return in_style("1", text); }
    std::string dim(std::string_view text) const { return in_style("2", text); }
    std::string red(std::string_view text) const { return in_style("31", text); }
    std::string green(std::string_view text) const { return in_style("32", text); }
    std::string yellow(std::string_view text) const { return in_style("33", text); }

 private:
    std::string in_style(std::string_view code, std::string_view text) const;
};

// Standard output and error of this process. The only place that asks the environment about looks.
Terminal standard_terminal();

// "1,234,567"
std::string with_separators(std::int64_t number);

}  // namespace interlock::server
