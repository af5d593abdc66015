// The store for several nodes: a PostgreSQL database, in which an org is written by one node at a time.
//
//   (1) A commit is one journey: a pipeline that begins, proves that the org's lane is still ours, writes one statement
//       for each kind of row, and commits. It has succeeded when the server has said COMMIT, and warned of nothing.
//   (2) A writer whose lane was taken changes nothing any more: the proof locks the lane's row and fails.
//   (3) open() takes the lane, which waits for whoever has it locked: a commit in flight, of another writer or of a
//       connection that we have lost. What is read afterwards is final. That the taking itself was committed, and so
//       was sent to every synchronous standby, says the same of all that came before it.
//       A writer that fell silent in the middle of its transaction is ended after a second or two.
//   (4) Rows are read from the last committed state. Nobody but us changes it while the lane is ours, and that it still
//       is, is looked up with every read.
//
// It keeps no connection: each operation borrows one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <boost/mp11/algorithm.hpp>

#include "base/result.h"
#include "store/postgres_pool.h"
#include "store/repair.h"
#include "store/store.h"

namespace interlock::store {

class PostgresStore final : public Store {
 public:
    struct Options {
        PostgresOptions server = {};
        // The one org that is read and written. Without it, all of them: for tests and tools, and for a single writer.
        std::optional<core::OrgId> org = std::nullopt;
        Id node = {};
        Id boot = {};  // Of this start of the program alone: whoever has the same takes the lane away.
        // The lane is taken only if its epoch is this one, or if this boot has it already.
        std::int64_t from_epoch = 0;
        // Shared with other stores on the same server; without one the store makes its own.
        std::shared_ptr<PostgresPool> pool = nullptr;
    };

    explicit PostgresStore(Options options);
    ~PostgresStore() override;
    PostgresStore(const PostgresStore&) = delete;
    PostgresStore& operator=(const PostgresStore&) = delete;

    Result<void, OpenError> open() override;
    // Gives the lane back, as far as the server can be reached.
    void close() override;

    bool is_remote() const override { return true; }
    bool load(core::OrgId org, core::ColdRow& row) override;
    void prefetch(core::OrgId org, std::vector<core::ColdRow> rows) override;
    core::Amounts sum(core::OrgId org, const core::Scope& scope, WindowSpan span) override;
    std::vector<core::OpenSessions> open_sessions(core::OrgId org) override;
    Result<void, ReadError> load_live(const OnLiveRow& on_row) override;
    Result<Id, ReadError> newest_key() override;
    Result<void, CommitError> commit(const WriteSet& writes) override;
    bool failed() const override { return failed_; }
    Result<std::unique_ptr<Snapshot>, ReadError> snapshot() override;

    // Carries the corrections out in one transaction that proves every lane of ours, each only if the row still says
    // what it is corrected from.
    Result<void, CommitError> repair(const std::vector<Repair>& repairs);

    // Of the org's lane, when it was last taken.
    std::int64_t epoch() const { return options_.from_epoch; }
    PostgresPool& pool() { return *options_.pool; }

 private:
    // What was read since the last commit; empty: there is no such row.
    template <class Row>
    using Read = std::map<std::pair<core::OrgId, core::KeyOf<Row>>, std::optional<Row>>;
    using AllRead = boost::mp11::mp_transform<Read, boost::mp11::mp_rename<core::ColdRow::Kinds, std::tuple>>;

    Result<void, OpenError> take_lane(PostgresConnection& connection, bool& locked);
    void end_stuck_writers();
    Result<void, OpenError> take_every_lane(PostgresConnection& connection);
    Result<void, CommitError> prove_lane();
    void add_look_at_lane(std::vector<PostgresRequest>& requests) const;
    void add_proof(core::OrgId org, std::vector<PostgresRequest>& requests) const;
    void add_proof_of_chain(const OrgWrites& writes, std::vector<PostgresRequest>& requests) const;
    bool fetch(core::OrgId org, const std::vector<core::ColdRow>& rows);
    CommitError fail_commit(CommitError::Kind kind, std::string detail);
    void fail_read(std::string detail);
    ReadError closed() const { return {"the store is closed: " + why_closed_}; }

    Options options_;
    bool open_ = false;
    bool failed_ = false;
    std::string why_closed_ = "it has not been opened";
    std::map<core::OrgId, std::int64_t> epochs_;  // Of the lanes that are ours.
    AllRead read_;
};

// A snapshot of the database, without being a node.
Result<std::unique_ptr<Snapshot>, OpenError> open_snapshot(const PostgresOptions& options);

}  // namespace interlock::store
