// A store: loads rows, commits changes, reads snapshots. It knows the rows, never the rules.
//
//   (1) A commit is all or nothing, also across a crash, and durable before commit() says so.
//   (2) Loads see every commit that succeeded, and nothing else.
//   (3) A commit that inserts a row of an appended kind under a key that is there already fails, and changes nothing.
//   (4) After an error the store is closed to loads and commits until open() succeeds again. What is there then is the
//       truth: open() settles every commit whose outcome was unknown.
//
// Used by one thread at a time, except snapshot(), which may be called from any. Every store passes
// store_conformance.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include <boost/mp11/algorithm.hpp>

#include "base/result.h"
#include "core/key_of.h"
#include "core/rows.h"
#include "core/source.h"

namespace interlock::store {

// What one batch does to the rows of one kind. The rows belong to the caller and stay good until commit() returns.
template <class Row>
struct RowWrites {
    std::vector<const Row*> put;  // Inserted, or replaced where the kind allows it.
    std::vector<core::KeyOf<Row>> erased;
};

struct OrgWrites {
    core::OrgId org;
    boost::mp11::mp_transform<RowWrites, core::AllRows> rows;
    // The number of the org's last seal, on which these writes were decided. Stores that others can write check it.
    std::optional<std::int64_t> follows = {};

    template <class Row>
    RowWrites<Row>& of() {
        return std::get<RowWrites<Row>>(rows);
    }
    template <class Row>
    const RowWrites<Row>& of() const {
        return std::get<RowWrites<Row>>(rows);
    }
};

// One transaction. Orgs in rising order, each once.
struct WriteSet {
    std::vector<OrgWrites> orgs;
};

// The two ways a commit can go wrong. A kind exists only where the engine acts on it differently.
struct CommitError {
    enum class Kind {
        rolled_back,  // Nothing was written: a full disk, a constraint.
        unknown,      // The write may or may not have happened; the next open() settles it.
    };
    Kind kind;
    std::string detail;  // For the log. Nothing branches on it.
};

struct OpenError {
    enum class Kind {
        in_use,       // Another server has the data.
        not_ours,     // A file that is not a store of ours, or is damaged.
        too_new,      // Written by a later version.
        unavailable,  // The world said no: a missing directory, permissions, a full or failing disk.
    };
    Kind kind;
    std::string detail;  // What, why and what to do, for people.
};

struct ReadError {
    std::string detail;
};

// Rows that live in memory from open to close: every row of a resident kind, every unfinished run, every open hold and
// the last feed page and the last seal of each org.
using LiveRow =
    std::variant<core::Org, core::Agent, core::AgentTotals, core::ApiKey, core::Cap, core::Budget, core::Run,
                 core::Claim, core::Hold, core::Schedule, core::FeedPage, core::Worktree, core::Setting, core::Seal>;
using OnLiveRow = std::function<void(core::OrgId, LiveRow&&)>;

using Value = std::variant<std::monostate, std::int64_t, std::string>;  // Blobs are strings too.
using OnValues = std::function<void(const std::vector<Value>&)>;
using Parameter = std::variant<std::int64_t, std::string, Id>;  // $1, $2, … of a query.

// The committed state of one moment, for reading. Never used to decide anything. For one thread at a time, and for one
// question: on_row asks nothing itself.
class Snapshot {
 public:
    virtual ~Snapshot() = default;
    virtual Result<void, ReadError> query(std::string_view sql, const std::vector<Parameter>& parameters,
                                          const OnValues& on_row) = 0;
    Result<void, ReadError> query(std::string_view sql, const OnValues& on_row) { return query(sql, {}, on_row); }
    // What the whole store takes on its disk.
    virtual Result<std::int64_t, ReadError> store_bytes() = 0;
    // Lets go of the moment: the next query sees the state of its own time, and those after it the same.
    virtual Result<void, ReadError> renew() = 0;
};

class Store : public core::RowSource {
 public:
    // Makes the store ready, or ready again after an error. Idempotent.
    virtual Result<void, OpenError> open() = 0;
    virtual void close() = 0;

    virtual Result<void, ReadError> load_live(const OnLiveRow& on_row) = 0;
    // The greatest time-ordered key of a cost event or an answer, over all orgs; the empty id where there is none.
    virtual Result<Id, ReadError> newest_key() = 0;

    virtual Result<void, CommitError> commit(const WriteSet& writes) = 0;

    virtual Result<std::unique_ptr<Snapshot>, ReadError> snapshot() = 0;
};

}  // namespace interlock::store
