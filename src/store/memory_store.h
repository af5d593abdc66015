// A store in memory, for tests and the simulator: fast, copyable, and able to fail and to lie on request.
//
// An honest fault is one that a real store has too: whoever uses the store must bear it. The lies break what a store
// promises; they are there to show that a checker notices.
//
// A copy is a second store with the same rows and the same faults.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <boost/mp11/algorithm.hpp>

#include "store/store.h"

namespace interlock::store {

enum class CommitFault {
    none,
    fail_before,  // Rolled back: nothing is written.
    lose_answer,  // Unknown, and it is written.
    lose_write,   // Unknown, and it is not.
    // Lies.
    forget,       // Says done, writes nothing.
    tear,         // Says done, writes the first half of the rows.
    tear_unsure,  // Says unknown, writes the first half of the rows.
};

class MemoryStore final : public Store {
 public:
    template <class Row>
    using Rows = std::map<std::pair<core::OrgId, core::KeyOf<Row>>, Row>;

    // Asked each time; empty: nothing goes wrong.
    struct Faults {
        std::function<CommitFault()> at_commit;
        std::function<bool()> at_load;  // True: this load, sum or read fails.
        std::function<std::optional<OpenError>()> at_open;
    };

    void set_faults(Faults faults) { faults_ = std::move(faults); }
    // Goes before what `at_commit` says.
    void fail_next_commit(CommitFault fault) { next_commit_ = fault; }
    void fail_next_load() { next_load_fails_ = true; }

    // For checkers: what is stored, in the order of org and key.
    template <class Row>
    const Rows<Row>& rows() const {
        return std::get<Rows<Row>>(rows_);
    }

    Result<void, OpenError> open() override;
    void close() override;

    bool load(core::OrgId org, core::ColdRow& row) override;
    core::Amounts sum(core::OrgId org, const core::Scope& scope, WindowSpan span) override;
    Result<void, ReadError> load_live(const OnLiveRow& on_row) override;
    Result<Id, ReadError> newest_key() override;
    Result<void, CommitError> commit(const WriteSet& writes) override;
    bool failed() const override { return failed_; }
    // Always an error: there is no SQL here. rows() is for those who want to look.
    Result<std::unique_ptr<Snapshot>, ReadError> snapshot() override;

 private:
    bool load_fails();
    CommitFault fault_of_this_commit();
    bool inserts_twice(const WriteSet& writes) const;
    void write(const WriteSet& writes, std::size_t rows_max);

    boost::mp11::mp_transform<Rows, core::AllRows> rows_;
    Faults faults_;
    CommitFault next_commit_ = CommitFault::none;
    bool next_load_fails_ = false;
    bool open_ = false;
    bool failed_ = false;
    std::string why_closed_ = "it has not been opened";
};

}  // namespace interlock::store
