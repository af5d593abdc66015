// Output streams of a command: data goes to `out`, remarks and errors to `err`. Colours only on a terminal.
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
    bool styled = false;      // `out` is a terminal that shows colours, and NO_COLOR is not set.
    bool err_styled = false;  // The same for `err`.
    bool redraws = false;     // `out` is a terminal, so a screen can be redrawn.
    bool progress = false;    // `err` is a terminal, so a progress line can be overwritten.
    std::size_t width = 0;    // Columns of `out`; 0 for a file or pipe.

    std::string paint(Style style, std::string_view text) const;
    void data(std::string_view text) const;              // To `out`, unchanged.
    bool full() const { return std::ferror(out) != 0; }  // A write to `out` failed.
    bool reader_left() const;                // `out` is a pipe that nothing reads any more, as with `| head`.
    void talk(std::string_view line) const;  // To `err`, with a newline.
    void error(std::string_view detail, std::string_view hint) const;
    void step(std::string_view line) const;  // Overwrites the progress line; an empty one clears it.
};

// The three standard streams. COLUMNS overrides the width of the terminal.
CliOutput standard_output(const Environment& environment);

}  // namespace interlock::cli
