// Tables: columns that line up on a terminal of a given width.
//
//   (1) Only columns of free text are ever shortened. An id, an amount or a status is shown whole or, with its column,
//       not at all.
//   (2) Where there is no edge (a pipe, a file), nothing is shortened and no column is left out.
#pragma once

#include <string>
#include <vector>

#include "cli/output.h"

namespace interlock::cli {

enum class Align {
    left,
    right,
    decimal,  // On the decimal point, as in a ledger.
};

enum class Room {
    always,       // The column stays, whole.
    if_there_is,  // Left out on a narrow terminal, the last such column first.
    shortened,    // Free text: the first to give way, the last to go.
};

struct TableColumn {
    std::string header;
    Align align = Align::left;
    Room room = Room::always;
};

struct TextCell {
    std::string text = {};
    Style style = Style::plain;
    std::string painted = {};  // What a styled terminal shows instead; as wide as `text`.
};

struct TextTable {
    std::vector<TableColumn> columns;
    std::vector<std::vector<TextCell>> rows;  // Each with one cell per column.
};

std::string render(const TextTable& table, const CliOutput& output);

// Label and value, one pair a line. A value of several lines is indented as a block.
struct Detail {
    std::string label;
    TextCell value;
};
std::string render(const std::vector<Detail>& details, const CliOutput& output);

}  // namespace interlock::cli
