#include "server/node.h"

#include <unistd.h>

#include <array>

#include <fmt/format.h>

#include "engine/embedded.h"
#include "nodes/guarded_store.h"
#include "nodes/history.h"
#include "nodes/inbound.h"
#include "nodes/switchboard.h"
#include "server/data_dir.h"
#include "server/version.h"
#include "store/data_lock.h"
#include "store/postgres_cluster.h"
#include "store/postgres_store.h"

namespace interlock::server {
namespace {

std::string host_name() {
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
}

// Before there is a clock of the store's: only has to differ from all others.
Id unique_id() { return engine::IdSource().next(engine::Clock().now()); }

class Node final : public Backend {
 public:
    Node(BackendOptions options, Log& log) : options_(std::move(options)), log_(log) {}
    ~Node() override { stop(); }

    Result<void, std::string> open();

    void submit(std::vector<engine::Submission> submissions) override { switchboard_->submit(std::move(submissions)); }
    Instant now() override { return switchboard_->now(); }
    store::Store& store() override { return *reader_; }
    std::size_t queue_depth() const override { return switchboard_->queue_depth(); }
    void stop() override { switchboard_.reset(); }

    std::optional<std::string> objection() override {
        if (auto why = history_->objection()) return why;
        if (!switchboard_->in_touch()) return "the database cannot be reached; trying again";
        return std::nullopt;
    }
    bool shared() const override { return true; }
    Result<std::vector<store::Node>, std::string> nodes() override;
    void set_url(const std::string& url) override { switchboard_->set_url(url); }
    std::optional<net::Task<net::Response>> answer(const net::Request& request) override {
        return inbound_->answer(request);
    }

 private:
    Result<void, std::string> check_history(store::Cluster& cluster);
    nodes::Switchboard::Options switchboard_options(Id id);

    BackendOptions options_;
    Log& log_;
    store::DataLock lock_;
    store::PostgresOptions server_;
    std::shared_ptr<store::PostgresPool> pool_;
    std::unique_ptr<store::PostgresStore> reader_;
    std::unique_ptr<nodes::History> history_;
    std::unique_ptr<store::Snapshot> view_;  // Of the feed's heads, for the history.
    std::unique_ptr<nodes::Switchboard> switchboard_;
    std::unique_ptr<nodes::Inbound> inbound_;
};

Result<void, std::string> Node::open() {
    if (auto taken = lock_.take(options_.data_dir); !taken) return fail(taken.error().detail);
    const auto id = node_id(options_.data_dir, unique_id());
    if (!id) return fail(id.error());
    server_.uri = options_.store;
    pool_ = std::make_shared<store::PostgresPool>(store::PostgresPool::Options{.server = server_});
    if (auto connected = pool_->lend(); !connected) return fail(connected.error().detail);
    store::PostgresStore::Options reading;
    reading.server = server_;
    reading.pool = pool_;
    reader_ = std::make_unique<store::PostgresStore>(std::move(reading));

    auto history = nodes::History::open(history_path(options_.data_dir));
    if (!history) return fail(history.error());
    history_ = std::move(*history);
    store::PostgresCluster cluster(server_);
    const auto checked = check_history(cluster);
    if (auto objection = history_->objection()) return fail(*objection);
    if (!checked) return checked;

    switchboard_ = std::make_unique<nodes::Switchboard>(switchboard_options(*id), log_);
    if (auto started = switchboard_->start(); !started) return started;
    inbound_ = std::make_unique<nodes::Inbound>(nodes::Inbound::Options{
        .secret = switchboard_->secret(),
        .now = [this] { return now(); },
        .submit = [this](std::vector<engine::Submission> submissions) { submit(std::move(submissions)); },
        .writes = [this](core::OrgId org) { return switchboard_->writes(org); }});
    const auto answer = ask(core::CreateOrg{"default"});
    if (!answer) return fail(std::string("the database was opened, but cannot be written"));
    return {};
}

// What is remembered is read before the database is: what is committed meanwhile must not look like a regression.
Result<void, std::string> Node::check_history(store::Cluster& cluster) {
    const nodes::History::Memory memory = history_->memory();
    const auto identity = cluster.identity();
    if (!identity) return fail(identity.error().detail);
    history_->check(*identity);
    if (history_->objection()) return {};
    if (!view_) {
        auto snapshot = reader_->snapshot();
        if (!snapshot) return fail(snapshot.error().detail);
        view_ = std::move(*snapshot);
    }
    auto checked = nodes::check_all(*history_, memory, *view_);
    if (!checked || !view_->renew()) view_.reset();
    if (!checked) return fail(checked.error().detail);
    return {};
}

nodes::Switchboard::Options Node::switchboard_options(Id id) {
    nodes::Switchboard::Options how;
    how.me = {.id = id, .boot = unique_id(), .name = options_.node_name, .url = {}, .version = version};
    if (how.me.name.empty()) how.me.name = host_name();
    how.me.started_at = engine::Clock().now();
    if (options_.lease > Duration(0)) how.lease = options_.lease;
    how.ca_file = options_.peer_ca;
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
        const bool fine_before = !history_->objection();
        (void)check_history(cluster);
        if (const auto why = history_->objection(); why && fine_before)
            log_.error("history_regressed", {{"why", *why}});
    };
    how.on_step = [this](core::OrgId, const engine::Step& step) { options_.on_step(step); };
    how.on_news = options_.on_news;
    return how;
}

Result<std::vector<store::Node>, std::string> Node::nodes() {
    store::PostgresCluster cluster(server_);
    auto all = cluster.nodes();
    if (!all) return fail(all.error().detail);
    return std::move(*all);
}

}  // namespace

std::string history_path(const std::string& data_dir) { return data_dir + "/history"; }

Result<std::unique_ptr<Backend>, std::string> open_node(BackendOptions options, Log& log) {
    auto node = std::make_unique<Node>(std::move(options), log);
    if (auto opened = node->open(); !opened) return fail(opened.error());
    return std::unique_ptr<Backend>(std::move(node));
}

}  // namespace interlock::server
