#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/sqlite_db.h"
#include "store/sqlite_file.h"
#include "store/sqlite_store.h"

namespace interlock::store {
namespace {

class SqliteSnapshot final : public Snapshot {
 public:
    explicit SqliteSnapshot(Database db) : db_(std::move(db)) {}

    Result<void, ReadError> query(std::string_view sql, const OnValues& on_row) override {
        const Statement statement = prepare(db_.get(), std::string(sql));
        if (!statement) return fail(ReadError{error_text(db_.get())});
        std::vector<Value> values(static_cast<std::size_t>(sqlite3_column_count(statement.get())));
        int rc = SQLITE_OK;
        while ((rc = sqlite3_step(statement.get())) == SQLITE_ROW) {
            for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(statement.get(), static_cast<int>(i));
            on_row(values);
        }
        if (rc != SQLITE_DONE) return fail(ReadError{error_text(db_.get())});
        return {};
    }

 private:
    static Value value(sqlite3_stmt* statement, int column) {
        switch (sqlite3_column_type(statement, column)) {
            case SQLITE_NULL:
                return std::monostate();
            case SQLITE_INTEGER:
                return sqlite3_column_int64(statement, column);
            case SQLITE_FLOAT:
                sqlite3_column_text(statement, column);  // Turned into its text. No column of ours is one.
        }
        return std::string(column_bytes(statement, column));
    }

    Database db_;
};

}  // namespace

Result<std::unique_ptr<Snapshot>, OpenError> open_snapshot(const std::string& directory, const std::string& vfs) {
    auto db = open_to_read(directory, vfs);
    if (!db) return fail(db.error());
    return std::unique_ptr<Snapshot>(std::make_unique<SqliteSnapshot>(std::move(*db)));
}

}  // namespace interlock::store
