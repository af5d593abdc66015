#include "cli/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdlib>
#include <map>

#include "base/calendar.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

constexpr std::size_t bar_columns = 20;

struct Look {
    const CliOutput& output;
    Instant now;
    bool detailed;
};

Style style_of(std::string_view status) {
    static const std::map<std::string_view, Style> styles{
        {"active", Style::green},  {"alive", Style::green},    {"gone", Style::dim},         {"running", Style::green},
        {"starting", Style::cyan}, {"queued", Style::yellow},  {"paused", Style::yellow},    {"succeeded", Style::dim},
        {"failed", Style::red},    {"lost", Style::red},       {"timed_out", Style::red},    {"cancelled", Style::dim},
        {"archived", Style::dim},  {"held", Style::yellow},    {"settled", Style::green},    {"released", Style::dim},
        {"charged", Style::green}, {"refused", Style::red},    {"coalesced", Style::yellow}, {"woken", Style::green},
        {"healthy", Style::green}, {"failing", Style::yellow}, {"cooling", Style::red},      {"idle", Style::dim},
        {"stop", Style::red},      {"warn", Style::yellow},    {"note", Style::dim}};
    const auto found = styles.find(status);
    return found == styles.end() ? Style::plain : found->second;
}

std::string time_text(std::string_view text, const Look& look) {
    const auto at = from_iso8601(text);
    if (!at) return one_line(text);
    return look.detailed ? fmt::format("{}  ({})", relative_time(*at, look.now), text) : relative_time(*at, look.now);
}

std::string amount_text(const json::value& value, const json::value& row) {
    const std::string text = text_of(value);
    if (text.empty()) return text;
    return text_of(member_of(row, "metric")) == "usd" ? money(text) : grouped(text);
}

std::string pairs_text(const json::object& object, const std::string& prefix = "") {
    std::string text;
    for (const auto& [member, value] : object) {
        const std::string name = prefix + std::string(member);
        if (const auto* inner = value.if_object()) {
            const std::string shown = pairs_text(*inner, name + ".");
            text += (text.empty() || shown.empty() ? "" : " ") + shown;
            continue;
        }
        const std::string shown = text_of(value);
        if (!shown.empty()) text += fmt::format("{}{}={}", text.empty() ? "" : " ", one_line(name), one_line(shown));
    }
    return text;
}

std::string words_text(const json::value& value) {
    std::string text;
    if (!value.is_array()) return one_line(text_of(value));
    for (const json::value& word : value.get_array()) text += (text.empty() ? "" : " ") + one_line(text_of(word));
    return text;
}

std::string rows_text(const json::value& value, const Look& look) {
    std::string text;
    if (!value.is_array()) return text;
    for (const json::value& row : value.get_array()) {
        std::string line;
        if (!row.is_object()) continue;
        for (const auto& [name, member] : row.get_object()) {
            const std::string word = text_of(member);
            if (word.empty()) continue;
            const auto at = from_iso8601(word);
            line += (line.empty() ? "" : "  ") +
                    (at ? fmt::format("{} {}", std::string_view(name), relative_time(*at, look.now)) : one_line(word));
        }
        text += (text.empty() ? "" : "\n") + line;
    }
    return text;
}

std::string window_text(const json::value& row, const Look& look) {
    const std::string kind = text_of(member_of(row, "window.kind"));
    const auto end = from_iso8601(text_of(member_of(row, "window.end")));
    return end ? fmt::format("{}, resets {}", kind, relative_time(*end, look.now)) : kind;
}

// Nothing for what has not begun.
std::string took_text(const json::value& row, const Look& look) {
    const auto begun = from_iso8601(text_of(member_of(row, "started_at")));
    if (!begun) return "";
    const Instant ended = from_iso8601(text_of(member_of(row, "ended_at"))).value_or(look.now);
    return duration(std::max(Duration(0), ended - *begun));
}

std::string schedule_text(const json::value& row) {
    if (const std::string cron = text_of(member_of(row, "cron")); !cron.empty()) return "cron " + one_line(cron);
    const json::value& every = member_of(row, "every_s");
    return every.is_int64() ? "every " + duration(std::chrono::seconds(every.get_int64())) : "";
}

std::string repeated(std::string_view mark, std::size_t times) {
    std::string text;
    for (std::size_t i = 0; i < times; ++i) text += mark;
    return text;
}

TextCell bar_cell(const json::value& row, const CliOutput& output) {
    // Only the picture is approximate: the amounts beside it are exact.
    const auto number = [&](std::string_view member) { return std::atof(text_of(member_of(row, member)).c_str()); };
    const Shares shares{.settled = number("settled"), .held = number("held"), .limit = number("limit")};
    const Bar drawn = bar(shares, bar_columns);
    if (!output.styled) {
        return {.text =
                    '[' + repeated("#", drawn.settled) + repeated("=", drawn.held) + repeated("-", drawn.free) + ']'};
    }
    const double used = shares.limit > 0 ? (shares.settled + shares.held) / shares.limit : 0;
    const Style settled = used >= 1 ? Style::red : used >= 0.8 ? Style::yellow : Style::green;
    const std::string marks[] = {repeated("█", drawn.settled), repeated("▓", drawn.held), repeated("░", drawn.free)};
    return {.text = marks[0] + marks[1] + marks[2],
            .painted = output.paint(settled, marks[0]) + output.paint(Style::cyan, marks[1]) +
                       output.paint(Style::dim, marks[2])};
}

TextCell cell_of(const Column& column, const json::value& row, const Look& look) {
    const json::value& value = member_of(row, column.member);
    switch (column.format) {
        case Format::text:
        case Format::id:
            return {.text = one_line(text_of(value))};
        case Format::free_text:
            return {.text = look.detailed ? printable(text_of(value)) : one_line(text_of(value))};
        case Format::money:
            return {.text = money(text_of(value))};
        case Format::amount:
            return {.text = amount_text(value, row)};
        case Format::count:
            return {.text = grouped(text_of(value))};
        case Format::time:
            return {.text = time_text(text_of(value), look)};
        case Format::status:
            return {.text = one_line(text_of(value)), .style = style_of(text_of(value))};
        case Format::yes:
            return {.text = value.is_bool() && value.get_bool() ? "yes" : ""};
        case Format::seconds:
            return {.text = value.is_number() ? text_of(value) + " s" : ""};
        case Format::took:
            return {.text = took_text(row, look)};
        case Format::milliseconds:
            return {.text = value.is_int64() ? duration(std::chrono::milliseconds(value.get_int64())) : ""};
        case Format::microseconds:
            return {.text = value.is_int64() ? duration(std::chrono::microseconds(value.get_int64())) : ""};
        case Format::length:
            return {.text = value.is_int64() && value.get_int64() != 0
                                ? duration(std::chrono::seconds(value.get_int64()))
                                : ""};
        case Format::words:
            return {.text = words_text(value)};
        case Format::pairs:
            return {.text = value.is_object() ? pairs_text(value.get_object()) : ""};
        case Format::rows:
            return {.text = rows_text(value, look)};
        case Format::window:
            return {.text = window_text(row, look)};
        case Format::bar:
            return bar_cell(row, look.output);
        case Format::schedule:
            return {.text = schedule_text(row)};
        case Format::size:
            return {.text = value.is_int64() ? size(value.get_int64()) : ""};
        case Format::json:
            return {.text = value.is_null() ? "" : json::serialize(value)};
    }
    return {};
}

// A column that says nothing of any row only takes room, unless people expect it.
void drop_empty_columns(TextTable& table) {
    for (std::size_t i = table.columns.size(); i-- > 0;) {
        const auto says_something = [&](const std::vector<TextCell>& row) { return !row[i].text.empty(); };
        if (table.columns[i].room == Room::always || std::ranges::any_of(table.rows, says_something)) continue;
        const auto at = static_cast<std::ptrdiff_t>(i);
        table.columns.erase(table.columns.begin() + at);
        for (auto& row : table.rows) row.erase(row.begin() + at);
    }
}

Align align_of(Format format) {
    switch (format) {
        case Format::money:
        case Format::amount:
            return Align::decimal;
        case Format::count:
        case Format::seconds:
        case Format::milliseconds:
        case Format::microseconds:
        case Format::length:
        case Format::size:
            return Align::right;
        default:
            return Align::left;
    }
}

}  // namespace

TextTable table_of(const json::array& rows, const View& view, const CliOutput& output, Instant now) {
    const Look look{.output = output, .now = now, .detailed = false};
    TextTable table;
    for (const Column& column : view.columns) {
        const bool free = column.format == Format::free_text || column.format == Format::pairs;
        const Room room = column.room == Room::always && free ? Room::shortened : column.room;
        table.columns.push_back({.header = column.header, .align = align_of(column.format), .room = room});
    }
    for (const json::value& row : rows) {
        std::vector<TextCell> cells;
        for (const Column& column : view.columns) cells.push_back(cell_of(column, row, look));
        table.rows.push_back(std::move(cells));
    }
    drop_empty_columns(table);
    return table;
}

std::vector<Detail> details_of(const json::object& object, const View& view, const CliOutput& output, Instant now) {
    const Look look{.output = output, .now = now, .detailed = true};
    const json::value row(object);
    std::vector<Detail> details;
    for (const Column& field : view.fields) {
        TextCell cell = cell_of(field, row, look);
        if (!cell.text.empty() && cell.text != field.usual)
            details.push_back({.label = field.header, .value = std::move(cell)});
    }
    return details;
}

const json::value& member_of(const json::value& document, std::string_view path) {
    static const json::value none;
    const json::value* at = &document;
    while (!path.empty()) {
        const std::size_t dot = path.find('.');
        const json::object* object = at->if_object();
        at = object == nullptr ? nullptr : object->if_contains(path.substr(0, dot));
        if (at == nullptr) return none;
        path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
    }
    return *at;
}

std::string text_of(const json::value& value) {
    if (value.is_null()) return "";
    if (const auto* text = value.if_string()) return std::string(*text);
    return json::serialize(value);
}

}  // namespace interlock::cli
