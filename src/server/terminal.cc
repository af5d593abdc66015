#include "server/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace interlock::server {

Terminal standard_terminal() {
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    const bool refused = no_color != nullptr && *no_color != '\0';
    const bool capable = term != nullptr && std::string_view(term) != "dumb";
    return {.out = stdout,
            .err = stderr,
            .styled = isatty(STDOUT_FILENO) == 1 && capable && !refused,
            .progress = isatty(STDERR_FILENO) == 1 && capable};
}

std::string Terminal::in_style(std::string_view code, std::string_view text) const {
    return styled ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

std::string with_separators(std::int64_t number) {
    std::string digits = fmt::format("{}", number);
    const std::size_t first = number < 0 ? 1 : 0;
    for (std::size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, ",");
    return digits;
}

}  // namespace interlock::server
