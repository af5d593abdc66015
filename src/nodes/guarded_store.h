// A store that compares what it opens with what this node remembers (history.h), and remembers what it commits.
#pragma once

#include <memory>
#include <utility>

#include "nodes/history.h"
#include "store/store.h"

namespace interlock::nodes {

class GuardedStore final : public store::Store {
 public:
    GuardedStore(std::unique_ptr<store::Store> store, History& history) : store_(std::move(store)), history_(history) {}

    Result<void, store::OpenError> open() override;
    void close() override { store_->close(); }
    Result<void, store::ReadError> load_live(const store::OnLiveRow& on_row) override;
    Result<Id, store::ReadError> newest_key() override { return store_->newest_key(); }
    Result<void, store::CommitError> commit(const store::WriteSet& writes) override;
    Result<std::unique_ptr<store::Snapshot>, store::ReadError> snapshot() override { return store_->snapshot(); }

    bool load(core::OrgId org, core::ColdRow& row) override { return store_->load(org, row); }
    bool is_remote() const override { return store_->is_remote(); }
    void prefetch(core::OrgId org, std::vector<core::ColdRow> rows) override { store_->prefetch(org, std::move(rows)); }
    core::Amounts sum(core::OrgId org, const core::Scope& scope, WindowSpan span) override {
        return store_->sum(org, scope, span);
    }
    std::vector<core::OpenSessions> open_sessions(core::OrgId org) override { return store_->open_sessions(org); }
    bool failed() const override { return store_->failed(); }

 private:
    std::unique_ptr<store::Store> store_;
    History& history_;
};

// The hash of the page of an org's feed that ends with this number, as History::check asks for it.
Result<std::optional<std::string>, store::ReadError> hash_of_page(store::Snapshot& snapshot, core::OrgId org,
                                                                  core::Seq last_seq);

// What a snapshot of this store shows, org by org, compared with what was remembered before it was taken. Changes
// nothing; History::conclude does.
Result<History::Look, store::ReadError> look_at(const store::StoreIdentity& store, const History::Memory& memory,
                                                store::Snapshot& snapshot);

}  // namespace interlock::nodes
