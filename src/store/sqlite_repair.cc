#include "store/sqlite_repair.h"

#include <fmt/format.h>

#include "store/repair_edit.h"
#include "store/sqlite_columns.h"

namespace interlock::store {

std::string carry_out(sqlite3* db, const Repair& repair) {
    const RepairEdit edit = edit_for(repair);
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
