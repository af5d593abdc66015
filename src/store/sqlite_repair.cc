#include "store/sqlite_repair.h"

#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "store/sqlite_columns.h"

namespace interlock::store {
namespace {

// Statement and values, put together side by side.
struct Edit {
    std::string sql;
    std::vector<const StoredValue*> values;

    void add_list(std::string_view form, const std::string& column, const StoredValue& value, std::string_view between,
                  bool first) {
        if (!first) sql += between;
        sql += fmt::format(fmt::runtime(form), column);
        values.push_back(&value);
    }
};

Edit edit_for(const Repair& repair) {
    Edit edit;
    bool first = true;
    const auto add = [&](std::string_view form, const std::string& column, const StoredValue& value,
                         std::string_view between) {
        edit.add_list(form, column, value, between, std::exchange(first, false));
    };
    if (repair.kind == Repair::Kind::insert) {
        std::string marks;
        edit.sql = fmt::format("insert into {}(", repair.row.table);
        for (const Cell& cell : repair.row.key) add("{}", cell.column, cell.value, ", ");
        for (const Repair::Change& cell : repair.cells) add("{}", cell.column, cell.to, ", ");
        for (std::size_t i = 0; i < edit.values.size(); ++i) marks += i == 0 ? "?" : ", ?";
        edit.sql += ") values (" + marks + ")";
        return edit;
    }
    if (repair.kind == Repair::Kind::change) {
        edit.sql = fmt::format("update {} set ", repair.row.table);
        for (const Repair::Change& cell : repair.cells) add("{} = ?", cell.column, cell.to, ", ");
    } else {
        edit.sql = fmt::format("delete from {}", repair.row.table);
    }
    edit.sql += " where ";
    first = true;
    for (const Cell& cell : repair.row.key) add("{} is ?", cell.column, cell.value, " and ");
    for (const Repair::Change& cell : repair.cells) add("{} is ?", cell.column, cell.from, " and ");
    return edit;
}

}  // namespace

std::string carry_out(sqlite3* db, const Repair& repair) {
    const Edit edit = edit_for(repair);
    const Statement statement = prepare(db, edit.sql);
    if (!statement) return error_text(db);
    for (std::size_t i = 0; i < edit.values.size(); ++i) {
        BindSink sink{statement.get(), static_cast<int>(i) + 1};
        const StoredValue& value = *edit.values[i];
        if (const auto* number = std::get_if<std::int64_t>(&value)) sink.integer(*number);
        if (const auto* text = std::get_if<std::string>(&value)) sink.text(*text);
        if (const auto* blob = std::get_if<Blob>(&value)) sink.bytes(blob->bytes);
    }
    if (sqlite3_step(statement.get()) != SQLITE_DONE) return error_text(db);
    if (sqlite3_changes(db) != 1) return fmt::format("a row of {} is no longer what it was", repair.row.table);
    return "";
}

}  // namespace interlock::store
