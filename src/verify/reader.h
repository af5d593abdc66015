// Reading rows: a query, and for each row its columns one after another in the order the query names them.
//
// An error is remembered and ends all further reading, so that a check can be written as if reading could not fail;
// whoever started the checks asks for the error at the end and throws their outcome away.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/instant.h"
#include "store/repair.h"
#include "store/store.h"
#include "verify/verify.h"

namespace interlock::verify {

// The columns of one row, from left to right. A value of another type than asked for reads as 0 or "": the schema's
// own types keep that from happening, and a row that says nonsense is then found by what it says.
class ColumnReader {
 public:
    explicit ColumnReader(const std::vector<store::Value>& values) : values_(values) {}

    std::int64_t integer();
    bool flag() { return integer() != 0; }
    std::string_view text();  // Or the bytes of a blob. Good until the next row.
    Id id();                  // NULL is the empty id.

 private:
    const std::vector<store::Value>& values_;
    std::size_t next_ = 0;
};

class SnapshotReader {
 public:
    SnapshotReader(store::Snapshot& snapshot, const Progress& progress) : snapshot_(snapshot), progress_(progress) {}

    // `what` names the rows to whoever waits for them.
    template <class OnRow>
    void each(std::string_view what, std::string_view sql, OnRow on_row) {
        read(what, sql, [&](const std::vector<store::Value>& values) { on_row(ColumnReader(values)); });
    }
    // The same with the values as they are.
    void each_values(std::string_view what, std::string_view sql, const store::OnValues& on_row) {
        read(what, sql, on_row);
    }
    const std::optional<store::ReadError>& error() const { return error_; }

 private:
    void read(std::string_view what, std::string_view sql, const store::OnValues& on_row);

    store::Snapshot& snapshot_;
    const Progress& progress_;
    std::optional<store::ReadError> error_;
};

// ---- what columns of lists and maps hold --------------------------------------------------------------------------

using Tags = std::map<std::string, std::string, std::less<>>;

struct Scope {
    std::string agent, workflow, provider, model, api_key;
    Id run, session;
    Tags tags;
};
struct HoldPart {
    std::string budget;
    std::int64_t window = 0;  // Micros of its start.
    std::int64_t amount = 0;
    std::int64_t drawn = 0;
};
struct Place {
    std::string kind, host, path, mode;
    std::vector<std::string> chain;
    friend bool operator==(const Place&, const Place&) = default;
};

// Each is empty when the text is not what the column should hold.
std::optional<Tags> tags_from(std::string_view json);
std::optional<Scope> scope_from(std::string_view json);
std::optional<std::vector<HoldPart>> parts_from(std::string_view json);
std::optional<std::vector<Place>> places_from(std::string_view json);
std::optional<std::vector<std::string>> texts_from(std::string_view json);

}  // namespace interlock::verify
