#include "cli/text_table.h"

#include <algorithm>
#include <numeric>

#include "cli/text.h"

namespace interlock::cli {
namespace {

constexpr std::size_t gap = 2;
constexpr std::size_t free_text_min = 10;

std::size_t fraction_width(std::string_view text) {
    const std::size_t point = text.find('.');
    return point == std::string_view::npos ? 0 : text.size() - point;
}

// Blanks behind the amounts, so that their points are below each other.
void line_up_points(TextTable& table, std::size_t column) {
    std::size_t widest = 0;
    for (const auto& row : table.rows) widest = std::max(widest, fraction_width(row[column].text));
    for (auto& row : table.rows) row[column].text += std::string(widest - fraction_width(row[column].text), ' ');
}

std::vector<std::size_t> natural_widths(const TextTable& table) {
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
        std::size_t widest = display_width(table.columns[i].header);
        for (const auto& row : table.rows) widest = std::max(widest, display_width(row[i].text));
        widths.push_back(widest);
    }
    return widths;
}

std::size_t total(const std::vector<std::size_t>& widths) {
    const std::size_t gaps = widths.empty() ? 0 : gap * (widths.size() - 1);
    return std::accumulate(widths.begin(), widths.end(), gaps);
}

void drop_column(TextTable& table, std::size_t column) {
    const auto at = static_cast<std::ptrdiff_t>(column);
    table.columns.erase(table.columns.begin() + at);
    for (auto& row : table.rows) row.erase(row.begin() + at);
}

std::vector<std::size_t> fit(TextTable& table, std::size_t width) {
    std::vector<std::size_t> widths = natural_widths(table);
    if (width == 0) return widths;

    // 1. Free text gives way, the widest first, down to what still says something.
    const auto shorten = [&] {
        while (total(widths) > width) {
            std::size_t widest = widths.size();
            for (std::size_t i = 0; i < widths.size(); ++i) {
                if (table.columns[i].room != Room::shortened || widths[i] <= free_text_min) continue;
                if (widest == widths.size() || widths[i] > widths[widest]) widest = i;
            }
            if (widest == widths.size()) return;
            --widths[widest];
        }
    };
    shorten();

    // 2. Then whole columns go, and free text gets back what they took; in the end, free text goes too.
    while (total(widths) > width) {
        auto found =
            std::ranges::find(table.columns.rbegin(), table.columns.rend(), Room::if_there_is, &TableColumn::room);
        if (found == table.columns.rend()) {
            found =
                std::ranges::find(table.columns.rbegin(), table.columns.rend(), Room::shortened, &TableColumn::room);
        }
        if (found == table.columns.rend()) break;
        drop_column(table, static_cast<std::size_t>(table.columns.rend() - found) - 1);
        widths = natural_widths(table);
        shorten();
    }
    return widths;
}

std::string aligned(const std::string& text, std::size_t taken, std::size_t width, Align align) {
    const std::string blanks(width > taken ? width - taken : 0, ' ');
    return align == Align::left ? text + blanks : blanks + text;
}

std::string without_trailing_blanks(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
}

}  // namespace

std::string render(const TextTable& given, const CliOutput& output) {
    TextTable table = given;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
        if (table.columns[i].align == Align::decimal) line_up_points(table, i);
    }
    const std::vector<std::size_t> widths = fit(table, output.width);
    const std::string between(gap, ' ');

    std::string text;
    std::string line;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const TableColumn& column = table.columns[i];
        const std::string header = aligned(column.header, display_width(column.header), widths[i], column.align);
        line += (i > 0 ? between : "") + output.paint(Style::dim, header);
    }
    text += without_trailing_blanks(line) + '\n';

    for (const auto& row : table.rows) {
        line.clear();
        for (std::size_t i = 0; i < row.size(); ++i) {
            const TableColumn& column = table.columns[i];
            const bool cut = column.room == Room::shortened && display_width(row[i].text) > widths[i];
            const std::string shown = cut ? shortened(row[i].text, widths[i]) : row[i].text;
            const bool own_paint = output.styled && !cut && !row[i].painted.empty();
            const std::string painted = own_paint ? row[i].painted : output.paint(row[i].style, shown);
            line += (i > 0 ? between : "") + aligned(painted, display_width(shown), widths[i], column.align);
        }
        text += without_trailing_blanks(line) + '\n';
    }
    return text;
}

std::string render(const std::vector<Detail>& details, const CliOutput& output) {
    std::size_t label_width = 0;
    for (const Detail& detail : details) label_width = std::max(label_width, display_width(detail.label));
    const std::string indent = '\n' + std::string(label_width + gap, ' ');

    std::string text;
    for (const Detail& detail : details) {
        std::string value = output.styled && !detail.value.painted.empty()
                                ? detail.value.painted
                                : output.paint(detail.value.style, detail.value.text);
        for (std::size_t at = 0; (at = value.find('\n', at)) != std::string::npos; at += indent.size()) {
            value.replace(at, 1, indent);
        }
        text += output.paint(Style::dim, padded(detail.label, label_width + gap)) + value + '\n';
    }
    return text;
}

}  // namespace interlock::cli
