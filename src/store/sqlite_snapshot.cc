#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/by_text.h"
#include "store/sqlite_columns.h"
#include "store/sqlite_db.h"
#include "store/sqlite_file.h"
#include "store/sqlite_store.h"

namespace interlock::store {
namespace {

class SqliteSnapshot final : public Snapshot {
 public:
    explicit SqliteSnapshot(Database db) : db_(std::move(db)) {}

    using Snapshot::query;
    Result<void, ReadError> query(std::string_view sql, const std::vector<Parameter>& parameters,
                                  const OnValues& on_row) override {
        sqlite3_stmt* statement = prepared(sql);
        if (statement == nullptr) return fail(ReadError{error_text(db_.get())});
        const ResetAtEnd reset(statement);
        bind(statement, parameters);
        std::vector<Value> values(static_cast<std::size_t>(sqlite3_column_count(statement)));
        int rc = SQLITE_OK;
        while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
            for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(statement, static_cast<int>(i));
            on_row(values);
        }
        if (rc != SQLITE_DONE) return fail(ReadError{error_text(db_.get())});
        return {};
    }

    Result<std::int64_t, ReadError> store_bytes() override {
        std::int64_t bytes = 0;
        auto read = query("select page_count * page_size from pragma_page_count(), pragma_page_size()",
                          [&](const std::vector<Value>& row) { bytes = std::get<std::int64_t>(row.front()); });
        if (!read) return fail(read.error());
        return bytes;
    }

    Result<void, ReadError> renew() override {
        if (execute(db_.get(), "commit; begin") != SQLITE_OK) return fail(ReadError{error_text(db_.get())});
        return {};
    }

 private:
    static constexpr std::size_t statements_max = 64;

    // A snapshot that is renewed answers the same few questions again and again.
    sqlite3_stmt* prepared(std::string_view sql) {
        if (const auto found = statements_.find(std::string(sql)); found != statements_.end()) {
            return found->second.get();
        }
        if (statements_.size() >= statements_max) statements_.clear();
        Statement& statement = statements_[std::string(sql)];
        statement = prepare(db_.get(), std::string(sql));
        return statement.get();
    }

    static void bind(sqlite3_stmt* statement, const std::vector<Parameter>& parameters) {
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            const int index = sqlite3_bind_parameter_index(statement, fmt::format("${}", i + 1).c_str());
            BindSink sink{statement, index};
            if (const auto* number = std::get_if<std::int64_t>(&parameters[i])) {
                sink.integer(*number);
            } else if (const auto* text = std::get_if<std::string>(&parameters[i])) {
                sink.text(*text);
            } else {
                Scratch scratch;
                const std::string_view bytes = id_bytes(std::get<Id>(parameters[i]), scratch);
                sqlite3_bind_blob64(statement, index, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
            }
        }
    }

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
    ByText<Statement> statements_;
};

}  // namespace

Result<std::unique_ptr<Snapshot>, OpenError> open_snapshot(const std::string& directory, const std::string& vfs) {
    auto db = open_to_read(directory, vfs);
    if (!db) return fail(db.error());
    return std::unique_ptr<Snapshot>(std::make_unique<SqliteSnapshot>(std::move(*db)));
}

}  // namespace interlock::store
