// Several switchboards in one process, on one database in memory, each behind a door of its own on the loopback
// address.
#include "nodes/command_router.h"

#include <gtest/gtest.h>

#include <future>

#include <fmt/format.h>

#include "engine/id_source.h"
#include "net/http_server.h"
#include "nodes/inbound.h"
#include "nodes/nodes_test_support.h"
#include "store/memory_store.h"

namespace interlock::nodes {
namespace {

using namespace std::chrono_literals;

Instant wall_clock() { return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()); }

// The database that all share, and what it knows of nodes.
struct Shared {
    std::mutex mutex;
    std::shared_ptr<store::MemoryDatabase> database = std::make_shared<store::MemoryDatabase>();
    std::map<Id, store::Node> nodes;
    bool away = false;

    std::int64_t sum_of_events() {
        const std::lock_guard lock(mutex);
        std::int64_t sum = 0;
        for (const auto& [key, event] : database->rows<core::CostEvent>()) sum += event.cost;
        return sum;
    }
    Id writer() {
        const std::lock_guard lock(mutex);
        return database->lane_of(org).boot;
    }
};

class SharedCluster final : public store::Cluster {
 public:
    explicit SharedCluster(Shared& shared) : shared_(shared) {}

    Result<Instant, store::ReadError> renew(const store::Node& me, Duration lease) override {
        return ask([&] {
            store::Node& node = shared_.nodes[me.boot] = me;
            node.lease_until = wall_clock() + lease;
            return wall_clock();
        });
    }
    Result<void, store::ReadError> leave(Id boot) override {
        const std::lock_guard lock(shared_.mutex);
        shared_.nodes[boot].lease_until = far_past;
        return {};
    }
    Result<std::vector<store::Node>, store::ReadError> nodes() override {
        return ask([&] {
            std::vector<store::Node> all;
            for (auto [boot, node] : shared_.nodes) {
                node.alive = node.lease_until > wall_clock();
                all.push_back(node);
            }
            return all;
        });
    }
    Result<std::vector<store::LaneHolder>, store::ReadError> lanes() override {
        return ask([&] {
            std::vector<store::LaneHolder> all;
            for (const auto& [key, row] : shared_.database->rows<core::Org>()) {
                all.push_back(shared_.database->lane_of(key.first));
            }
            return all;
        });
    }
    Result<store::LaneHolder, store::ReadError> lane_of(core::OrgId its_org) override {
        return ask([&] { return shared_.database->lane_of(its_org); });
    }
    Result<store::StoreIdentity, store::ReadError> identity() override { return store::StoreIdentity{"memory", 1}; }
    Result<std::string, store::ReadError> secret() override { return std::string("between nodes"); }
    Result<std::string, store::ReadError> block_reason() override { return std::string(); }
    Result<void, store::ReadError> set_block_reason(const std::string&) override { return {}; }
    Result<void, store::ReadError> tell(const std::vector<core::OrgId>&) override { return {}; }
    Result<std::vector<core::OrgId>, store::ReadError> listen(Duration timeout) override {
        std::this_thread::sleep_for(timeout);
        return std::vector<core::OrgId>();
    }

 private:
    template <class Read>
    auto ask(Read read) -> Result<decltype(read()), store::ReadError> {
        const std::lock_guard lock(shared_.mutex);
        if (shared_.away) return fail(store::ReadError{"nobody is there"});
        return read();
    }
    Shared& shared_;
};

// One thread at a time in the database, and an error for everybody while it is away.
class SharedStore final : public store::Store {
 public:
    SharedStore(Shared& shared, store::LaneHolder lane) : shared_(shared), store_(shared.database, lane) {}

    Result<void, store::OpenError> open() override {
        const std::lock_guard lock(shared_.mutex);
        if (shared_.away) return fail(store::OpenError{store::OpenError::Kind::unavailable, "nobody is there"});
        return store_.open();
    }
    void close() override {
        const std::lock_guard lock(shared_.mutex);
        store_.close();
    }
    Result<void, store::CommitError> commit(const store::WriteSet& writes) override {
        const std::lock_guard lock(shared_.mutex);
        if (shared_.away) store_.fail_next_commit(store::CommitFault::lose_write);
        return store_.commit(writes);
    }
    bool load(core::OrgId its_org, core::ColdRow& row) override {
        const std::lock_guard lock(shared_.mutex);
        return store_.load(its_org, row);
    }
    core::Amounts sum(core::OrgId its_org, const core::Scope& scope, WindowSpan span) override {
        const std::lock_guard lock(shared_.mutex);
        return store_.sum(its_org, scope, span);
    }
    std::vector<core::OpenSessions> open_sessions(core::OrgId its_org) override {
        const std::lock_guard lock(shared_.mutex);
        return store_.open_sessions(its_org);
    }
    Result<void, store::ReadError> load_live(const store::OnLiveRow& on_row) override {
        const std::lock_guard lock(shared_.mutex);
        return store_.load_live(on_row);
    }
    Result<Id, store::ReadError> newest_key() override {
        const std::lock_guard lock(shared_.mutex);
        return store_.newest_key();
    }
    bool is_remote() const override { return true; }
    bool failed() const override { return store_.failed(); }
    Result<std::unique_ptr<store::Snapshot>, store::ReadError> snapshot() override { return store_.snapshot(); }

 private:
    Shared& shared_;
    store::MemoryStore store_;
};

net::Task<net::Response> nothing_here() { co_return net::problem(404, "not_found", "only nodes speak here"); }

class TestNode {
 public:
    TestNode(Shared& shared, Log& log) : boot(ids_.next(wall_clock())) {
        CommandRouter::Options how;
        how.me = {.id = boot, .boot = boot, .name = "node", .url = {}, .version = "test"};
        how.lease = 1500ms;
        how.connect = [&shared] { return std::make_unique<SharedCluster>(shared); };
        how.open_store = [&shared, this](core::OrgId its_org, std::int64_t epoch) {
            return std::make_unique<SharedStore>(shared, store::LaneHolder{its_org, epoch, boot, boot});
        };
        router = std::make_unique<CommandRouter>(std::move(how), log);
        EXPECT_TRUE(router->start());
        inbound_ = std::make_unique<Inbound>(router->door());
        net::HttpServerOptions listening;
        listening.host = "127.0.0.1";
        listening.port = 0;
        listening.threads = 1;
        http_ = std::make_unique<net::HttpServer>(
            std::move(listening),
            [this](net::Request request) -> net::Task<net::Response> {
                if (auto answer = inbound_->answer(request)) return std::move(*answer);
                return nothing_here();
            },
            log);
        const auto port = http_->start();
        EXPECT_TRUE(port);
        url = fmt::format("http://127.0.0.1:{}", port ? *port : 0);
        router->set_url(url);
    }
    ~TestNode() {
        close_door();
        router.reset();
    }
    void close_door() { http_.reset(); }

    std::future<engine::SubmitResult> ask(core::CommandBody body, core::CommandKey key, core::OrgId its_org) {
        const auto promise = std::make_shared<std::promise<engine::SubmitResult>>();
        std::vector<engine::Submission> one(1);
        one.front().command.org = its_org;
        one.front().command.key = key.value.empty() ? core::CommandKey(ids_.next(wall_clock())) : key;
        one.front().command.body = std::move(body);
        one.front().deadline = router->now() + 20s;
        one.front().on_answer = [promise](engine::SubmitResult answer) { promise->set_value(std::move(answer)); };
        router->submit(std::move(one));
        return promise->get_future();
    }
    engine::SubmitResult tell(core::CommandBody body, core::CommandKey key = {}, core::OrgId its_org = org) {
        auto answer = ask(std::move(body), key, its_org);
        if (answer.wait_for(20s) != std::future_status::ready) return fail(engine::SubmitError::outcome_unknown);
        return answer.get();
    }

 private:
    engine::IdSource ids_;
    std::unique_ptr<Inbound> inbound_;
    std::unique_ptr<net::HttpServer> http_;

 public:
    const Id boot;
    std::string url;
    std::unique_ptr<CommandRouter> router;
};

class SwitchboardTest : public testing::Test {
 protected:
    SwitchboardTest() : log({.level_min = LogLevel::error, .clock = wall_clock, .write = [](std::string_view) {}}) {}

    std::unique_ptr<TestNode> start() { return std::make_unique<TestNode>(shared, log); }
    void set_up_through(TestNode& node) {
        ASSERT_TRUE(node.tell(core::CreateOrg{"default"}));
        ASSERT_TRUE(node.tell(core::PutAgent{.name = "writer", .command = {}, .max_concurrent_runs = 9, .tags = {}}));
    }
    static core::Charge charge_of(std::int64_t nanos) {
        core::Charge charge;
        charge.who.agent = "writer";
        charge.cost = Money::nanos(nanos);
        return charge;
    }
    static bool charged(const engine::SubmitResult& answer) {
        return answer && std::get<core::ChargeReply>(answer->reply).status == core::ChargeStatus::charged;
    }

    Shared shared;
    Log log;
};

TEST_F(SwitchboardTest, the_first_node_that_is_asked_writes_and_the_others_pass_on) {
    const auto first = start();
    set_up_through(*first);
    const auto second = start();

    EXPECT_TRUE(charged(second->tell(charge_of(5))));
    EXPECT_TRUE(charged(first->tell(charge_of(7))));

    EXPECT_EQ(shared.sum_of_events(), 12);
    EXPECT_EQ(shared.writer(), first->boot);
    EXPECT_FALSE(second->router->writes(org));
}

TEST_F(SwitchboardTest, a_key_has_one_effect_whichever_nodes_it_is_shown_to) {
    const auto first = start();
    set_up_through(*first);
    const auto second = start();
    const core::CommandKey key(Id{77, 78});

    EXPECT_TRUE(charged(first->tell(charge_of(5), key)));
    const engine::SubmitResult again = second->tell(charge_of(5), key);

    EXPECT_TRUE(charged(again));
    EXPECT_TRUE(again->repeated);
    EXPECT_EQ(second->tell(charge_of(6), key).error(), engine::SubmitError::key_reused);
    EXPECT_EQ(shared.sum_of_events(), 5);
}

TEST_F(SwitchboardTest, a_node_that_leaves_in_order_is_followed_at_once) {
    auto first = start();
    set_up_through(*first);
    const auto second = start();
    EXPECT_TRUE(charged(second->tell(charge_of(1))));

    first.reset();

    EXPECT_TRUE(charged(second->tell(charge_of(2))));
    EXPECT_EQ(shared.writer(), second->boot);
    EXPECT_EQ(shared.sum_of_events(), 3);
}

TEST_F(SwitchboardTest, a_node_that_nobody_reaches_is_replaced_and_passes_on_from_then) {
    const auto first = start();
    set_up_through(*first);
    const auto second = start();
    EXPECT_TRUE(charged(second->tell(charge_of(1))));
    first->close_door();

    EXPECT_TRUE(charged(second->tell(charge_of(2))));
    EXPECT_EQ(shared.writer(), second->boot) << "although the first is alive";

    EXPECT_TRUE(charged(first->tell(charge_of(4)))) << "it hears that it was replaced when it wants to commit";
    EXPECT_EQ(shared.writer(), second->boot);
    EXPECT_EQ(shared.sum_of_events(), 7);
}

TEST_F(SwitchboardTest, a_replaced_node_does_not_refuse_from_memory) {
    const auto first = start();
    set_up_through(*first);
    ASSERT_TRUE(first->tell(core::PutBudget{.name = "all", .scope = {}, .limit_units = 10, .warn = {}}));
    const auto second = start();
    EXPECT_TRUE(charged(second->tell(charge_of(1))));
    first->close_door();
    ASSERT_TRUE(second->tell(core::PutBudget{.name = "all", .scope = {}, .limit_units = 1000, .warn = {}}));

    EXPECT_TRUE(charged(first->tell(charge_of(500)))) << "it remembers a limit of 10";
}

TEST_F(SwitchboardTest, a_database_that_is_away_is_told_and_comes_back_by_itself) {
    const auto only = start();
    set_up_through(*only);
    {
        const std::lock_guard lock(shared.mutex);
        shared.away = true;
    }

    const engine::SubmitResult meanwhile = only->tell(charge_of(1));
    ASSERT_FALSE(meanwhile);
    EXPECT_TRUE(meanwhile.error() == engine::SubmitError::outcome_unknown ||
                meanwhile.error() == engine::SubmitError::unavailable);
    std::this_thread::sleep_for(1700ms);
    EXPECT_FALSE(only->router->in_touch());

    {
        const std::lock_guard lock(shared.mutex);
        shared.away = false;
    }
    EXPECT_TRUE(charged(only->tell(charge_of(2))));
    EXPECT_EQ(shared.sum_of_events(), 2);
}

TEST_F(SwitchboardTest, an_org_whose_writer_died_is_taken_without_being_asked_for) {
    const auto first = start();
    set_up_through(*first);
    {
        // As if somebody else had it, who is gone.
        const std::lock_guard lock(shared.mutex);
        store::LaneHolder lane = shared.database->lane_of(org);
        lane.node = lane.boot = Id{1, 2};
        ASSERT_TRUE(shared.database->take(lane));
    }
    for (int i = 0; i < 300 && shared.writer() != first->boot; ++i) std::this_thread::sleep_for(20ms);

    EXPECT_EQ(shared.writer(), first->boot);
}

TEST_F(SwitchboardTest, orgs_spread_over_the_nodes_that_are_there) {
    constexpr std::uint32_t orgs = 4;
    const auto first = start();
    for (std::uint32_t i = 1; i <= orgs; ++i) {
        ASSERT_TRUE(first->tell(core::CreateOrg{fmt::format("org-{}", i)}, {}, core::OrgId(i)));
    }
    const auto second = start();
    const auto written_by = [&](const TestNode& node) {
        std::uint32_t count = 0;
        for (std::uint32_t i = 1; i <= orgs; ++i) count += node.router->writes(core::OrgId(i));
        return count;
    };

    for (int i = 0; i < 500 && written_by(*second) < orgs / 2; ++i) std::this_thread::sleep_for(20ms);

    EXPECT_EQ(written_by(*first), orgs / 2);
    EXPECT_EQ(written_by(*second), orgs / 2);
    for (std::uint32_t i = 1; i <= orgs; ++i) {
        EXPECT_TRUE(first->tell(core::CreateOrg{fmt::format("org-{}", i)}, {}, core::OrgId(i)));
    }
}

// Four nodes, many clients, and one node after the other ends while they charge.
TEST_F(SwitchboardTest, what_was_acknowledged_is_there_once_while_nodes_come_and_go) {
    constexpr int clients = 8;
    constexpr int charges = 60;
    std::vector<std::unique_ptr<TestNode>> nodes;
    for (int i = 0; i < 4; ++i) nodes.push_back(start());
    set_up_through(*nodes.front());
    std::atomic<std::int64_t> acknowledged = 0;
    std::atomic<int> first_alive = 0;
    std::vector<std::thread> threads;
    for (int client = 0; client < clients; ++client) {
        threads.emplace_back([&, client] {
            for (int i = 0; i < charges; ++i) {
                const core::CommandKey key(Id{std::uint64_t(client) + 100, std::uint64_t(i) + 1});
                for (int attempt = 0;; ++attempt) {
                    const int node = std::max(first_alive.load(), (client + i + attempt) % 4);
                    if (charged(nodes[static_cast<std::size_t>(node)]->tell(charge_of(1), key))) break;
                    ASSERT_LT(attempt, 200);
                    std::this_thread::sleep_for(10ms);
                }
                ++acknowledged;
            }
        });
    }
    for (int gone = 0; gone < 3; ++gone) {
        while (acknowledged < clients * charges * (gone + 1) / 5) std::this_thread::sleep_for(1ms);
        first_alive = gone + 1;
        nodes[static_cast<std::size_t>(gone)]
            ->close_door();  // Clients may still hold it, so it does not go away whole.
    }
    for (std::thread& thread : threads) thread.join();

    EXPECT_EQ(acknowledged, clients * charges);
    EXPECT_EQ(shared.sum_of_events(), clients * charges);
}

}  // namespace
}  // namespace interlock::nodes
