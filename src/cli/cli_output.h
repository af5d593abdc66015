// Where a command writes to, and how: data to `out`, talk to `err`; marks and colours for people, plain for pipes.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include "cli/environment.h"

namespace interlock::cli {

enum class Style { plain, bold, dim, red, green, yellow, cyan };

struct CliOutput {
    std::FILE* in = stdin;
    std::FILE* out = stdout;
    std::FILE* err = stderr;
    bool styled = false;      // `out` is a terminal that shows colours and marks, and nobody asked for none.
    bool err_styled = false;  // The same for `err`.
    bool redraws = false;     // `out` is a terminal, so a screen may be drawn over and over.
    bool progress = false;    // `err` is a terminal, so a line may be.
    std::size_t width = 0;    // Columns of `out`; 0 when there is no edge, as in a file.

    std::string paint(Style style, std::string_view text) const;
    void data(std::string_view text) const;              // To `out`, as it is.
    bool full() const { return std::ferror(out) != 0; }  // `out` takes nothing any more.
    void talk(std::string_view line) const;              // To `err`, with a newline.
    void error(std::string_view detail, std::string_view hint) const;
    void step(std::string_view line) const;  // One line of progress over the last one; an empty one wipes it.
};

// The three standard streams. COLUMNS wins over what the terminal says of itself.
CliOutput standard_terminal(const Environment& environment);

}  // namespace interlock::cli
