#include "demo/screen.h"

#include "cli/text.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace interlock::demo {
namespace {

constexpr std::size_t indent = 11;
constexpr std::size_t bar_columns_max = 60;
constexpr std::size_t history_columns = 24;

// Six decimals, cut: the picture shows the movement, the report the exact amount.
std::string short_dollars(std::int64_t nanos) {
    constexpr std::int64_t dollar = Money::nanos_per_dollar;
    return fmt::format("${}.{:06}", nanos / dollar, nanos % dollar / 1000);
}

std::string count_of(std::int64_t count, std::string_view one, std::string_view many) {
    return fmt::format("{} {}", cli::count(count), count == 1 ? one : many);
}

// The pieces beside each other, three columns apart, and below each other where they do not fit. A piece that is too
// wide for a line of its own is broken between its words.
void add(std::vector<std::string>& lines, const std::string& label, const std::vector<std::string>& pieces,
         std::size_t columns) {
    std::string line = " " + label;
    const auto put = [&](std::string_view text, std::size_t gap) {
        const std::size_t width = columns_of(line);
        if (width > indent && width + gap + columns_of(text) > columns) {
            lines.push_back(std::exchange(line, std::string(indent, ' ')));
        } else {
            line.append(width < indent ? indent - width : gap, ' ');
        }
        line += text;
    };
    for (std::string_view piece : pieces) {
        if (piece.empty()) continue;
        std::size_t gap = columns_of(line) > indent ? 3 : 0;
        for (std::size_t blank = piece.find(' '); indent + columns_of(piece) > columns && blank != piece.npos;
             blank = piece.find(' ')) {
            put(piece.substr(0, blank), gap);
            piece.remove_prefix(blank + 1);
            gap = 1;
        }
        put(piece, gap);
    }
    lines.push_back(std::move(line));
}

std::string repeated(std::string_view what, std::size_t times) {
    std::string text;
    for (std::size_t i = 0; i < times; ++i) text += what;
    return text;
}

std::string bar(const DemoBooks& books, const cli::CliOutput& terminal, std::size_t columns) {
    const auto share = [&](std::int64_t nanos) {
        return static_cast<std::size_t>(std::clamp<std::int64_t>(nanos, 0, budget_limit.nanos()) *
                                        static_cast<std::int64_t>(columns) / budget_limit.nanos());
    };
    const std::size_t spent = share(books.spent);
    const std::size_t held = std::min(columns, share(books.spent + books.held + budget_limit.nanos() / 1000)) - spent;
    const std::size_t free = columns - spent - held;
    if (!terminal.styled) return "[" + repeated("#", spent) + repeated("+", held) + repeated(".", free) + "]";
    const bool low = books.spent > budget_limit.nanos() / 10 * 9;
    const std::string filled = repeated("█", spent);
    return (low ? terminal.paint(cli::Style::yellow, filled) : terminal.paint(cli::Style::green, filled)) +
           terminal.paint(cli::Style::yellow, repeated("▓", held)) +
           terminal.paint(cli::Style::dim, repeated("░", free));
}

std::string spark(const std::vector<std::int64_t>& history, const cli::CliOutput& terminal) {
    if (!terminal.styled || history.empty()) return "";
    constexpr const char* steps[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const std::int64_t most = std::max<std::int64_t>(1, *std::ranges::max_element(history));
    std::string text;
    for (std::size_t i = history.size() - std::min(history.size(), history_columns); i < history.size(); ++i) {
        text += history[i] == 0 ? " " : steps[static_cast<std::size_t>(history[i] * 7 / most)];
    }
    return terminal.paint(cli::Style::green, text);
}

std::vector<std::string> kill_pieces(const Scene& scene, const cli::CliOutput& terminal) {
    if (!scene.kill_at) return {terminal.paint(cli::Style::dim, "left out")};
    if (!scene.killed_at) {
        return {terminal.paint(cli::Style::dim,
                               fmt::format("in {:.1f} s", std::max(0.0, (*scene.kill_at - scene.elapsed).count())))};
    }
    const std::string what = fmt::format("killed at {:.1f} s", scene.killed_at->count());
    std::vector<std::string> pieces = {scene.open_again_after ? what : terminal.paint(cli::Style::red, what)};
    pieces.push_back(count_of(scene.kill.in_flight, "command in flight", "commands in flight"));
    if (scene.left_checked) {
        pieces.push_back(scene.kill.left_behind.empty()
                             ? "what it left behind is sound"
                             : terminal.paint(cli::Style::red, "what it left behind is not sound"));
    }
    if (!scene.open_again_after) {
        pieces.push_back(terminal.paint(cli::Style::yellow, "starting again"));
        return pieces;
    }
    pieces.push_back(fmt::format("open again after {:.2f} s", scene.open_again_after->count()));
    pieces.push_back(fmt::format("{} of {} acknowledged found again", cli::count(scene.kill.found),
                                 cli::count(scene.kill.remembered)));
    pieces.push_back(fmt::format("{} answered from the first time", scene.kill.had_been_done));
    pieces.push_back(fmt::format("{} decided now", scene.kill.done_later));
    return pieces;
}

}  // namespace

std::vector<std::string> picture(const Scene& scene, const cli::CliOutput& terminal, std::size_t columns) {
    const DemoBooks& books = *scene.books;
    std::vector<std::string> lines;
    const auto row = [&](std::string label, const std::vector<std::string>& pieces) {
        add(lines, terminal.paint(cli::Style::dim, label), pieces, columns);
    };

    add(lines, terminal.paint(cli::Style::bold, "interlock demo"),
        {count_of(scene.agents, "agent", "agents"), "one $10.00 budget", "one session",
         fmt::format("{} directories", books.places.size())},
        columns);
    lines.emplace_back();

    constexpr std::size_t percent_and_brackets = 7;
    const std::size_t room = columns > indent + 20 ? columns - indent - percent_and_brackets : 10;
    row("budget", {bar(books, terminal, std::min(room, bar_columns_max)) +
                   fmt::format(" {:>3}%", books.spent * 100 / budget_limit.nanos())});
    row("", {short_dollars(books.spent) + " spent", short_dollars(books.held) + " held"});
    row("calls", {cli::count(books.calls_paid) + " paid", cli::count(books.calls_refused) + " refused by the budget"});
    row("session", {cli::count(books.messages_told) + " messages",
                    "the next is number " + cli::count(static_cast<std::int64_t>(books.messages.size()))});
    for (const PlaceBook& place : books.places) {
        const bool used = !place.worker.empty();
        const std::string dot =
            terminal.styled ? (used ? terminal.paint(cli::Style::green, "●") : terminal.paint(cli::Style::dim, "○"))
                            : (used ? "*" : "-");
        row(place.name, {fmt::format("{} {:<10}", dot, used ? place.worker : "free"),
                         fmt::format("{:>5} runs", cli::count(place.runs)), fmt::format("{:>3} in line", place.in_line),
                         fmt::format("{:>6} turned away", cli::count(place.turned_away))});
    }
    row("outside",
        {books.collisions == 0 ? "0 collisions"
                               : terminal.paint(cli::Style::red, count_of(books.collisions, "collision", "collisions")),
         terminal.paint(cli::Style::dim, "(each run locks a file there)")});
    row("engine", {cli::count(scene.commands_a_second) + " commands/s",
                   cli::count(scene.commits_a_second) + " commits/s", spark(scene.history, terminal)});
    row("kill -9", kill_pieces(scene, terminal));
    row("time", {fmt::format("{:.1f} of {:g} s", scene.elapsed.count(), scene.time.count()),
                 scene.ended      ? "done"
                 : scene.stopping ? "the agents finish what they have begun"
                                  : ""});
    return lines;
}

std::string line(const Scene& scene) {
    const DemoBooks& books = *scene.books;
    std::int64_t in_line = 0, turned_away = 0;
    for (const PlaceBook& place : books.places) {
        in_line += place.in_line;
        turned_away += place.turned_away;
    }
    return fmt::format(
        "{:5.1f} s  {} spent, {} held; {} calls paid, {} refused; {} messages; {} runs, {} in line, {} turned away, "
        "{} collisions; {} commands/s, {} commits/s",
        scene.elapsed.count(), short_dollars(books.spent), short_dollars(books.held), cli::count(books.calls_paid),
        cli::count(books.calls_refused), cli::count(books.messages_told), cli::count(books.runs()), in_line,
        cli::count(turned_away), books.collisions, cli::count(scene.commands_a_second),
        cli::count(scene.commits_a_second));
}

std::size_t columns_of(std::string_view text) {
    std::size_t columns = 0;
    bool in_escape = false;
    for (const char c : text) {
        if (c == '\x1b') in_escape = true;
        const bool continues = (static_cast<unsigned char>(c) & 0xC0u) == 0x80u;
        if (!in_escape && !continues) ++columns;
        if (in_escape && c >= '@' && c != '[') in_escape = false;
    }
    return columns;
}

Size terminal_size(const cli::CliOutput& terminal) {
    winsize size{};
    if (ioctl(fileno(terminal.err), TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
    return {.columns = size.ws_col, .rows = size.ws_row};
}

void write(std::FILE* to, std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), to);
    std::fflush(to);
}

void Screen::show(const Scene& scene) {
    const Size size = terminal_size(terminal_);
    if (!terminal_.progress) return print_line(scene);
    const auto lines = picture(scene, terminal_, size.columns);
    if (lines.size() + 1 > size.rows) {
        close();
        return print_line(scene);
    }
    draw(lines, size.columns);
}

void Screen::draw(const std::vector<std::string>& lines, std::size_t columns) {
    // A line that was drawn on a wider terminal takes several rows by now.
    std::size_t rows = 0;
    for (const std::size_t width : drawn_) rows += std::max<std::size_t>(1, (width + columns - 1) / columns);
    std::string text = drawn_.empty() ? "\x1b[?25l" : fmt::format("\r\x1b[{}A", rows);
    drawn_.clear();
    for (const std::string& each : lines) {
        text += each + "\x1b[K\n";
        drawn_.push_back(columns_of(each));
    }
    text += "\x1b[J";
    write(terminal_.err, text);
}

void Screen::print_line(const Scene& scene) {
    const auto now = std::chrono::steady_clock::now();
    if (last_line_ && now - *last_line_ < std::chrono::seconds(1)) return;
    last_line_ = now;
    write(terminal_.err, line(scene) + "\n");
}

void Screen::say(const std::string& what) {
    if (!drawn_.empty()) return;
    write(terminal_.err, what + "\n");
}

void Screen::close() {
    if (drawn_.empty()) return;
    drawn_.clear();
    write(terminal_.err, "\x1b[?25h");
}

}  // namespace interlock::demo
