// Stores as tools see them, wherever they are: to look into, and to have to oneself while nobody serves them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/copy_mark.h"
#include "store/repair.h"
#include "store/store.h"

namespace interlock::server {

// A data directory, or "postgres://…".
struct StoreAddress {
    std::string text;

    bool is_database() const { return text.starts_with("postgres://") || text.starts_with("postgresql://"); }
    // For people and logs: without a password.
    std::string shown() const;
};

// The present state, with or without a server or nodes. Changes nothing.
Result<std::unique_ptr<store::Snapshot>, store::OpenError> look_into(const StoreAddress& address);
// Whether there is a store at all. Changes nothing.
Result<bool, store::OpenError> is_there(const StoreAddress& address);

// A store that is ours alone. A server or a node that is alive keeps us from it; a node that comes back later finds
// that it can write nothing any more, until it takes the lanes again.
class OfflineStore {
 public:
    virtual ~OfflineStore() = default;

    virtual store::Store& store() = 0;  // Open.
    virtual Result<void, store::CommitError> repair(const std::vector<store::Repair>& repairs) = 0;

    virtual Result<std::optional<store::CopyMark>, store::ReadError> mark() = 0;
    virtual Result<void, store::ReadError> set_mark(const store::CopyMark& mark) = 0;
    virtual Result<void, store::ReadError> remove_mark() = 0;

    // That nobody has come in between. An error otherwise.
    virtual Result<void, store::ReadError> still_ours() = 0;
    // After many rows were written: whatever the store wants to know of them before they are read.
    virtual void look_around() {}
};

struct OfflineOptions {
    enum class IfMissing { refuse, make };
    IfMissing if_missing = IfMissing::refuse;
    enum class UnfinishedCopy { refuse, open };
    UnfinishedCopy unfinished_copy = UnfinishedCopy::refuse;
};
Result<std::unique_ptr<OfflineStore>, store::OpenError> open_offline(const StoreAddress& address,
                                                                     const OfflineOptions& options = {});

}  // namespace interlock::server
