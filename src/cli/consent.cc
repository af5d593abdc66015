#include "cli/consent.h"

#include <fmt/format.h>
#include <unistd.h>

namespace interlock::cli {
namespace {

// The first line that the user types; empty at the end of the input.
std::string read_line(std::FILE* in) {
    std::string line;
    for (int c = std::fgetc(in); c != EOF && c != '\n'; c = std::fgetc(in)) line += static_cast<char>(c);
    return line;
}

}  // namespace

Outcome<bool> agreed(const Context& context, const Invocation& invocation, const std::string& question,
                     Failure cannot_ask) {
    if (invocation.has("yes")) return true;
    if (context.settings.json || isatty(fileno(context.output.in)) == 0) return fail(std::move(cannot_ask));
    std::fputs(fmt::format("{} [y/N] ", question).c_str(), context.output.err);
    std::fflush(context.output.err);
    const std::string answer = read_line(context.output.in);
    return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace interlock::cli
