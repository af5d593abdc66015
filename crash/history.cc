#include "crash/history.h"

#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <boost/mp11/tuple.hpp>

#include "base/codec.h"
#include "base/ensure.h"
#include "crash/workload.h"
#include "engine/engine.h"

namespace interlock::crash {

namespace {

// Passes everything on; whoever is built on it changes what a commit does.
class PassingStore : public store::Store {
 public:
    explicit PassingStore(std::unique_ptr<store::Store> store) : store_(std::move(store)) {}

    Result<void, store::OpenError> open() override { return store_->open(); }
    void close() override { store_->close(); }
    bool load(core::OrgId org, core::ColdRow& row) override { return store_->load(org, row); }
    core::Amounts sum(core::OrgId org, const core::Scope& scope, WindowSpan span) override {
        return store_->sum(org, scope, span);
    }
    std::vector<core::OpenSessions> open_sessions(core::OrgId org) override { return store_->open_sessions(org); }
    Result<void, store::ReadError> load_live(const store::OnLiveRow& on_row) override {
        return store_->load_live(on_row);
    }
    Result<Id, store::ReadError> newest_key() override { return store_->newest_key(); }
    bool failed() const override { return store_->failed(); }
    Result<std::unique_ptr<store::Snapshot>, store::ReadError> snapshot() override { return store_->snapshot(); }

 protected:
    std::unique_ptr<store::Store> store_;
};

// The mistake this project is about, on purpose: one batch in two transactions.
class SplittingStore final : public PassingStore {
 public:
    SplittingStore(std::unique_ptr<store::Store> store, Sabotage how) : PassingStore(std::move(store)), how_(how) {}

    Result<void, store::CommitError> commit(const store::WriteSet& writes) override {
        store::WriteSet first;
        store::WriteSet second;
        for (const store::OrgWrites& org : writes.orgs) {
            first.orgs.push_back(part(org, false));
            second.orgs.push_back(part(org, true));
        }
        if (auto committed = store_->commit(first); !committed) return committed;
        return store_->commit(second);
    }

 private:
    template <class Row>
    static constexpr bool is_counter = std::is_same_v<Row, core::AgentTotals> || std::is_same_v<Row, core::Window> ||
                                       std::is_same_v<Row, core::Rollup>;
    template <class Row>
    static constexpr bool is_answer = std::is_same_v<Row, core::CostEvent> || std::is_same_v<Row, core::StoredReply>;

    store::OrgWrites part(const store::OrgWrites& whole, bool second) const {
        store::OrgWrites half{.org = whole.org, .rows = {}};
        boost::mp11::tuple_for_each(whole.rows, [&]<class Row>(const store::RowWrites<Row>& rows) {
            if (how_ == Sabotage::batch_in_halves && is_answer<Row>) {
                const auto middle = rows.put.begin() + static_cast<std::ptrdiff_t>(rows.put.size() / 2);
                if (second) {
                    half.of<Row>().put.assign(middle, rows.put.end());
                } else {
                    half.of<Row>().put.assign(rows.put.begin(), middle);
                }
            } else if (second == (how_ == Sabotage::counters_apart && is_counter<Row>)) {
                half.of<Row>() = rows;
            }
        });
        return half;
    }

    Sabotage how_;
};

// Writes down when each commit began and returned, and what the store held then.
class RecordingStore final : public PassingStore {
 public:
    RecordingStore(std::unique_ptr<store::Store> store, const Disk& disk, const Workload& workload, History& history)
        : PassingStore(std::move(store)), disk_(disk), workload_(workload), history_(history) {}

    Result<void, store::CommitError> commit(const store::WriteSet& writes) override {
        Commit commit;
        commit.now = workload_.now();
        commit.began_at = disk_.log().size();
        if (auto committed = store_->commit(writes); !committed) return committed;
        commit.returned_at = disk_.log().size();
        if (auto state = read_state(*store_)) {
            commit.state = std::move(*state);
        } else {
            wrong = state.error();
        }
        // An image that equals this state is as right as this state is.
        if (history_.options.sabotage == Sabotage::none && wrong.empty()) wrong = verify_text(*store_);
        history_.commits.push_back(std::move(commit));
        return {};
    }

    std::string wrong;  // Without any crash.

 private:
    const Disk& disk_;
    const Workload& workload_;
    History& history_;
};

// What went wrong; empty: nothing.
std::string apply_batch(const std::vector<core::Command>& commands, engine::Engine& engine, Workload& workload,
                        History& history) {
    std::string wrong;
    std::size_t heard = 0;
    for (const core::Command& command : commands) {
        engine.submit({.command = command, .on_answer = [&, command](const engine::SubmitResult& answer) {
                           ++heard;
                           if (!answer) {
                               wrong = "a command failed without any fault";
                               return;
                           }
                           const bool done = answer->repeated || says_done(answer->reply);
                           Commit& commit = history.commits.back();
                           commit.spoken.push_back({command, encode(answer->reply), done});
                           if (done && !commit.state.remembers(command.key.value)) {
                               wrong = "a command was answered as done, but its key is not stored";
                           }
                           workload.heard(command, answer->reply);
                       }});
    }
    for (std::size_t steps = 0; heard < commands.size() && steps < 1'000; ++steps) engine.step(workload.now());
    return heard == commands.size() || !wrong.empty() ? wrong : "not every command was answered";
}

store::SqliteStore::Synchronous synchronous_of(Sabotage sabotage) {
    using Synchronous = store::SqliteStore::Synchronous;
    if (sabotage == Sabotage::synchronous_normal) return Synchronous::normal_for_negative_control;
    if (sabotage == Sabotage::synchronous_off) return Synchronous::off_for_negative_control;
    return Synchronous::full;
}

}  // namespace

std::unique_ptr<store::Store> make_store(const PowerLossVfs& vfs, Sabotage sabotage) {
    auto store = std::make_unique<store::SqliteStore>(store::SqliteStore::Options{
        .directory = ".",
        .vfs = vfs.name(),
        .synchronous = synchronous_of(sabotage),
        .page_cache_kib = 256,   // Small, so that rows are read back from the file.
        .checkpoint_pages = 60,  // Small, so that the log is written back and begun anew every few batches.
        .exclusive_lock = false,
    });
    if (sabotage == Sabotage::counters_apart || sabotage == Sabotage::batch_in_halves) {
        return std::make_unique<SplittingStore>(std::move(store), sabotage);
    }
    return store;
}

Result<History, std::string> record_history(const HistoryOptions& options) {
    PowerLossVfs vfs(options.overwrite);
    Disk disk;
    vfs.mount(disk);
    History history{.options = options, .log = {}, .at_first = {}, .set_up_at = 0, .commits = {}};
    Workload workload(options.seed);
    RecordingStore store(make_store(vfs, options.sabotage), disk, workload, history);
    if (const auto opened = store.open(); !opened) return fail("the store did not open: " + opened.error().detail);
    auto state = read_state(store);
    if (!state) return fail(state.error());
    history.at_first = std::move(*state);

    engine::Engine engine(store, {});
    if (const auto opened = engine.open(workload.now()); !opened) return fail(opened.error().detail);
    for (std::size_t i = 0; i <= options.batches; ++i) {
        if (auto wrong = apply_batch(i == 0 ? workload.setup() : workload.next_batch(), engine, workload, history);
            !wrong.empty()) {
            return fail(fmt::format("batch {}: {}", i, wrong));
        }
        if (i == 0) history.set_up_at = disk.log().size();
        if (!store.wrong.empty()) return fail(fmt::format("after batch {}, without any crash: {}", i, store.wrong));
    }
    // The log ends here: a store that is closed in order is no crash.
    history.log.assign(disk.log().begin(), disk.log().end());
    store.close();
    return history;
}

std::string_view to_text(Sabotage sabotage) {
    switch (sabotage) {
        case Sabotage::none:
            return "nothing sabotaged";
        case Sabotage::synchronous_normal:
            return "synchronous=normal";
        case Sabotage::synchronous_off:
            return "synchronous=off";
        case Sabotage::counters_apart:
            return "counters in their own transaction";
        case Sabotage::batch_in_halves:
            return "a batch in two transactions";
    }
    ensure(false, "every sabotage has a name");
}

}  // namespace interlock::crash
