// Views: the members of a response that are shown, with their headings and formats.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <vector>

#include "base/instant.h"
#include "cli/output.h"
#include "cli/text_table.h"

namespace interlock::cli {

enum class Format {
    text,
    free_text,  // May be shortened to fit.
    id,
    money,
    amount,  // Dollars or a count, as the row's "metric" says.
    count,
    time,          // Relative in tables; with the instant itself in details.
    status,        // Coloured by meaning.
    yes,           // "yes" if true, else empty.
    seconds,       // "60 s"
    milliseconds,  // "12 ms", "3 s"
    microseconds,  // The same.
    length,        // "30 min"; empty for none.
    took,          // From the row's start to its end, or to now.
    words,         // An array of texts, on one line.
    pairs,         // An object: "team=x model=y".
    rows,          // An array of objects, one per line.
    window,        // "day, resets in 3 h"
    bar,           // Settled, held and free, of a budget.
    schedule,      // "every 15 min", "cron 0 9 * * mon-fri"
    size,
    json,
};

struct Column {
    std::string header;
    std::string member;  // A path: "window.kind".
    Format format = Format::text;
    Room room = Room::always;
    std::string usual = {};  // The usual value, which details leave out.
};

struct View {
    std::string id = "id";             // The member that names a row. --quiet prints only this.
    std::vector<Column> columns = {};  // A row of a list.
    std::vector<Column> fields = {};   // The details of one object, without null, empty and missing members.
    std::string when_empty = {};       // For a list without rows; has the command that creates one.
};

TextTable table_of(const boost::json::array& rows, const View& view, const CliOutput& output, Instant now);
std::vector<Detail> details_of(const boost::json::object& row, const View& view, const CliOutput& output, Instant now);

// The member at a path, or null.
const boost::json::value& member_of(const boost::json::value& document, std::string_view path);
// A scalar as text, without quotes; null is empty.
std::string text_of(const boost::json::value& value);

}  // namespace interlock::cli
