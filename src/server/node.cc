#include "server/node.h"

#include <unistd.h>

#include <array>
#include <atomic>

#include <fmt/format.h>

#include "engine/embedded.h"
#include "nodes/command_router.h"
#include "nodes/guarded_store.h"
#include "nodes/history.h"
#include "nodes/inbound.h"
#include "server/data_dir.h"
#include "server/version.h"
#include "store/copy_mark.h"
#include "store/data_lock.h"
#include "store/postgres_cluster.h"
#include "store/postgres_store.h"

namespace interlock::server {
namespace {

// Before there is a clock of the store's: only has to differ from all others.
Id unique_id() { return engine::IdSource().next(engine::Clock().now()); }

class NodeBackend final : public Backend {
 public:
    NodeBackend(BackendOptions options, Log& log) : options_(std::move(options)), log_(log) {}
    ~NodeBackend() override { stop(); }

    Result<void, std::string> open();

    void submit(std::vector<engine::Submission> submissions) override { router_->submit(std::move(submissions)); }
    Instant now() override { return router_->now(); }
    store::Store& store() override { return *reader_; }
    std::size_t queue_depth() const override { return router_->queue_depth(); }
    void stop() override { router_.reset(); }

    std::optional<std::string> block_reason() override {
        if (auto why = history_->block_reason()) return why;
        if (!router_->in_touch()) return "the database cannot be reached; retrying";
        return std::nullopt;
    }
    bool shared() const override { return true; }
    Result<std::vector<store::Node>, std::string> nodes() override;
    void set_url(const std::string& url) override { router_->set_url(url); }
    std::optional<net::Task<net::Response>> answer(const net::Request& request) override {
        return inbound_->answer(request);
    }
    bool is_of_a_node(const net::Request& request) const override { return inbound_->is_of_a_node(request); }

 private:
    Result<void, std::string> refuse_unfinished_copy();
    Result<void, std::string> check_history(store::Cluster& cluster);
    Result<nodes::History::Look, store::ReadError> look_at_store(const nodes::History::Memory& memory);
    Result<void, std::string> share_objection(store::Cluster& cluster);
    nodes::CommandRouter::Options switchboard_options();

    BackendOptions options_;
    Log& log_;
    store::DataLock lock_;
    store::PostgresOptions server_;
    std::shared_ptr<store::PostgresPool> pool_;
    std::unique_ptr<store::PostgresStore> reader_;
    std::unique_ptr<nodes::History> history_;
    std::unique_ptr<store::Snapshot> view_;  // Of the feed's heads, for the history.
    Id id_;
    bool objecting_ = false;  // As the log has it.
    std::unique_ptr<nodes::CommandRouter> router_;
    std::unique_ptr<nodes::Inbound> inbound_;
};

Result<void, std::string> NodeBackend::open() {
    if (auto taken = lock_.take(options_.data_dir); !taken) return fail(taken.error().detail);
    const auto id = node_id(options_.data_dir, unique_id());
    if (!id) return fail(id.error());
    id_ = *id;
    server_.uri = options_.store;
    server_.primaries = std::make_shared<std::atomic<std::int64_t>>(0);
    pool_ = std::make_shared<store::PostgresPool>(store::PostgresPool::Options{.server = server_});
    if (auto connected = pool_->lend(); !connected) return fail(connected.error().detail);
    store::PostgresStore::Options reading;
    reading.server = server_;
    reading.pool = pool_;
    reader_ = std::make_unique<store::PostgresStore>(std::move(reading));
    if (auto whole = refuse_unfinished_copy(); !whole) return whole;

    auto history = nodes::History::open(history_path(options_.data_dir));
    if (!history) return fail(history.error());
    history_ = std::move(*history);
    if (auto snapshot = reader_->snapshot()) {
        if (const auto newest = newest_stored(**snapshot)) stored_before_ = *newest;
    }
    store::PostgresCluster cluster(server_);
    const auto checked = check_history(cluster);
    if (auto block_reason = history_->block_reason()) return fail(*block_reason);
    if (!checked) return checked;

    router_ = std::make_unique<nodes::CommandRouter>(switchboard_options(), log_);
    if (auto started = router_->start(); !started) return started;
    nodes::Inbound::Options door = router_->door();
    door.head = [this](core::OrgId org) { return history_->head(org); };
    inbound_ = std::make_unique<nodes::Inbound>(std::move(door));
    const auto answer = ask(core::CreateOrg{"default"});
    if (!answer) return fail(std::string("the database is read-only"));
    return {};
}

Result<void, std::string> NodeBackend::refuse_unfinished_copy() {
    auto snapshot = reader_->snapshot();
    if (!snapshot) return fail(snapshot.error().detail);
    const auto mark = store::read_copy_mark(**snapshot);
    if (!mark) return fail(mark.error().detail);
    if (*mark) return fail("the database cannot be used: " + store::unfinished_copy(**mark));
    return {};
}

// What is remembered is read before the database is: what is committed meanwhile must not look like a regression.
Result<void, std::string> NodeBackend::check_history(store::Cluster& cluster) {
    // 1. Is it the primary that it was? One that was replaced while it was frozen may wake up, and would answer on
    //    connections that were made to it.
    const auto written = cluster.identity();
    if (!written) return fail(written.error().detail);
    const nodes::History::Memory memory = history_->memory();
    if (memory.store && memory.store->system == written->system && memory.store->timeline < written->timeline) {
        ++*server_.primaries;
        view_.reset();
    }

    // 2. Look. What is found missing on a kept connection counts only if a fresh one does not have it either.
    const bool kept = view_ != nullptr;
    auto look = look_at_store(memory);
    if (kept && (!look || !look->block_reason.empty())) {
        view_.reset();
        look = look_at_store(memory);
    }
    if (!look || !look->block_reason.empty() || !view_->renew()) view_.reset();
    if (!look) return fail(look.error().detail);
    if (look->store.system == written->system && look->store.timeline < written->timeline) {
        view_.reset();
        return fail(std::string("a replaced primary still responds; retrying"));
    }

    // 3. Conclude: object, or take back an objection.
    history_->conclude(*look);
    return share_objection(cluster);
}

// Identity, timeline and pages come from one connection, in one snapshot.
Result<nodes::History::Look, store::ReadError> NodeBackend::look_at_store(const nodes::History::Memory& memory) {
    if (!view_) {
        auto snapshot = reader_->snapshot();
        if (!snapshot) return fail(snapshot.error());
        view_ = std::move(*snapshot);
    }
    const auto identity = store::read_identity(*view_);
    if (!identity) return fail(identity.error());
    return nodes::look_at(*identity, memory, *view_);
}

// What one node remembers, all must know: the others would go on where it stops. Whoever objected takes it back.
Result<void, std::string> NodeBackend::share_objection(store::Cluster& cluster) {
    const auto said = cluster.block_reason();
    if (!said) return fail(said.error().detail);
    const auto own = history_->own_objection();
    const std::string me = to_text("node", id_);
    const bool ours = said->starts_with(me);
    if (own ? said->empty() && own->of_the_store : ours) {
        const std::string why = own ? fmt::format("{} {} says: {}", me, options_.node_name, own->why) : "";
        if (auto set = cluster.set_block_reason(why); !set) return fail(set.error().detail);
    }
    history_->hear_objection(own || ours ? "" : *said);
    return {};
}

nodes::CommandRouter::Options NodeBackend::switchboard_options() {
    nodes::CommandRouter::Options how;
    how.me = {.id = id_, .boot = unique_id(), .name = options_.node_name, .url = {}, .version = version};
    if (options_.lease > Duration(0)) how.lease = options_.lease;
    how.ca_file = options_.peer_ca;
    how.engine.seal_key = options_.seal_key;
    how.connect = [this] { return std::make_unique<store::PostgresCluster>(server_); };
    how.open_store = [this, node = how.me.id, boot = how.me.boot](core::OrgId org, std::int64_t from_epoch) {
        store::PostgresStore::Options lane;
        lane.server = server_;
        lane.org = org;
        lane.node = node;
        lane.boot = boot;
        lane.from_epoch = from_epoch;
        lane.pool = pool_;
        return std::make_unique<nodes::GuardedStore>(std::make_unique<store::PostgresStore>(std::move(lane)),
                                                     *history_);
    };
    how.on_renewed = [this](store::Cluster& cluster) {
        (void)check_history(cluster);
        const auto why = history_->block_reason();
        if (why && !objecting_) log_.error("history_regressed", {{"why", *why}});
        if (!why && objecting_) log_.info("history_accepted");
        objecting_ = why.has_value();
    };
    how.on_head = [this](const nodes::Head& head) { history_->remember(head.org, {head.last_seq, head.hash}); };
    how.on_step = [this](core::OrgId, const engine::BatchStats& step) { options_.on_step(step); };
    how.on_news = [this](core::OrgId org) { options_.on_news(org, News::about_anything); };
    return how;
}

Result<std::vector<store::Node>, std::string> NodeBackend::nodes() {
    store::PostgresCluster cluster(server_);
    auto all = cluster.nodes();
    if (!all) return fail(all.error().detail);
    return std::move(*all);
}

}  // namespace

std::string history_path(const std::string& data_dir) { return data_dir + "/history"; }

Result<std::unique_ptr<Backend>, std::string> open_node(BackendOptions options, Log& log) {
    auto node = std::make_unique<NodeBackend>(std::move(options), log);
    if (auto opened = node->open(); !opened) return fail(opened.error());
    return std::unique_ptr<Backend>(std::move(node));
}

}  // namespace interlock::server
