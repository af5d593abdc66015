// Views: which members of an answer people see, under which name and in which form.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <vector>

#include "base/instant.h"
#include "cli/cli_output.h"
#include "cli/text_table.h"

namespace interlock::cli {

enum class Format {
    text,
    free_text,  // May be shortened to fit.
    id,
    money,
    amount,  // Dollars or a count, whichever the row's "metric" says.
    count,
    time,          // Relative in tables; with the instant itself in details.
    status,        // Coloured by what it means.
    yes,           // "yes" when true, nothing otherwise.
    seconds,       // "60 s"
    milliseconds,  // "12 ms", "3 s"
    microseconds,  // The same.
    length,        // "30 min"; nothing for none.
    took,          // From the row's start to its end, or to now.
    words,         // An array of texts, on one line.
    pairs,         // An object: "team=x model=y".
    rows,          // An array of objects, one a line.
    window,        // "day, turns in 3 h"
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
    std::string usual = {};  // Not worth a line in details: what nearly all of them have.
};

struct View {
    std::string id = "id";             // The member that names a row; all that --quiet prints.
    std::vector<Column> columns = {};  // A row of a list.
    std::vector<Column> fields = {};   // One of them, in detail. Members that are null, empty or missing are left out.
    std::string when_empty = {};       // What to do next when a list has no rows.
};

TextTable table_of(const boost::json::array& rows, const View& view, const CliOutput& terminal, Instant now);
std::vector<Detail> details_of(const boost::json::object& row, const View& view, const CliOutput& terminal,
                               Instant now);

// The member at a path, or null.
const boost::json::value& member_of(const boost::json::value& document, std::string_view path);
// A scalar as text, without quotes; null is empty.
std::string text_of(const boost::json::value& value);

}  // namespace interlock::cli
