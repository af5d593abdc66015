#include "bench/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iterator>

namespace interlock::bench {

namespace {

std::string ratio(double times) { return times > 0 ? fmt::format("{:.2f}", times) : "-"; }
std::string number(double value) { return value > 0 ? fmt::format("{:.2f}", value) : "-"; }

std::string with_separators(double value) {
    std::string digits = fmt::format("{:.0f}", value);
    for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
        digits.insert(static_cast<std::size_t>(at), ",");
    return digits;
}

std::string json_text(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += {'\\', c};
        } else if (static_cast<unsigned char>(c) < 0x20) {
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
            out += c;
        }
    }
    return out + "\"";
}

template <class List, class Format>
std::string json_list(const List& list, Format format) {
    std::string out;
    for (const auto& element : list) out += (out.empty() ? "" : ",") + format(element);
    return "[" + out + "]";
}

}  // namespace

std::string as_text(const Report& report) {
    std::string text =
        fmt::format("{} cores, {}, fdatasync of 4 KB {:.3f} ms\n", report.cores, report.file_system, report.sync_ms);
    const auto out = std::back_inserter(text);
    if (report.file_system == "tmpfs") {
        fmt::format_to(out, "This is memory, not a disk: a sync costs nothing here, and the ratios mean nothing.\n");
    }
    if (!report.rows.empty()) {
        fmt::format_to(out, "\n{:<22} {:>7} {:>11} {:>8} {:>8} {:>7} {:>7} {:>9} {:>8} {:>6}\n", "", "clients",
                       "commands/s", "p50 ms", "p99 ms", "batch", "cpu us", "engine us", "x naive", "x log");
    }
    std::string_view before;
    for (const Row& row : report.rows) {
        if (!before.empty() && !row.peer && before != row.name) text += "\n";
        if (!row.peer) before = row.name;
        fmt::format_to(out, "{:<22} {:>7} {:>11} {:>8.3f} {:>8.3f} {:>7.1f} {:>7} {:>9} {:>8} {:>6}\n",
                       (row.peer ? "  " : "") + row.name, row.clients, with_separators(row.rate), row.p50_ms,
                       row.p99_ms, row.batch_mean, number(row.cpu_us), number(row.engine_cpu_us),
                       ratio(row.times_naive), ratio(row.times_log));
    }
    if (!report.facts.empty()) text += "\n";
    for (const Fact& fact : report.facts) {
        const std::string value = fact.value >= 1000 ? with_separators(fact.value) : fmt::format("{:.2f}", fact.value);
        fmt::format_to(out, "{:<52} {:>13} {}\n", fact.name, value, fact.unit);
    }
    if (!report.goals.empty()) text += "\n";
    for (const Goal& goal : report.goals) {
        fmt::format_to(out, "{:<4} {:<47} {:>13.2f} {:<3} ({} {:.2f})\n", goal.met() ? "pass" : "MISS", goal.name,
                       goal.found, goal.unit, goal.sense == Sense::at_least ? "at least" : "at most", goal.wanted);
    }
    for (const std::string& problem : report.problems) fmt::format_to(out, "\nPROBLEM {}", problem);
    if (!report.problems.empty()) text += "\n";
    return text;
}

std::string as_json(const Report& report) {
    const auto row = [](const Row& r) {
        return fmt::format(
            R"({{"name":{},"peer":{},"clients":{},"rate":{:.1f},"p50_ms":{:.4f},"p99_ms":{:.4f},"batch_mean":{:.2f},)"
            R"("cpu_us":{:.3f},"engine_cpu_us":{:.3f},"times_naive":{:.3f},"times_log":{:.4f}}})",
            json_text(r.name), r.peer, r.clients, r.rate, r.p50_ms, r.p99_ms, r.batch_mean, r.cpu_us, r.engine_cpu_us,
            r.times_naive, r.times_log);
    };
    const auto fact = [](const Fact& f) {
        return fmt::format(R"({{"name":{},"value":{:.4f},"unit":{}}})", json_text(f.name), f.value, json_text(f.unit));
    };
    const auto goal = [](const Goal& g) {
        return fmt::format(R"({{"name":{},"found":{:.4f},"wanted":{:.4f},"sense":"{}","met":{}}})", json_text(g.name),
                           g.found, g.wanted, g.sense == Sense::at_least ? "at_least" : "at_most", g.met());
    };
    return fmt::format(
        R"({{"cores":{},"file_system":{},"sync_ms":{:.4f},"rows":{},"facts":{},"goals":{},"problems":{}}})"
        "\n",
        report.cores, json_text(report.file_system), report.sync_ms, json_list(report.rows, row),
        json_list(report.facts, fact), json_list(report.goals, goal), json_list(report.problems, json_text));
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::show(std::string_view what) {
    if (!terminal_) return;
    fmt::print(stderr, "\r\x1b[K{}", what);
    std::fflush(stderr);
}

void Progress::clear() {
    if (!terminal_) return;
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
}

}  // namespace interlock::bench
