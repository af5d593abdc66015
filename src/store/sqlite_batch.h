// A batch of rows as a table that SQLite can read: "insert into agents select * from put_agents".
//
// Writing a batch is one statement instead of one for each row. SQLite then keeps its place in the tree from row to row
// and takes each value from where it stands, which for cost events saves a quarter of the time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <sqlite3.h>

#include "core/rows.h"
#include "store/sqlite_columns.h"

namespace interlock::store {

// What the table shows just now. The rows belong to the caller.
template <class Row>
struct Batch {
    core::OrgId org;
    const Row* const* begin = nullptr;
    const Row* const* end = nullptr;
};

template <class Row>
class BatchTable {
 public:
    static std::string name() { return "put_" + std::string(Row::table); }

    // Makes the table known to a connection. The batch must outlive it.
    static int add_to(sqlite3* db, Batch<Row>& batch) {
        return sqlite3_create_module(db, name().c_str(), &module_, &batch);
    }

 private:
    struct Table {
        sqlite3_vtab base;  // First, because SQLite knows the table by its address.
        const Batch<Row>* batch;
    };
    struct Cursor {
        sqlite3_vtab_cursor base;
        const Batch<Row>* batch;
        const Row* const* row;
        std::array<Scratch, column_count<Row>> scratch;
    };

    struct ResultSink {
        sqlite3_context* context;
        void integer(std::int64_t value) { sqlite3_result_int64(context, value); }
        void text(std::string_view value) {
            sqlite3_result_text64(context, value.data(), value.size(), SQLITE_STATIC, SQLITE_UTF8);
        }
        void bytes(std::string_view value) {
            sqlite3_result_blob64(context, value.empty() ? "" : value.data(), value.size(), SQLITE_STATIC);
        }
        void null() {}
    };

    static Cursor& cursor(sqlite3_vtab_cursor* base) { return *reinterpret_cast<Cursor*>(base); }

    static int connect(sqlite3* db, void* batch, int, const char* const*, sqlite3_vtab** table, char**) {
        *table = &(new Table{{}, static_cast<const Batch<Row>*>(batch)})->base;
        return sqlite3_declare_vtab(db, ("create table put(" + column_list(shape_of<Row>()) + ")").c_str());
    }
    static int disconnect(sqlite3_vtab* table) {
        delete reinterpret_cast<Table*>(table);
        return SQLITE_OK;
    }
    static int best_index(sqlite3_vtab*, sqlite3_index_info*) { return SQLITE_OK; }
    static int open(sqlite3_vtab* table, sqlite3_vtab_cursor** base) {
        *base = &(new Cursor{{}, reinterpret_cast<Table*>(table)->batch, nullptr, {}})->base;
        return SQLITE_OK;
    }
    static int close(sqlite3_vtab_cursor* base) {
        delete &cursor(base);
        return SQLITE_OK;
    }
    static int filter(sqlite3_vtab_cursor* base, int, const char*, int, sqlite3_value**) {
        cursor(base).row = cursor(base).batch->begin;
        return SQLITE_OK;
    }
    static int next(sqlite3_vtab_cursor* base) {
        ++cursor(base).row;
        return SQLITE_OK;
    }
    static int at_end(sqlite3_vtab_cursor* base) { return cursor(base).row == cursor(base).batch->end; }
    static int row_id(sqlite3_vtab_cursor* base, sqlite3_int64* id) {
        *id = cursor(base).row - cursor(base).batch->begin;
        return SQLITE_OK;
    }
    static int column(sqlite3_vtab_cursor* base, sqlite3_context* context, int index) {
        Cursor& at = cursor(base);
        if (index == 0) {
            sqlite3_result_int64(context, at.batch->org.value);
        } else {
            const auto i = static_cast<std::size_t>(index) - 1;
            writers_[i]({context}, **at.row, at.scratch[i]);
        }
        return SQLITE_OK;
    }

    using Writer = void (*)(ResultSink, const Row&, Scratch&);
    template <std::size_t... I>
    static constexpr std::array<Writer, sizeof...(I)> writers(std::index_sequence<I...>) {
        return {&write_column<Row, I, ResultSink>...};
    }
    static constexpr std::array<Writer, column_count<Row>> writers_ =
        writers(std::make_index_sequence<column_count<Row>>{});

    static constexpr sqlite3_module make_module() {
        sqlite3_module module{};  // Without xCreate the table is there by itself and belongs to no schema.
        module.xConnect = connect;
        module.xBestIndex = best_index;
        module.xDisconnect = disconnect;
        module.xOpen = open;
        module.xClose = close;
        module.xFilter = filter;
        module.xNext = next;
        module.xEof = at_end;
        module.xColumn = column;
        module.xRowid = row_id;
        return module;
    }
    static constexpr sqlite3_module module_ = make_module();
};

}  // namespace interlock::store
