// A small org in an in-memory database, written row by row and right in every number, for tests that then break it.
//
// Nothing here goes through core/: the sums were added up by hand, so that the checker is compared with a third
// opinion.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/codec.h"
#include "base/id.h"
#include "store/repair.h"
#include "store/store.h"
#include "verify/verify.h"

namespace interlock::verify {

// Ids by number: runs 1…, sessions 11…, holds 21…, keys 31…. Run 2 is named as the tick of a schedule names it.
Id id(std::uint64_t number);
std::string x(std::uint64_t number);  // The same as an SQL literal.

std::int64_t at(std::string_view iso8601);  // Micros.

// An encoded event of the feed.
template <class... Fields>
std::string event(std::uint8_t kind, const Fields&... fields) {
    std::string bytes(1, static_cast<char>(kind));
    Encoder encoder(bytes);
    (encoder.put(fields), ...);
    return bytes;
}

class World {
 public:
    World();
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    // Constraints do not apply: what a test breaks, the tables would mostly have refused.
    void sql(const std::string& statements);

    using Cells = std::initializer_list<std::pair<std::string_view, store::StoredValue>>;
    // Columns that are not named are 0, '', [] or {}.
    void insert(std::string_view table, Cells cells);
    void cost_event(Cells cells);
    // A page of the feed with these events, linked to the one before.
    void page(std::int64_t written_at, const std::vector<std::string>& events);

    Report verify(std::size_t examples_max = 20);
    // What a store does with repairs, the plain way.
    void apply(const std::vector<store::Repair>& repairs);

    std::unique_ptr<store::Snapshot> snapshot();

 private:
    void fill();
    sqlite3* db_ = nullptr;
    std::int64_t last_seq_ = 0;
    std::string last_hash_ = std::string(32, '\0');
};

}  // namespace interlock::verify
