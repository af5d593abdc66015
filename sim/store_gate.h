// Between the engine and its store: knows which commits truly happened, whatever the engine was told about them.
#pragma once

#include <cstdint>
#include <functional>

#include "store/memory_store.h"

namespace interlock::sim {

class StoreGate final : public store::Store {
 public:
    store::MemoryStore memory;  // What is really there.

    std::function<void(const store::WriteSet&)> on_committed;

    // The faults of the world: asked at each commit, load and open.
    void set_faults(store::MemoryStore::Faults faults) {
        draw_fault_ = std::move(faults.at_commit);
        faults.at_commit = [this] { return fault_ = draw_fault_ ? draw_fault_() : store::CommitFault::none; };
        memory.set_faults(std::move(faults));
    }
    std::uint64_t commits() const { return commits_; }

    Result<void, store::CommitError> commit(const store::WriteSet& writes) override {
        ++commits_;
        fault_ = store::CommitFault::none;
        auto result = memory.commit(writes);
        const bool written = result ? fault_ != store::CommitFault::forget : fault_ == store::CommitFault::lose_answer;
        if (written && on_committed) on_committed(writes);
        return result;
    }

    Result<void, store::OpenError> open() override { return memory.open(); }
    void close() override { memory.close(); }
    bool load(core::OrgId org, core::ColdRow& row) override { return memory.load(org, row); }
    core::Amounts sum(core::OrgId org, const core::Scope& scope, WindowSpan span) override {
        return memory.sum(org, scope, span);
    }
    Result<void, store::ReadError> load_live(const store::OnLiveRow& on_row) override {
        return memory.load_live(on_row);
    }
    Result<Id, store::ReadError> newest_key() override { return memory.newest_key(); }
    bool failed() const override { return memory.failed(); }
    Result<std::unique_ptr<store::Snapshot>, store::ReadError> snapshot() override { return memory.snapshot(); }

 private:
    std::function<store::CommitFault()> draw_fault_;
    store::CommitFault fault_ = store::CommitFault::none;
    std::uint64_t commits_ = 0;
};

}  // namespace interlock::sim
