#include "cli/output.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <charconv>

namespace interlock::cli {
namespace {

constexpr std::size_t width_min = 40;  // Narrower than this nothing lines up anyway.
constexpr std::array codes{"0", "1", "2", "31", "32", "33", "36"};

std::string painted(Style style, std::string_view text) {
    return fmt::format("\x1b[{}m{}\x1b[0m", codes[static_cast<std::size_t>(style)], text);
}

// fmt::print() throws if the text cannot be written, for example because the reader has left.
void write(std::FILE* to, std::string_view text) { std::fwrite(text.data(), 1, text.size(), to); }

std::size_t width_of(int descriptor, const std::string& columns) {
    std::size_t asked = 0;
    std::from_chars(columns.data(), columns.data() + columns.size(), asked);
    if (asked > 0) return std::max(asked, width_min);
    winsize size{};
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return std::max<std::size_t>(size.ws_col, width_min);
    return 80;
}

}  // namespace

CliOutput standard_output(const Environment& environment) {
    const bool capable = !environment.term.empty() && environment.term != "dumb";
    const bool colours = capable && environment.no_color.empty();
    const bool out_is_terminal = isatty(STDOUT_FILENO) == 1;
    const bool err_is_terminal = isatty(STDERR_FILENO) == 1;
    return {.styled = out_is_terminal && colours,
            .err_styled = err_is_terminal && colours,
            .redraws = out_is_terminal && capable,
            .progress = err_is_terminal && capable,
            .width = out_is_terminal ? width_of(STDOUT_FILENO, environment.columns) : 0};
}

std::string CliOutput::paint(Style style, std::string_view text) const {
    return styled && style != Style::plain && !text.empty() ? painted(style, text) : std::string(text);
}

void CliOutput::data(std::string_view text) const {
    std::fwrite(text.data(), 1, text.size(), out);
    std::fflush(out);
}

bool CliOutput::reader_left() const {
    pollfd pipe{.fd = fileno(out), .events = POLLOUT, .revents = 0};
    return ::poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLERR) != 0;
}

void CliOutput::talk(std::string_view line) const {
    step("");
    write(err, fmt::format("{}\n", line));
}

void CliOutput::error(std::string_view detail, std::string_view hint) const {
    step("");
    write(err, fmt::format("{} {}\n", err_styled ? painted(Style::red, "error:") : "error:", detail));
    if (hint.empty()) return;
    write(err, fmt::format("{} {}\n", err_styled ? painted(Style::dim, "hint:") : "hint:", hint));
}

void CliOutput::step(std::string_view line) const {
    if (!progress) return;
    write(err, fmt::format("\r\x1b[K{}", line));
    std::fflush(err);
}

}  // namespace interlock::cli
