// A correction of one stored row, as data: which row, which columns, from what to what. A store carries corrections
// out; it does not ask why.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace interlock::store {

struct Blob {
    std::string bytes;
    friend bool operator==(const Blob&, const Blob&) = default;
};
using StoredValue = std::variant<std::int64_t, std::string, Blob>;

struct Cell {
    std::string column;
    StoredValue value;
    friend bool operator==(const Cell&, const Cell&) = default;
};

// A row by its table and its primary key, the org first.
struct RowName {
    std::string table;
    std::vector<Cell> key;
    friend bool operator==(const RowName&, const RowName&) = default;
};

struct Repair {
    enum class Kind {
        change,  // Each cell goes from `from` to `to`.
        insert,  // The row is missing: the cells' `to` are its columns beside the key.
        remove,  // The row should not be there: the cells' `from` are what it said.
    };
    struct Change {
        std::string column;
        StoredValue from;
        StoredValue to;
        friend bool operator==(const Change&, const Change&) = default;
    };
    Kind kind = Kind::change;
    RowName row;
    std::vector<Change> cells;
    friend bool operator==(const Repair&, const Repair&) = default;
};

}  // namespace interlock::store
