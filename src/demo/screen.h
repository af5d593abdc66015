// What is to be seen while the demo runs: a picture that is drawn over and over on a terminal, otherwise a line a
// second.
//
//   (1) Nothing is left out on a narrow terminal: what does not fit beside goes below. On one that is too low for the
//       picture there are lines.
//   (2) Whatever happens, close() or the destructor leaves the cursor visible and below the picture.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output.h"
#include "demo/books.h"

namespace interlock::demo {

using SceneSeconds = std::chrono::duration<double>;

// One moment.
struct Scene {
    int agents = 0;
    SceneSeconds elapsed{0};
    SceneSeconds time{0};
    const DemoBooks* books = nullptr;  // Never null when shown.
    std::int64_t commands_a_second = 0;
    std::int64_t commits_a_second = 0;
    std::vector<std::int64_t> history;    // Commands in equal stretches of time, the latest last.
    std::optional<SceneSeconds> kill_at;  // Empty: nothing will be killed.
    std::optional<SceneSeconds> killed_at;
    bool left_checked = false;  // The checker has read what the killed process left behind.
    std::optional<SceneSeconds> open_again_after;
    KillTally kill;
    bool stopping = false;
    bool ended = false;
};

// The picture, as lines of at most `columns`, where that is wide enough for the longest single piece.
std::vector<std::string> picture(const Scene& scene, const cli::CliOutput& terminal, std::size_t columns);
// The same moment in one line.
std::string line(const Scene& scene);

// All of it at once. Nobody listening is no error: the demo has more to do than to be looked at.
void write(std::FILE* to, std::string_view text);

// How many columns a text takes: colours take none, a character of more than one byte takes one.
std::size_t columns_of(std::string_view text);

class Screen {
 public:
    explicit Screen(const cli::CliOutput& terminal) : terminal_(terminal) {}
    ~Screen() { close(); }
    Screen(const Screen&) = delete;
    Screen& operator=(const Screen&) = delete;

    void show(const Scene& scene);
    void say(const std::string& what);  // Only where there is no picture to see it in.
    void close();

 private:
    void draw(const std::vector<std::string>& lines, std::size_t columns);
    void print_line(const Scene& scene);

    const cli::CliOutput& terminal_;
    std::vector<std::size_t> drawn_;  // The widths of the lines of the picture on the screen.
    std::optional<std::chrono::steady_clock::time_point> last_line_;
};

// Of standard error's terminal, or where it says nothing, the usual.
struct Size {
    std::size_t columns = 80;
    std::size_t rows = 24;
};
Size terminal_size(const cli::CliOutput& terminal);

}  // namespace interlock::demo
