#include "store/repair_edit.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace interlock::store {

RepairEdit edit_for(const Repair& repair) {
    RepairEdit edit;
    bool first = true;
    const auto add = [&](std::string_view text, const StoredValue& value, std::string_view between) {
        if (!std::exchange(first, false)) edit.sql += between;
        edit.values.push_back(&value);
        edit.sql += text;
    };
    const auto is = [&](const std::string& column) { return fmt::format("{} = ${}", column, edit.values.size() + 1); };

    if (repair.kind == Repair::Kind::insert) {
        edit.sql = fmt::format("insert into {}(", repair.row.table);
        for (const Cell& cell : repair.row.key) add(cell.column, cell.value, ", ");
        for (const Repair::Change& cell : repair.cells) add(cell.column, cell.to, ", ");
        std::string marks;
        for (std::size_t i = 0; i < edit.values.size(); ++i) marks += fmt::format("{}${}", i == 0 ? "" : ", ", i + 1);
        edit.sql += ") values (" + marks + ")";
        return edit;
    }
    if (repair.kind == Repair::Kind::change) {
        edit.sql = fmt::format("update {} set ", repair.row.table);
        for (const Repair::Change& cell : repair.cells) add(is(cell.column), cell.to, ", ");
    } else {
        edit.sql = fmt::format("delete from {}", repair.row.table);
    }
    edit.sql += " where ";
    first = true;
    for (const Cell& cell : repair.row.key) add(is(cell.column), cell.value, " and ");
    for (const Repair::Change& cell : repair.cells) add(is(cell.column), cell.from, " and ");
    return edit;
}

}  // namespace interlock::store
