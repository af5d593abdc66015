// What only the PostgreSQL store does: lanes, lost answers, journeys, migrations, servers that are refused.
#include "store/postgres_store.h"

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <boost/mp11/algorithm.hpp>

#include "store/postgres_relay_for_test.h"
#include "store/postgres_schema.h"
#include "store/postgres_test_database.h"
#include "store/read_rows.h"
#include "store/sample_rows.h"
#include "store/table_shape.h"

namespace interlock::store {

std::string postgres_test_uri() {
    const char* uri = std::getenv("INTERLOCK_TEST_POSTGRES");
    return uri == nullptr ? "" : uri;
}

namespace {

using namespace std::chrono_literals;
using enum CommitError::Kind;

// The same address by way of another port.
std::string by_port(const std::string& uri, std::uint16_t port) {
    const std::size_t colon = uri.find(':', uri.find("://") + 3);
    const std::size_t slash = uri.find('/', colon);
    return uri.substr(0, colon + 1) + std::to_string(port) + uri.substr(slash);
}
std::uint16_t port_of(const std::string& uri) {
    return static_cast<std::uint16_t>(std::stoi(uri.substr(uri.find(':', uri.find("://") + 3) + 1)));
}

// How it went wrong; empty: it did not.
template <class Error>
std::optional<typename Error::Kind> kind_of(const Result<void, Error>& done) {
    return done ? std::nullopt : std::optional(done.error().kind);
}

class PostgresStoreTest : public testing::Test {
 protected:
    PostgresOptions server() const { return {.uri = database_.uri()}; }
    // A store of the node with this number, that has seen the lane in this epoch.
    std::unique_ptr<PostgresStore> store_of(std::uint64_t node, std::int64_t from_epoch = 0,
                                            std::string uri = "") const {
        PostgresOptions options = server();
        if (!uri.empty()) options.uri = std::move(uri);
        return std::make_unique<PostgresStore>(PostgresStore::Options{.server = options,
                                                                      .org = org_one,
                                                                      .node = Id{1, node},
                                                                      .boot = Id{2, node},
                                                                      .from_epoch = from_epoch,
                                                                      .pool = nullptr});
    }
    std::unique_ptr<PostgresStore> open_store(std::uint64_t node, std::int64_t from_epoch = 0, std::string uri = "") {
        auto store = store_of(node, from_epoch, std::move(uri));
        const auto opened = store->open();
        EXPECT_TRUE(opened) << opened.error().detail;
        return store;
    }

    template <class... Row>
    static Result<void, CommitError> put(Store& store, const Row&... row) {
        WriteSet writes;
        OrgWrites& of_org = writes.orgs.emplace_back();
        of_org.org = org_one;
        (of_org.template of<Row>().put.push_back(&row), ...);
        return store.commit(writes);
    }
    template <class Row>
    static bool has(Store& store, const Row& row) {
        core::ColdRow wanted = core::with_key<Row>(core::key_of(row));
        const bool found = store.load(org_one, wanted);
        EXPECT_FALSE(store.failed());
        return found;
    }
    void sql(const std::string& text) const { run_sql(database_.uri(), text); }

    // Waits until the server says so.
    void wait_until(const std::string& condition) const {
        for (int tries = 0; tries < 500; ++tries) {
            if (run_sql(database_.uri(), "select " + condition) == "t") return;
            std::this_thread::sleep_for(20ms);
        }
        FAIL() << "it did not come to be that " << condition;
    }

    PostgresTestDatabase database_;
};

// ---- the schema ---------------------------------------------------------------------------------------------------

TEST_F(PostgresStoreTest, the_tables_have_the_columns_of_the_rows_in_their_order) {
    ASSERT_TRUE(store_of(1)->open());

    boost::mp11::mp_for_each<core::AllRows>([&]<class Row>(Row) {
        const std::string columns =
            run_sql(database_.uri(), fmt::format("select string_agg(column_name, ',' order by ordinal_position) from "
                                                 "information_schema.columns where table_schema = current_schema() and "
                                                 "table_name = '{}'",
                                                 Row::table));
        EXPECT_EQ(columns, "org," + joined(shape_of<Row>().columns, ",")) << Row::table;
    });
}

TEST_F(PostgresStoreTest, every_unique_index_of_an_orgs_rows_begins_with_the_org) {
    ASSERT_TRUE(store_of(1)->open());

    const std::string others = run_sql(
        database_.uri(),
        "select string_agg(indexrelid::regclass::text, ' ' order by indexrelid::regclass::text) from pg_index join "
        "pg_attribute on attrelid = indrelid and attnum = indkey[0] join pg_class on pg_class.oid = indrelid where "
        "indisunique and relkind = 'r' and relnamespace = current_schema()::regnamespace and attname <> 'org'");

    EXPECT_EQ(others, "facts_pkey nodes_pkey schema_migrations_pkey") << "the others can be spread by org";
}

TEST_F(PostgresStoreTest, the_tables_refuse_what_the_rules_refuse) {
    auto store = open_store(1);
    const core::CostEvent event = sample::cost_event(1);
    const core::Session session = sample::session(1);
    core::Hold hold = sample::hold(1);
    hold.who.agent = "nobody";
    ASSERT_TRUE(put(*store, sample::org(), event, session));

    EXPECT_EQ(kind_of(put(*store, hold)), rolled_back);  // A foreign key, looked at by the COMMIT.
    ASSERT_TRUE(store->open());
    core::Session wrong = session;
    wrong.next_seq = -1;
    EXPECT_EQ(kind_of(put(*store, wrong)), rolled_back);
    ASSERT_TRUE(store->open());
    EXPECT_FALSE(has(*store, hold));
    EXPECT_TRUE(has(*store, session));
}

TEST_F(PostgresStoreTest, a_path_longer_than_an_index_takes_is_claimed_by_one_writer) {
    auto store = open_store(1);
    core::Claim claim = sample::claim(1, 0);
    std::uint64_t random = 1;
    while (claim.place.path.size() < 4096) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        claim.place.path += static_cast<char>('0' + (random >> 33) % 64);
    }
    ASSERT_TRUE(put(*store, sample::org(), sample::agent("worker"), sample::run(1, "worker"), claim));
    core::Claim second = claim;
    second.number = 1;

    EXPECT_EQ(kind_of(put(*store, second)), rolled_back);

    ASSERT_TRUE(store->open());
    second.place.path.back() = '/';
    EXPECT_TRUE(put(*store, second));
}

TEST_F(PostgresStoreTest, nodes_that_start_at_once_migrate_once) {
    std::vector<std::string> errors(6);
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < errors.size(); ++i) {
            threads.emplace_back([&, i] {
                PostgresPool pool({.server = server()});
                const auto lent = pool.lend();
                if (!lent) errors[i] = lent.error().detail;
            });
        }
    }
    for (const std::string& error : errors) EXPECT_EQ(error, "");
    EXPECT_EQ(run_sql(database_.uri(), "select count(*) from schema_migrations"),
              std::to_string(postgres_migrations().size()));
}

TEST_F(PostgresStoreTest, a_later_schema_is_used_where_it_bears_us_and_refused_where_not) {
    ASSERT_TRUE(store_of(1)->open());
    const std::size_t ours = postgres_migrations().size();
    sql(fmt::format("insert into schema_migrations values ({}, 'later', 0, 1)", ours + 1));

    EXPECT_TRUE(store_of(1, 1)->open());

    sql(fmt::format("update schema_migrations set least = {0} where version = {0}", ours + 1));
    const auto refused = store_of(1, 2)->open();
    ASSERT_FALSE(refused);
    EXPECT_EQ(kind_of(refused), OpenError::Kind::too_new);
}

TEST_F(PostgresStoreTest, a_database_of_another_program_is_left_alone) {
    sql("create table things (id int)");
    EXPECT_EQ(kind_of(store_of(1)->open()), OpenError::Kind::not_ours);

    sql("create table schema_migrations (version varchar primary key)");
    EXPECT_EQ(kind_of(store_of(1)->open()), OpenError::Kind::not_ours);

    EXPECT_EQ(run_sql(database_.uri(), "select to_regclass('orgs') is null"), "t");
}

// ---- servers that are refused -------------------------------------------------------------------------------------

TEST_F(PostgresStoreTest, a_server_that_cannot_be_reached_or_trusted_is_unavailable) {
    const std::string uri = database_.uri();
    const std::string no_such_database =
        by_port(postgres_test_uri(), port_of(uri)).substr(0, postgres_test_uri().rfind('/')) + "/none";
    const char* standby = std::getenv("INTERLOCK_TEST_POSTGRES_STANDBY");
    ASSERT_NE(standby, nullptr) << "run with tools/with_postgres.py --standby";
    for (const auto& [address, words] : std::vector<std::pair<std::string, std::string>>{
             {by_port(uri, 1), "is the server running"},
             {no_such_database, "does not exist"},
             {uri + "%20-csynchronous_commit%3Doff", "synchronous_commit"},
             {uri + "%20-cdefault_transaction_read_only%3Don", "takes no writes"},
             {standby, "standby"}}) {
        const auto opened = store_of(1, 0, address)->open();
        ASSERT_FALSE(opened) << words;
        EXPECT_EQ(kind_of(opened), OpenError::Kind::unavailable);
        EXPECT_NE(opened.error().detail.find(words), std::string::npos) << opened.error().detail;
    }
}

TEST_F(PostgresStoreTest, timeouts_that_the_server_has_for_others_do_not_hit_us) {
    auto store = open_store(1, 0,
                            database_.uri() +
                                "%20-cstatement_timeout%3D300%20-clock_timeout%3D300%20"
                                "-cidle_in_transaction_session_timeout%3D300");
    PGconn* other = PQconnectdb(database_.uri().c_str());
    PQclear(PQexec(other, "begin"));
    PQclear(PQexec(other, "select 1 from lanes for update"));
    std::jthread release([&] {
        std::this_thread::sleep_for(800ms);
        PQclear(PQexec(other, "commit"));
    });

    EXPECT_TRUE(put(*store, sample::org()));

    release.join();
    PQfinish(other);
}

// ---- lanes --------------------------------------------------------------------------------------------------------

TEST_F(PostgresStoreTest, a_commit_that_does_not_follow_the_last_one_changes_nothing) {
    const auto store = open_store(1);
    const auto put_after = [&](std::int64_t follows, const auto& row) {
        WriteSet writes;
        OrgWrites& of_org = writes.orgs.emplace_back();
        of_org.org = org_one;
        of_org.follows = follows;
        of_org.of<std::remove_cvref_t<decltype(row)>>().put.push_back(&row);
        return store->commit(writes);
    };
    core::FeedPage page = sample::feed_page(1, 2);
    page.seal_number = 2;
    ASSERT_TRUE(put(*store, sample::org(), sample::seal(1)));
    ASSERT_TRUE(put_after(1, page));

    // As after a failover that lost a commit: what memory has is ahead of the database.
    EXPECT_EQ(kind_of(put_after(3, sample::agent("lost"))), rolled_back);

    ASSERT_TRUE(store->open());
    EXPECT_EQ(kind_of(put_after(1, sample::agent("again"))), rolled_back);
    ASSERT_TRUE(store->open());
    EXPECT_FALSE(kind_of(put_after(2, sample::agent("next"))));
}

TEST_F(PostgresStoreTest, a_writer_that_was_replaced_changes_nothing_any_more) {
    auto first = open_store(1);
    ASSERT_TRUE(put(*first, sample::org(), sample::session(1)));
    auto second = open_store(2, first->epoch());
    EXPECT_EQ(second->epoch(), first->epoch() + 1);

    const auto late = put(*first, sample::session(2));

    ASSERT_FALSE(late);
    EXPECT_EQ(kind_of(late), rolled_back);
    const auto reopened = first->open();
    ASSERT_FALSE(reopened);
    EXPECT_EQ(kind_of(reopened), OpenError::Kind::in_use);
    EXPECT_FALSE(has(*second, sample::session(2)));
    EXPECT_TRUE(put(*second, sample::session(3)));
}

TEST_F(PostgresStoreTest, of_many_that_want_a_lane_in_one_epoch_one_gets_it) {
    ASSERT_TRUE(store_of(1)->open());
    const std::int64_t epoch = std::stoll(run_sql(database_.uri(), "select epoch from lanes"));
    std::atomic<int> taken = 0;
    std::vector<std::unique_ptr<PostgresStore>> stores;
    for (std::uint64_t node = 2; node < 8; ++node) stores.push_back(store_of(node, epoch));
    {
        std::vector<std::jthread> threads;
        for (auto& store : stores) threads.emplace_back([&] { taken += store->open().has_value() ? 1 : 0; });
    }
    EXPECT_EQ(taken, 1);
}

TEST_F(PostgresStoreTest, taking_a_lane_waits_for_the_commit_on_its_way_there) {
    auto first = open_store(1);
    ASSERT_TRUE(put(*first, sample::org()));
    // What a commit of the first one looks like from outside, between its proof and its end.
    PGconn* commit = PQconnectdb(database_.uri().c_str());
    PQclear(PQexec(commit, "begin"));
    PQclear(PQexec(commit, "select 1 from lanes for update"));
    PQclear(PQexec(commit, "update orgs set name = 'committed late'"));

    auto second = store_of(2, first->epoch());
    std::jthread opening([&] { EXPECT_TRUE(second->open()); });
    wait_until("exists (select 1 from pg_stat_activity where wait_event_type = 'Lock')");
    PQclear(PQexec(commit, "commit"));
    opening.join();

    std::string name;
    ASSERT_TRUE(second->load_live([&](core::OrgId, LiveRow&& row) { name = std::get<core::Org>(row).name; }));
    EXPECT_EQ(name, "committed late");
    PQfinish(commit);
}

TEST_F(PostgresStoreTest, a_lane_that_was_given_back_is_free_and_keeps_its_epoch) {
    auto first = open_store(1);
    first->close();

    EXPECT_EQ(run_sql(database_.uri(), "select epoch || ' ' || (boot is null) from lanes"), "1 true");
    EXPECT_EQ(open_store(2, 1)->epoch(), 2);
    EXPECT_EQ(kind_of(first->open()), OpenError::Kind::in_use);
}

TEST_F(PostgresStoreTest, a_store_of_one_org_touches_no_other) {
    auto store = open_store(1);
    const core::Org row = sample::org();
    WriteSet writes;
    writes.orgs.emplace_back().org = core::OrgId(2);
    writes.orgs.front().of<core::Org>().put = {&row};

    EXPECT_EQ(kind_of(store->commit(writes)), rolled_back);
}

TEST_F(PostgresStoreTest, a_store_of_all_orgs_takes_no_lane_of_a_node_that_is_alive) {
    auto node = open_store(1);
    sql(
        fmt::format("insert into nodes values (decode('{0}', 'hex'), decode('{1}', 'hex'), '', '', '', 0, 0, "
                    "9000000000000000)",
                    fmt::format("{:016x}{:016x}", 1, 1), fmt::format("{:016x}{:016x}", 2, 1)));
    PostgresStore tool({.server = server(), .node = Id{3, 3}, .boot = Id{3, 3}});

    EXPECT_EQ(kind_of(tool.open()), OpenError::Kind::in_use);
    EXPECT_TRUE(put(*node, sample::org()));

    sql("update nodes set lease_until = 0");
    EXPECT_TRUE(tool.open());
    EXPECT_EQ(kind_of(put(*node, sample::session(1))), rolled_back);
}

// ---- answers that are lost ----------------------------------------------------------------------------------------

class PostgresLostAnswers : public PostgresStoreTest {
 protected:
    PostgresRelay relay_{port_of(postgres_test_uri())};
    std::string uri_ = by_port(database_.uri(), relay_.port());
};

TEST_F(PostgresLostAnswers, a_commit_whose_answer_was_lost_is_unknown_and_there_after_opening) {
    auto store = open_store(1, 0, uri_);
    ASSERT_TRUE(put(*store, sample::org()));

    relay_.cut_next(PostgresRelay::Cut::after_the_server);
    const auto done = put(*store, sample::session(1));

    ASSERT_FALSE(done);
    EXPECT_EQ(kind_of(done), unknown);
    ASSERT_TRUE(store->open());
    EXPECT_TRUE(has(*store, sample::session(1)));
    EXPECT_TRUE(put(*store, sample::session(2)));
}

TEST_F(PostgresLostAnswers, a_commit_that_never_arrived_is_unknown_and_not_there_after_opening) {
    auto store = open_store(1, 0, uri_);
    ASSERT_TRUE(put(*store, sample::org()));

    relay_.cut_next(PostgresRelay::Cut::before_the_server);
    const auto done = put(*store, sample::session(1));

    ASSERT_FALSE(done);
    EXPECT_EQ(kind_of(done), unknown);
    ASSERT_TRUE(store->open());
    EXPECT_FALSE(has(*store, sample::session(1)));
}

TEST_F(PostgresLostAnswers, what_opening_finds_is_final) {
    auto store = open_store(1, 0, uri_);
    ASSERT_TRUE(put(*store, sample::org()));

    for (std::uint64_t i = 1; i <= 20; ++i) {
        relay_.cut_next(PostgresRelay::Cut::at_once);
        EXPECT_EQ(kind_of(put(*store, sample::answer(i))), unknown);
        ASSERT_TRUE(store->open());

        // Were the lost commit still to come, one of the two would fail.
        if (!has(*store, sample::answer(i))) EXPECT_TRUE(put(*store, sample::answer(i))) << i;
    }
}

TEST_F(PostgresLostAnswers, a_taking_whose_answer_was_lost_is_repeated) {
    ASSERT_TRUE(store_of(1)->open());
    auto store = store_of(2, 1, uri_);
    ASSERT_TRUE(store->open());
    store->close();

    relay_.cut_next(PostgresRelay::Cut::after_the_server);
    ASSERT_FALSE(store->open());

    EXPECT_TRUE(store->open());
    EXPECT_EQ(store->epoch(), 4);
    EXPECT_TRUE(put(*store, sample::org()));
}

TEST_F(PostgresLostAnswers, a_load_without_an_answer_is_a_failure) {
    auto store = open_store(1, 0, uri_);
    relay_.cut_next(PostgresRelay::Cut::after_the_server);

    core::ColdRow row = sample::session(1);
    EXPECT_FALSE(store->load(org_one, row));
    EXPECT_TRUE(store->failed());
    EXPECT_EQ(kind_of(put(*store, sample::org())), rolled_back);
    ASSERT_TRUE(store->open());
    EXPECT_FALSE(store->failed());
}

TEST_F(PostgresStoreTest, a_backend_that_was_ended_leaves_the_outcome_unknown) {
    auto store = open_store(1);
    ASSERT_TRUE(put(*store, sample::org()));
    sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'interlock'");

    EXPECT_EQ(kind_of(put(*store, sample::session(1))), unknown);

    ASSERT_TRUE(store->open());
    EXPECT_FALSE(has(*store, sample::session(1)));
}

TEST_F(PostgresStoreTest, a_server_that_does_not_answer_in_time_leaves_the_outcome_unknown) {
    auto first = open_store(1);
    ASSERT_TRUE(put(*first, sample::org()));
    PostgresOptions hurried = server();
    hurried.exchange_timeout = 300ms;
    PostgresStore store({.server = hurried, .org = org_one, .boot = Id{5, 5}, .from_epoch = first->epoch()});
    ASSERT_TRUE(store.open());
    PGconn* other = PQconnectdb(database_.uri().c_str());
    PQclear(PQexec(other, "begin"));
    PQclear(PQexec(other, "select 1 from lanes for update"));

    EXPECT_EQ(kind_of(put(store, sample::session(1))), unknown);
    EXPECT_EQ(kind_of(store.open()), OpenError::Kind::unavailable);

    PQfinish(other);
    ASSERT_TRUE(store.open());
}

TEST_F(PostgresStoreTest, a_commit_that_goes_on_after_it_was_given_up_is_waited_for) {
    auto first = open_store(1);
    ASSERT_TRUE(put(*first, sample::org()));
    PostgresOptions hurried = server();
    hurried.exchange_timeout = 300ms;
    PostgresStore store({.server = hurried, .org = org_one, .boot = Id{5, 5}, .from_epoch = first->epoch()});
    ASSERT_TRUE(store.open());
    PGconn* other = PQconnectdb(database_.uri().c_str());
    PQclear(PQexec(other, "begin"));
    PQclear(PQexec(other, "lock table sessions in share mode"));  // Holds it up between its proof and its end.

    EXPECT_EQ(kind_of(put(store, sample::session(1))), unknown);
    EXPECT_EQ(kind_of(store.open()), OpenError::Kind::unavailable);
    // Of the same start: the taking that was given up just now may still come first.
    PostgresStore patient({.server = server(), .org = org_one, .boot = Id{5, 5}, .from_epoch = store.epoch()});
    std::jthread opening([&] { EXPECT_EQ(kind_of(patient.open()), std::nullopt); });
    wait_until("count(*) >= 3 from pg_stat_activity where wait_event_type = 'Lock'");
    PQclear(PQexec(other, "commit"));
    opening.join();

    EXPECT_TRUE(has(patient, sample::session(1)));
    PQfinish(other);
}

// The one WARNING that matters: a COMMIT that stands on this machine, and perhaps on no other.
TEST_F(PostgresStoreTest, a_commit_that_was_not_waited_for_on_the_standby_is_unknown) {
    auto store = open_store(1);
    ASSERT_TRUE(put(*store, sample::org()));
    sql("alter system set synchronous_standby_names = 'nobody'");
    sql("select pg_reload_conf()");
    wait_until("current_setting('synchronous_standby_names') = 'nobody'");

    std::optional<Result<void, CommitError>> done;
    std::jthread committing([&] { done = put(*store, sample::session(1)); });
    wait_until("exists (select 1 from pg_stat_activity where wait_event = 'SyncRep')");
    sql("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'");
    committing.join();
    sql("alter system reset synchronous_standby_names");
    sql("select pg_reload_conf()");
    wait_until("current_setting('synchronous_standby_names') = ''");

    ASSERT_FALSE(*done);
    EXPECT_EQ(done->error().kind, unknown);
    EXPECT_NE(done->error().detail.find("synchronous replication"), std::string::npos) << done->error().detail;
    ASSERT_TRUE(store->open());
    EXPECT_TRUE(has(*store, sample::session(1)));
}

// ---- journeys -----------------------------------------------------------------------------------------------------

TEST_F(PostgresStoreTest, a_commit_is_one_journey_however_much_it_writes) {
    auto store = open_store(1);
    ASSERT_TRUE(put(*store, sample::org(), sample::agent("worker")));
    std::vector<core::CostEvent> events;
    for (std::uint64_t i = 0; i < 1001; ++i) events.push_back(sample::cost_event(i + 1));
    const auto journeys = [&](std::size_t from, std::size_t to) {
        WriteSet writes;
        OrgWrites& of_org = writes.orgs.emplace_back();
        of_org.org = org_one;
        for (std::size_t i = from; i < to; ++i) of_org.of<core::CostEvent>().put.push_back(&events[i]);
        const core::AgentTotals totals = sample::agent_totals("worker");
        of_org.of<core::AgentTotals>().put.push_back(&totals);
        const std::int64_t before = store->pool().round_trips();
        EXPECT_TRUE(store->commit(writes));
        return store->pool().round_trips() - before;
    };

    EXPECT_EQ(journeys(0, 1), 1);
    EXPECT_EQ(journeys(1, 1001), 1);
}

TEST_F(PostgresStoreTest, what_was_expected_is_read_in_one_journey_and_remembered_until_the_next_commit) {
    auto store = open_store(1);
    ASSERT_TRUE(put(*store, sample::org(), sample::budget("daily")));
    core::Window window;
    window.budget = "daily";
    window.end_at = from_micros(5);
    WriteSet writes;
    OrgWrites& of_org = writes.orgs.emplace_back();
    of_org.org = org_one;
    std::vector<core::CostEvent> events;
    for (std::uint64_t i = 0; i < 250; ++i) events.push_back(sample::cost_event(i + 1));
    for (const core::CostEvent& event : events) of_org.of<core::CostEvent>().put.push_back(&event);
    of_org.of<core::Window>().put.push_back(&window);
    ASSERT_TRUE(store->commit(writes));
    std::vector<core::ColdRow> expected{core::with_key<core::Window>({"daily", window.start_at}),
                                        core::with_key<core::Window>({"weekly", window.start_at})};
    for (std::uint64_t i = 0; i < 500; ++i) expected.push_back(sample::cost_event(i + 1));

    const std::int64_t before = store->pool().round_trips();
    store->prefetch(org_one, expected);
    EXPECT_EQ(store->pool().round_trips() - before, 1);
    store->prefetch(org_one, expected);
    std::size_t found = 0;
    for (core::ColdRow row : expected) found += store->load(org_one, row) ? 1 : 0;
    EXPECT_EQ(found, 251u);
    EXPECT_EQ(store->pool().round_trips() - before, 1);

    ASSERT_TRUE(put(*store, sample::cost_event(400)));
    EXPECT_TRUE(has(*store, sample::cost_event(400)));
}

TEST_F(PostgresStoreTest, live_rows_sums_and_the_newest_key_are_one_journey_each) {
    auto store = open_store(1);
    ASSERT_TRUE(put(*store, sample::org(), sample::cost_event(1)));
    const std::int64_t before = store->pool().round_trips();

    ASSERT_TRUE(store->load_live([](core::OrgId, LiveRow&&) {}));
    EXPECT_EQ(store->sum(org_one, {}, {from_micros(1), far_future}).usd, 750'000);
    EXPECT_EQ(*store->newest_key(), sample::cost_event(1).key.value);

    EXPECT_EQ(store->pool().round_trips() - before, 3);
}

TEST_F(PostgresStoreTest, lanes_share_the_connections_of_a_pool) {
    const auto pool = std::make_shared<PostgresPool>(PostgresPool::Options{.server = server(), .max = 2});
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 0; i < 8; ++i) {
        threads.emplace_back([&, i] {
            PostgresStore store({.org = core::OrgId(i), .node = Id{1, 1}, .boot = Id{2, 2}, .pool = pool});
            ASSERT_TRUE(store.open());
            const core::Org org = sample::org();
            for (std::int64_t page = 1; page <= 20; ++page) {
                const core::FeedPage feed_page = sample::feed_page(page, page);
                WriteSet writes;
                writes.orgs.emplace_back().org = core::OrgId(i);
                writes.orgs.front().of<core::Org>().put = {&org};
                writes.orgs.front().of<core::FeedPage>().put = {&feed_page};
                ASSERT_TRUE(store.commit(writes));
            }
        });
    }
    threads.clear();
    EXPECT_EQ(run_sql(database_.uri(), "select count(*) from feed_pages"), "160");
}

// ---- snapshots ----------------------------------------------------------------------------------------------------

class PostgresSnapshotTest : public PostgresStoreTest {
 protected:
    void SetUp() override {
        store_ = open_store(1);
        ASSERT_TRUE(put(*store_, sample::org()));
        auto snapshot = store_->snapshot();
        ASSERT_TRUE(snapshot);
        snapshot_ = std::move(*snapshot);
    }
    std::vector<Value> ask(const std::string& question, const std::vector<Parameter>& parameters = {}) {
        std::vector<Value> all;
        const auto read = snapshot_->query(question, parameters, [&](const std::vector<Value>& values) {
            all.insert(all.end(), values.begin(), values.end());
        });
        EXPECT_TRUE(read) << read.error().detail;
        return all;
    }
    std::int64_t sessions() { return std::get<std::int64_t>(ask("select count(*) from sessions").at(0)); }

    std::unique_ptr<PostgresStore> store_;
    std::unique_ptr<Snapshot> snapshot_;
};

TEST_F(PostgresSnapshotTest, sees_one_moment_until_it_is_renewed) {
    EXPECT_EQ(sessions(), 0);
    ASSERT_TRUE(put(*store_, sample::session(1)));
    EXPECT_EQ(sessions(), 0);

    ASSERT_TRUE(snapshot_->renew());
    EXPECT_EQ(sessions(), 1);
    ASSERT_TRUE(put(*store_, sample::session(2)));
    EXPECT_EQ(sessions(), 1);
}

TEST_F(PostgresSnapshotTest, waiting_for_its_next_use_it_holds_nothing) {
    EXPECT_EQ(sessions(), 0);
    ASSERT_TRUE(snapshot_->renew());

    wait_until("not exists (select 1 from pg_stat_activity where state like 'idle in transaction%')");
}

TEST_F(PostgresSnapshotTest, numbers_text_bytes_and_null_come_as_what_they_are) {
    const std::vector<Value> values =
        ask("select 1::smallint, -2::int, 9223372036854775807::bigint, true, false, null, 'text', '\\x0001'::bytea, "
            "sum(x), 123456789012345678::numeric, -9223372036854775808::numeric, 0::numeric, 10000::numeric from "
            "(values (9223372036854775806::bigint), (1)) as t(x)");

    const std::vector<Value> expected{std::int64_t{1},     std::int64_t{-2},
                                      INT64_MAX,           std::int64_t{1},
                                      std::int64_t{0},     std::monostate(),
                                      std::string("text"), std::string("\0\1", 2),
                                      INT64_MAX,           std::int64_t{123456789012345678},
                                      INT64_MIN,           std::int64_t{0},
                                      std::int64_t{10000}};
    EXPECT_EQ(values, expected);
    for (const std::string number : {"9223372036854775808::numeric", "0.5::numeric", "1e30::numeric", "now()"}) {
        ASSERT_TRUE(snapshot_->renew());
        EXPECT_FALSE(snapshot_->query("select " + number, [](const std::vector<Value>&) {})) << number;
    }
}

TEST_F(PostgresSnapshotTest, parameters_are_numbers_text_and_ids) {
    core::Session session = sample::session(7);
    session.title = std::string("a\0\xff", 3);
    ASSERT_TRUE(put(*store_, session));

    EXPECT_EQ(ask("select title from sessions where org = $1 and id = $2 and title = $3 limit $4",
                  {std::int64_t{1}, session.id.value, session.title, std::int64_t{5}}),
              std::vector<Value>{session.title});
}

TEST_F(PostgresSnapshotTest, any_number_of_questions_can_be_asked) {
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 100; ++i) EXPECT_EQ(ask(fmt::format("select {}::bigint", i)).at(0), Value(std::int64_t{i}));
    }
}

TEST_F(PostgresSnapshotTest, any_number_of_questions_can_each_be_the_first_of_a_moment) {
    for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(ask(fmt::format("select {}::bigint", i)).at(0), Value(std::int64_t{i}));
        ASSERT_TRUE(snapshot_->renew());
    }
}

TEST_F(PostgresSnapshotTest, the_rows_of_a_long_answer_come_one_by_one) {
    std::int64_t sum = 0;
    const auto read = snapshot_->query("select generate_series(1, 100000)::bigint", [&](const std::vector<Value>& row) {
        sum += std::get<std::int64_t>(row.at(0));
    });
    ASSERT_TRUE(read);
    EXPECT_EQ(sum, 5'000'050'000);
}

TEST_F(PostgresSnapshotTest, a_connection_that_died_between_two_moments_is_replaced) {
    EXPECT_EQ(sessions(), 0);
    ASSERT_TRUE(snapshot_->renew());
    sql("select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'interlock'");

    EXPECT_EQ(sessions(), 0);

    sql("select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'interlock'");
    EXPECT_FALSE(snapshot_->query("select 1", [](const std::vector<Value>&) {}));  // The moment is gone.
    EXPECT_FALSE(snapshot_->query("select 1", [](const std::vector<Value>&) {}));
    ASSERT_TRUE(snapshot_->renew());
    EXPECT_EQ(sessions(), 0);
}

}  // namespace
}  // namespace interlock::store
