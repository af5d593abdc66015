// A store in memory, for tests and the simulator: fast, copyable, and able to fail and to lie on request.
//
// An honest fault is one that a real store has too: whoever uses the store must bear it. The lies break what a store
// promises; they are there to show that a checker notices.
//
// A store that is alone has a database of its own, and a copy of it is a second store with a copy of that. Several
// stores on one database are nodes that share it: each has the lane of one org, which open() takes and close() gives
// back, and sees the rows of that org only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "store/memory_database.h"
#include "store/store.h"

namespace interlock::store {

enum class CommitFault {
    none,
    fail_before,  // Rolled back: nothing is written.
    lose_answer,  // Unknown, and it is written.
    lose_write,   // Unknown, and it is not.
    // Unknown, and decided later (memory_database.h). For stores that have a lane.
    late_on_the_wire,
    late_in_the_database,
    // Lies.
    forget,       // Says done, writes nothing.
    tear,         // Says done, writes the first half of the rows.
    tear_unsure,  // Says unknown, writes the first half of the rows.
};

class MemoryStore final : public Store {
 public:
    // Alone, with all orgs.
    MemoryStore() : MemoryStore(std::make_shared<MemoryDatabase>()) {}
    explicit MemoryStore(std::shared_ptr<MemoryDatabase> database) : database_(std::move(database)) {}
    // One of several: `lane` is who takes it, and from which epoch.
    MemoryStore(std::shared_ptr<MemoryDatabase> database, LaneHolder lane)
        : database_(std::move(database)), lane_(lane) {}
    MemoryStore(const MemoryStore& other) { *this = other; }
    MemoryStore& operator=(const MemoryStore& other);

    // Asked each time; empty: nothing goes wrong.
    struct Faults {
        std::function<CommitFault()> at_commit;
        std::function<bool()> at_load;  // True: this load, sum or read fails.
        std::function<std::optional<OpenError>()> at_open;
        std::function<bool()> takes_all_the_same = {};  // True: an open that fails has taken the lane.
    };

    void set_faults(Faults faults) { faults_ = std::move(faults); }
    // Goes before what `at_commit` says.
    void fail_next_commit(CommitFault fault) { next_commit_ = fault; }
    void fail_next_load() { next_load_fails_ = true; }

    // For checkers: what is stored, in the order of org and key.
    template <class Row>
    const MemoryDatabase::Rows<Row>& rows() const {
        return database_->rows<Row>();
    }
    std::int64_t epoch() const { return lane_->epoch; }  // Of the lane, as last taken.

    Result<void, OpenError> open() override;
    void close() override;

    bool load(core::OrgId org, core::ColdRow& row) override;
    core::Amounts sum(core::OrgId org, const core::Scope& scope, WindowSpan span) override;
    std::vector<core::OpenSessions> open_sessions(core::OrgId org) override;
    Result<void, ReadError> load_live(const OnLiveRow& on_row) override;
    Result<Id, ReadError> newest_key() override;
    Result<void, CommitError> commit(const WriteSet& writes) override;
    bool is_remote() const override { return lane_.has_value(); }  // As a database that nodes share would be.
    bool failed() const override { return failed_; }
    // Always an error: there is no SQL here. rows() is for those who want to look.
    Result<std::unique_ptr<Snapshot>, ReadError> snapshot() override;

 private:
    bool load_fails();
    CommitFault fault_of_this_commit();
    std::optional<LaneProof> proof() const;
    void write(const WriteSet& writes, std::size_t rows_max);

    std::shared_ptr<MemoryDatabase> database_;
    std::optional<LaneHolder> lane_;
    Faults faults_;
    CommitFault next_commit_ = CommitFault::none;
    bool next_load_fails_ = false;
    bool open_ = false;
    bool failed_ = false;
    std::string why_closed_ = "it has not been opened";
};

}  // namespace interlock::store
