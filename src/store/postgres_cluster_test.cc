#include "store/postgres_cluster.h"

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "store/postgres_store.h"
#include "store/postgres_test_database.h"
#include "store/sample_rows.h"

namespace interlock::store {
namespace {

using namespace std::chrono_literals;

class PostgresClusterTest : public testing::Test {
 protected:
    PostgresOptions options() const { return {.uri = database_.uri()}; }
    static Node node(std::uint64_t number) {
        return {.id = Id{1, number},
                .boot = Id{2, number},
                .name = "node " + std::to_string(number),
                .url = "http://127.0.0.1:1",
                .version = "1",
                .started_at = from_micros(static_cast<std::int64_t>(number)),
                .seen_at = {},
                .lease_until = {}};
    }

    PostgresTestDatabase database_;
    PostgresCluster cluster_{options()};
};

TEST_F(PostgresClusterTest, a_node_is_alive_until_its_lease_ends_or_it_leaves) {
    ASSERT_TRUE(cluster_.renew(node(1), 1h));
    ASSERT_TRUE(cluster_.renew(node(2), Duration(0)));
    ASSERT_TRUE(cluster_.renew(node(3), 1h));
    ASSERT_TRUE(cluster_.leave(node(3).boot));

    const auto nodes = cluster_.nodes();

    ASSERT_TRUE(nodes) << nodes.error().detail;
    ASSERT_EQ(nodes->size(), 3u);
    EXPECT_TRUE((*nodes)[0].alive);
    EXPECT_FALSE((*nodes)[1].alive);
    EXPECT_FALSE((*nodes)[2].alive);
    EXPECT_EQ((*nodes)[0].id, node(1).id);
    EXPECT_EQ((*nodes)[0].boot, node(1).boot);
    EXPECT_EQ((*nodes)[0].name, "node 1");
    EXPECT_EQ((*nodes)[0].url, "http://127.0.0.1:1");
    EXPECT_EQ((*nodes)[0].lease_until - (*nodes)[0].seen_at, Duration(1h));
}

TEST_F(PostgresClusterTest, renewing_moves_the_lease_and_tells_the_time_of_the_store) {
    const auto first = cluster_.renew(node(1), 1h);
    const auto second = cluster_.renew(node(1), 2h);

    ASSERT_TRUE(first && second);
    EXPECT_GT(*second, *first);
    const auto nodes = cluster_.nodes();
    ASSERT_EQ(nodes->size(), 1u);
    EXPECT_EQ(nodes->front().started_at, *first) << "not what the node's own clock says";
    EXPECT_EQ(nodes->front().seen_at, *second);
    EXPECT_EQ(nodes->front().lease_until, *second + Duration(2h));
}

TEST_F(PostgresClusterTest, a_node_that_ended_long_ago_is_forgotten) {
    ASSERT_TRUE(cluster_.renew(node(1), -25h));
    ASSERT_TRUE(cluster_.renew(node(2), 1h));

    EXPECT_EQ(cluster_.nodes()->size(), 1u);
}

TEST_F(PostgresClusterTest, lanes_are_listed_for_each_org_and_found_for_any) {
    const core::OrgId org(7);
    EXPECT_EQ(cluster_.lane_of(org)->epoch, 0);
    PostgresStore store({.server = options(), .org = org, .node = Id{1, 1}, .boot = Id{2, 2}});
    ASSERT_TRUE(store.open());
    EXPECT_TRUE(cluster_.lanes()->empty());
    EXPECT_EQ(cluster_.lane_of(org)->epoch, 1);

    const core::Org row = sample::org();
    WriteSet writes;
    writes.orgs.emplace_back().org = org;
    writes.orgs.front().of<core::Org>().put = {&row};
    ASSERT_TRUE(store.commit(writes));

    const auto lanes = cluster_.lanes();
    ASSERT_EQ(lanes->size(), 1u);
    EXPECT_EQ(lanes->front().org, org);
    EXPECT_EQ(lanes->front().epoch, store.epoch());
    EXPECT_EQ(lanes->front().node, (Id{1, 1}));
    EXPECT_EQ(lanes->front().boot, (Id{2, 2}));
    store.close();
    EXPECT_TRUE(cluster_.lane_of(org)->boot.empty());
    EXPECT_EQ(cluster_.lane_of(org)->epoch, 1);
}

TEST_F(PostgresClusterTest, all_nodes_see_one_identity_and_one_secret) {
    std::vector<std::string> secrets(4);
    {
        std::vector<std::jthread> threads;
        for (std::string& secret : secrets) {
            threads.emplace_back([&] {
                PostgresCluster other(options());
                secret = other.secret().value_or("none");
            });
        }
    }
    for (const std::string& secret : secrets) EXPECT_EQ(secret, *cluster_.secret());
    EXPECT_EQ(cluster_.secret()->size(), 64u);

    const auto identity = cluster_.identity();
    ASSERT_TRUE(identity) << identity.error().detail;
    EXPECT_EQ(identity->timeline, 1);
    EXPECT_FALSE(identity->system.empty());
    EXPECT_EQ(*PostgresCluster(options()).identity(), *identity);
}

TEST_F(PostgresClusterTest, an_ordinary_user_may_ask_for_the_identity) {
    run_sql(database_.uri(), "create role ordinary login");
    run_sql(database_.uri(), "create schema authorization ordinary");
    const PostgresOptions ordinary{.uri = postgres_test_uri() + "?user=ordinary&options=-csearch_path%3Dordinary"};

    const auto identity = PostgresCluster(ordinary).identity();

    EXPECT_TRUE(identity) << identity.error().detail;
    run_sql(database_.uri(), "set client_min_messages = warning; drop schema ordinary cascade; drop role ordinary");
}

TEST_F(PostgresClusterTest, hints_reach_everybody_who_listens) {
    PostgresCluster listener(options());
    EXPECT_TRUE(listener.listen(Duration(0))->empty());

    std::vector<core::OrgId> orgs;
    for (std::uint32_t i = 0; i < 3000; ++i) orgs.emplace_back(4'000'000'000 + i);
    ASSERT_TRUE(cluster_.tell(orgs));
    ASSERT_TRUE(listener.tell({core::OrgId(5)}));

    std::set<core::OrgId> heard;
    for (int tries = 0; heard.size() < 3001 && tries < 100; ++tries) {
        const auto some = listener.listen(5s);
        ASSERT_TRUE(some) << some.error().detail;
        heard.insert(some->begin(), some->end());
    }
    EXPECT_EQ(heard.size(), 3001u);
    EXPECT_TRUE(listener.listen(1ms)->empty());
}

TEST_F(PostgresClusterTest, after_its_connection_was_ended_it_connects_anew) {
    ASSERT_TRUE(cluster_.listen(Duration(0)));
    run_sql(database_.uri(),
            "select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen%' and pid <> "
            "pg_backend_pid()");

    bool failed = false;
    for (int tries = 0; tries < 50 && !failed; ++tries) failed = !cluster_.listen(100ms);

    EXPECT_TRUE(failed);
    EXPECT_TRUE(cluster_.nodes());
}

}  // namespace
}  // namespace interlock::store
