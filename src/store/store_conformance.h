// What every store must do, as tests. A store takes part by giving a way to make one (see store_test.cc).
//
// Rows are compared by their encoding (base/codec.h), which shares nothing with what a store does to them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <boost/mp11/algorithm.hpp>

#include "base/codec.h"
#include "store/sample_rows.h"
#include "store/store.h"

namespace interlock::store {

// One set of data and the stores on it, one at a time.
class StoreUnderTest {
 public:
    virtual ~StoreUnderTest() = default;
    virtual Store& store() = 0;
    // As after a restart of the program: another store on the same data, not opened yet.
    virtual void restart() = 0;
};

struct StoreFactory {
    std::string name;
    std::function<std::unique_ptr<StoreUnderTest>()> make;
};
inline void PrintTo(const StoreFactory& factory, std::ostream* out) { *out << factory.name; }

class StoreConformance : public testing::TestWithParam<StoreFactory> {
 protected:
    void SetUp() override { start_anew(); }

    // No data but two orgs.
    void start_anew() {
        under_test_ = GetParam().make();
        const auto opened = store().open();
        ASSERT_TRUE(opened) << opened.error().detail;
        put(org_a, sample::org());
        put(org_b, sample::org());
    }

    Store& store() { return under_test_->store(); }

    void restart_and_open() {
        under_test_->restart();
        const auto opened = store().open();
        ASSERT_TRUE(opened) << opened.error().detail;
    }

    template <class... Row>
    Result<void, CommitError> try_put(core::OrgId org, const Row&... row) {
        WriteSet writes;
        OrgWrites& of_org = writes.orgs.emplace_back();
        of_org.org = org;
        (of_org.template of<Row>().put.push_back(&row), ...);
        return store().commit(writes);
    }
    template <class... Row>
    void put(core::OrgId org, const Row&... row) {
        const auto done = try_put(org, row...);
        ASSERT_TRUE(done) << done.error().detail;
    }
    template <class Row>
    void erase(core::OrgId org, const Row& row) {
        WriteSet writes;
        OrgWrites& of_org = writes.orgs.emplace_back();
        of_org.org = org;
        of_org.of<Row>().erased.push_back(core::key_of(row));
        const auto done = store().commit(writes);
        ASSERT_TRUE(done) << done.error().detail;
    }

    // The row with this key, whichever way its kind is read; empty when there is none.
    template <class Row>
    std::optional<Row> find(core::OrgId org, const core::KeyOf<Row>& key) {
        if constexpr (boost::mp11::mp_contains<core::ColdRow::Kinds, Row>::value) {
            core::ColdRow row = core::with_key<Row>(key);
            if (!store().load(org, row)) return std::nullopt;
            return std::get<Row>(row);
        } else {
            std::optional<Row> found;
            each_live([&](core::OrgId of, const LiveRow& live) {
                const Row* row = std::get_if<Row>(&live);
                if (row != nullptr && of == org && core::key_of(*row) == key) found = *row;
            });
            return found;
        }
    }
    // With an empty row of each kind, in the order in which they are written. Seals follow one another, so they have a
    // test of their own.
    static void for_each_kind(auto visit) {
        boost::mp11::mp_for_each<boost::mp11::mp_remove<core::AllRows, core::Seal>>(visit);
    }

    template <class Row>
    std::optional<Row> find_again(core::OrgId org, const Row& row) {
        return find<Row>(org, core::key_of(row));
    }

    void each_live(const std::function<void(core::OrgId, const LiveRow&)>& visit) {
        const auto read = store().load_live([&](core::OrgId org, LiveRow&& row) { visit(org, row); });
        EXPECT_TRUE(read) << read.error().detail;
    }

    // Keys of the live rows of one kind.
    template <class Row>
    std::vector<std::pair<core::OrgId, core::KeyOf<Row>>> live_keys() {
        std::vector<std::pair<core::OrgId, core::KeyOf<Row>>> keys;
        each_live([&](core::OrgId org, const LiveRow& live) {
            if (const Row* row = std::get_if<Row>(&live)) keys.emplace_back(org, core::key_of(*row));
        });
        std::ranges::sort(keys);
        return keys;
    }

    template <class Row>
    void expect_stored(core::OrgId org, const Row& row) {
        const auto found = find_again(org, row);
        ASSERT_TRUE(found) << "no such row in " << Row::table;
        EXPECT_TRUE(encode(*found) == encode(row)) << "a row of " << Row::table << " came back changed";
    }
    template <class Row>
    void expect_missing(core::OrgId org, const Row& row) {
        EXPECT_FALSE(find_again(org, row)) << "a row of " << Row::table << " should not be there";
        EXPECT_FALSE(store().failed());
    }

    static constexpr core::OrgId org_a{1};
    static constexpr core::OrgId org_b{4'000'000'000};

 private:
    std::unique_ptr<StoreUnderTest> under_test_;
};

// ---- commits ------------------------------------------------------------------------------------------------------

TEST_P(StoreConformance, a_load_sees_what_was_committed_at_once_and_after_a_restart) {
    const core::CostEvent event = sample::cost_event(1);

    expect_missing(org_a, event);
    put(org_a, event);

    expect_stored(org_a, event);
    restart_and_open();
    expect_stored(org_a, event);
}

TEST_P(StoreConformance, a_put_replaces_the_row_with_the_same_key_and_no_other) {
    core::Session first = sample::session(1);
    const core::Session second = sample::session(2);
    put(org_a, first);
    put(org_a, second);

    first.next_seq = 17;
    first.title = "changed";
    put(org_a, first);

    expect_stored(org_a, first);
    expect_stored(org_a, second);
}

TEST_P(StoreConformance, one_commit_changes_rows_and_adds_others_of_the_same_kinds) {
    core::Session session = sample::session(2);
    core::Hold hold = sample::hold(2);
    core::Rollup rollup = sample::extreme<core::Rollup>(0);
    put(org_a, session, hold, rollup);
    put(org_b, session, hold, rollup);
    expect_missing(org_a, sample::hold(9));  // From here on a store may know which is the newest.

    session.next_seq = 17;
    hold.state = core::HoldState::settled;
    hold.parts.clear();
    rollup.events += 1;
    core::Rollup other_rollup = sample::extreme<core::Rollup>(1);
    // Before and behind the one that is there, by their keys.
    const core::Session sessions[] = {sample::session(1), sample::session(3)};
    const core::Hold holds[] = {sample::hold(1), sample::hold(3)};
    put(org_a, sessions[1], session, sessions[0], holds[1], hold, holds[0], other_rollup, rollup);

    const auto expect_all = [&] {
        expect_stored(org_a, session);
        expect_stored(org_a, hold);
        expect_stored(org_a, rollup);
        expect_stored(org_a, other_rollup);
        for (const core::Session& added : sessions) expect_stored(org_a, added);
        for (const core::Hold& added : holds) expect_stored(org_a, added);
        expect_stored(org_b, sample::session(2));
        expect_stored(org_b, sample::hold(2));
        expect_stored(org_b, sample::extreme<core::Rollup>(0));
        for (const core::Hold& added : holds) expect_missing(org_b, added);
    };
    expect_all();
    restart_and_open();
    expect_all();
}

TEST_P(StoreConformance, a_row_that_is_erased_and_put_by_one_commit_is_there) {
    put(org_a, sample::agent("worker"), sample::run(1, "worker"));
    const core::Claim before = sample::claim(1, 0);
    core::Claim after = before;
    after.place.path += "/other";
    put(org_a, before);

    WriteSet writes;
    OrgWrites& of_org = writes.orgs.emplace_back();
    of_org.org = org_a;
    of_org.of<core::Claim>().put.push_back(&after);
    of_org.of<core::Claim>().erased.push_back(core::key_of(before));
    const auto done = store().commit(writes);

    ASSERT_TRUE(done) << done.error().detail;
    expect_stored(org_a, after);
}

TEST_P(StoreConformance, an_erased_row_is_gone_and_its_neighbours_stay) {
    put(org_a, sample::agent("worker"), sample::run(1, "worker"));
    const core::Claim claims[] = {sample::claim(1, 0), sample::claim(1, 1), sample::claim(1, 2)};
    for (const core::Claim& claim : claims) put(org_a, claim);

    erase(org_a, claims[1]);

    expect_stored(org_a, claims[0]);
    expect_missing(org_a, claims[1]);
    expect_stored(org_a, claims[2]);
    restart_and_open();
    expect_missing(org_a, claims[1]);
}

TEST_P(StoreConformance, erasing_what_is_not_there_is_no_error) {
    erase(org_a, sample::claim(9, 0));

    put(org_a, sample::session(1));
    expect_stored(org_a, sample::session(1));
}

TEST_P(StoreConformance, a_place_changes_hands_in_one_commit) {
    put(org_a, sample::agent("worker"), sample::run(1, "worker"), sample::run(2, "worker"));
    const core::Claim before = sample::claim(1, 0);
    core::Claim after = before;
    after.run = sample::run(2, "worker").id;
    put(org_a, before);

    WriteSet writes;
    OrgWrites& of_org = writes.orgs.emplace_back();
    of_org.org = org_a;
    of_org.of<core::Claim>().put.push_back(&after);
    of_org.of<core::Claim>().erased.push_back(core::key_of(before));
    const auto done = store().commit(writes);

    ASSERT_TRUE(done) << done.error().detail;
    expect_missing(org_a, before);
    expect_stored(org_a, after);
}

TEST_P(StoreConformance, an_empty_write_set_is_committed) {
    EXPECT_TRUE(store().commit({}));
    EXPECT_TRUE(store().commit({}));
}

TEST_P(StoreConformance, a_commit_of_many_rows_of_many_orgs_is_there_whole) {
    std::vector<core::CostEvent> events;
    for (int i = 0; i < 3000; ++i) events.push_back(sample::cost_event(static_cast<std::uint64_t>(3000 - i)));
    WriteSet writes;
    for (const core::OrgId org : {org_a, org_b}) {
        OrgWrites& of_org = writes.orgs.emplace_back();
        of_org.org = org;
        for (const core::CostEvent& event : events) of_org.of<core::CostEvent>().put.push_back(&event);
    }

    ASSERT_TRUE(store().commit(writes));

    for (const core::CostEvent& event : events) {
        expect_stored(org_a, event);
        expect_stored(org_b, event);
    }
}

TEST_P(StoreConformance, orgs_do_not_see_each_other) {
    core::Session session = sample::session(1);
    put(org_a, session);
    expect_missing(org_b, session);

    session.title = "of the other org";
    put(org_b, session);

    expect_stored(org_b, session);
    expect_stored(org_a, sample::session(1));
    EXPECT_EQ(find_again(org_a, session)->title, sample::session(1).title);
}

// ---- what may not be written twice --------------------------------------------------------------------------------

TEST_P(StoreConformance, a_second_insert_under_a_key_fails_and_nothing_of_its_commit_is_there) {
    const core::CostEvent first = sample::cost_event(5);
    put(org_a, first);
    core::CostEvent second = first;
    second.cost = 999;
    const core::CostEvent before = sample::cost_event(4);
    const core::CostEvent after = sample::cost_event(6);
    const core::Session session = sample::session(1);
    const core::FeedPage page = sample::feed_page(1, 3);

    WriteSet writes;
    OrgWrites& of_org = writes.orgs.emplace_back();
    of_org.org = org_a;
    of_org.of<core::Session>().put = {&session};
    of_org.of<core::CostEvent>().put = {&before, &second, &after};
    of_org.of<core::FeedPage>().put = {&page};
    const auto done = store().commit(writes);

    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CommitError::Kind::rolled_back);
    ASSERT_TRUE(store().open());
    expect_stored(org_a, first);
    expect_missing(org_a, before);
    expect_missing(org_a, after);
    expect_missing(org_a, session);
    expect_missing(org_a, page);
}

TEST_P(StoreConformance, one_commit_cannot_insert_a_key_twice) {
    const core::StoredReply once = sample::answer(1);
    core::StoredReply again = once;
    again.reply = "another";

    WriteSet writes;
    OrgWrites& of_org = writes.orgs.emplace_back();
    of_org.org = org_a;
    of_org.of<core::StoredReply>().put = {&once, &again};
    const auto done = store().commit(writes);

    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CommitError::Kind::rolled_back);
    ASSERT_TRUE(store().open());
    expect_missing(org_a, once);
}

TEST_P(StoreConformance, every_appended_kind_refuses_a_second_row_under_a_key) {
    put(org_a, sample::extreme<core::Session>(2));
    put(org_a, sample::agent("worker"));
    put(org_a, sample::extreme<core::Run>(2));
    put(org_a, sample::extreme<core::Schedule>(2));

    for_each_kind([&]<class Row>(Row) {
        if constexpr (Row::life == core::Life::appended) {
            const Row row = sample::extreme<Row>(2);
            put(org_a, row);

            const auto again = try_put(org_a, row);

            EXPECT_FALSE(again) << Row::table;
            ASSERT_TRUE(store().open());
            expect_stored(org_a, row);
        }
    });
}

TEST_P(StoreConformance, a_row_is_found_whether_or_not_its_id_is_the_newest) {
    const auto check = [&](const auto& older, const auto& newer, const auto& newest) {
        put(org_a, older);
        expect_missing(org_a, newest);  // From here on a store may know which is the newest.
        expect_missing(org_a, newer);

        put(org_a, newest);
        expect_stored(org_a, newest);
        expect_missing(org_a, newer);
        expect_missing(org_b, newest);

        put(org_a, newer);
        for (const auto& row : {older, newer, newest}) expect_stored(org_a, row);
        store().close();
        ASSERT_TRUE(store().open());
        for (const auto& row : {older, newer, newest}) expect_stored(org_a, row);
    };
    put(org_a, sample::agent("worker"));
    check(sample::hold(1), sample::hold(2), sample::hold(3));
    check(sample::session(1), sample::session(2), sample::session(3));
    check(sample::run(1, "worker"), sample::run(2, "worker"), sample::run(3, "worker"));
}

TEST_P(StoreConformance, after_an_error_the_store_is_closed_until_it_is_opened) {
    const core::StoredReply answer = sample::answer(1);
    put(org_a, answer);
    ASSERT_FALSE(try_put(org_a, answer));

    core::ColdRow row = answer;
    EXPECT_FALSE(store().load(org_a, row));
    EXPECT_TRUE(store().failed());
    EXPECT_FALSE(store().load_live([](core::OrgId, LiveRow&&) { FAIL() << "a row from a closed store"; }));
    EXPECT_FALSE(store().newest_key());
    const auto refused = try_put(org_a, sample::answer(2));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, CommitError::Kind::rolled_back);

    ASSERT_TRUE(store().open());
    EXPECT_FALSE(store().failed());
    expect_stored(org_a, answer);
    expect_missing(org_a, sample::answer(2));
    put(org_a, sample::answer(2));
    expect_stored(org_a, sample::answer(2));
}

TEST_P(StoreConformance, opening_an_open_store_changes_nothing) {
    put(org_a, sample::answer(1));

    EXPECT_TRUE(store().open());

    expect_stored(org_a, sample::answer(1));
}

TEST_P(StoreConformance, a_closed_store_opens_again) {
    put(org_a, sample::answer(1));
    store().close();
    EXPECT_FALSE(try_put(org_a, sample::answer(2)));

    ASSERT_TRUE(store().open());

    expect_stored(org_a, sample::answer(1));
    expect_missing(org_a, sample::answer(2));
}

// ---- values -------------------------------------------------------------------------------------------------------

TEST_P(StoreConformance, every_kind_of_row_comes_back_as_it_was_written) {
    for (std::uint64_t variant = 0; variant < sample::variants; ++variant) {
        start_anew();
        for (const core::Agent& agent : sample::agents_of_extremes()) put(org_a, agent);

        for_each_kind([&]<class Row>(Row) {
            put(org_a, sample::extreme<Row>(variant));
            expect_stored(org_a, sample::extreme<Row>(variant));
        });

        restart_and_open();
        for_each_kind([&]<class Row>(Row) { expect_stored(org_a, sample::extreme<Row>(variant)); });
    }
}

TEST_P(StoreConformance, a_message_of_a_megabyte_comes_back_as_it_was_written) {
    const core::Session session = sample::session(1);
    core::Message message = sample::extreme<core::Message>(0);
    message.session = session.id;
    for (int i = 0; message.content.size() < 1 << 20; ++i) message.content += std::to_string(i) + sample::text(1);

    put(org_a, session, message);

    expect_stored(org_a, message);
    restart_and_open();
    expect_stored(org_a, message);
}

// ---- what is live -------------------------------------------------------------------------------------------------

TEST_P(StoreConformance, unfinished_runs_are_live_and_ended_ones_are_not) {
    put(org_a, sample::agent("worker"));
    std::vector<std::pair<core::OrgId, core::RunId>> unfinished;
    std::uint64_t number = 0;
    using enum core::RunState;
    for (const core::RunState state :
         {queued, starting, running, paused, succeeded, failed, cancelled, timed_out, lost}) {
        core::Run run = sample::run(++number, "worker");
        run.state = state;
        run.fence = core::Fence(state == queued ? 0 : 1);
        put(org_a, run);
        if (!core::has_ended(state)) unfinished.emplace_back(org_a, run.id);
        expect_stored(org_a, run);
    }

    EXPECT_EQ(live_keys<core::Run>(), unfinished);
    restart_and_open();
    EXPECT_EQ(live_keys<core::Run>(), unfinished);
}

TEST_P(StoreConformance, a_run_that_ends_is_no_longer_live) {
    core::Run run = sample::run(1, "worker");
    put(org_a, sample::agent("worker"), run);
    ASSERT_EQ(live_keys<core::Run>().size(), 1u);

    run.state = core::RunState::succeeded;
    put(org_a, run);

    EXPECT_EQ(live_keys<core::Run>().size(), 0u);
    expect_stored(org_a, run);
}

TEST_P(StoreConformance, open_holds_are_live_and_closed_ones_are_not) {
    core::Hold open = sample::hold(1);
    core::Hold settled = sample::hold(2);
    core::Hold released = sample::hold(3);
    put(org_a, open);
    put(org_a, settled);
    put(org_a, released);
    EXPECT_EQ(live_keys<core::Hold>().size(), 3u);

    settled.state = core::HoldState::settled;
    released.state = core::HoldState::released;
    put(org_a, settled);
    put(org_a, released);

    ASSERT_EQ(live_keys<core::Hold>().size(), 1u);
    EXPECT_EQ(live_keys<core::Hold>()[0].second, open.id);
    expect_stored(org_a, settled);
}

TEST_P(StoreConformance, the_last_feed_page_of_each_org_is_live) {
    put(org_a, sample::feed_page(1, 5));
    put(org_a, sample::feed_page(6, 6));
    put(org_a, sample::feed_page(7, 300));
    put(org_b, sample::feed_page(1, 2));

    const std::vector<std::pair<core::OrgId, core::Seq>> expected{{org_a, core::Seq(300)}, {org_b, core::Seq(2)}};

    EXPECT_EQ(live_keys<core::FeedPage>(), expected);
    expect_stored(org_a, sample::feed_page(7, 300));
}

TEST_P(StoreConformance, the_last_seal_of_each_org_is_live) {
    for (const std::int64_t number : {1, 2, 3}) put(org_a, sample::seal(number));
    put(org_b, sample::seal(1));

    const std::vector<std::pair<core::OrgId, std::int64_t>> expected{{org_a, 3}, {org_b, 1}};

    EXPECT_EQ(live_keys<core::Seal>(), expected);
    expect_stored(org_a, sample::seal(3));
}

TEST_P(StoreConformance, every_row_of_a_resident_kind_is_live_once) {
    for (const core::OrgId org : {org_a, org_b}) {
        for (const std::string name : {"one", "two"}) {
            put(org, sample::agent(name), sample::agent_totals(name), sample::budget(name),
                sample::schedule(name, "one"), sample::api_key(name), core::Cap{core::CapKind::provider, name, 3});
        }
        put(org, sample::run(1, "one"), sample::claim(1, 0));
        put(org, sample::claim(1, 1));
    }

    std::map<std::string, int> seen;
    each_live([&](core::OrgId, const LiveRow& row) {
        std::visit([&]<class Row>(const Row&) { ++seen[std::string(Row::table)]; }, row);
    });

    const std::map<std::string, int> expected{{"orgs", 2},     {"agents", 4}, {"agent_totals", 4},
                                              {"api_keys", 4}, {"caps", 4},   {"budgets", 4},
                                              {"runs", 2},     {"claims", 4}, {"schedules", 4}};
    EXPECT_EQ(seen, expected);
}

TEST_P(StoreConformance, the_newest_key_is_the_greatest_that_begins_with_the_time) {
    EXPECT_TRUE(store().newest_key()->empty());
    const auto at_ms = [](std::int64_t ms) { return core::CommandKey(time_ordered_id(from_micros(ms * 1000), 1, 2)); };
    core::CostEvent event = sample::cost_event(1);
    core::StoredReply answer = sample::answer(1);

    event.key = core::CommandKey(id_from_hash("a key of a client"));
    put(org_a, event);
    EXPECT_TRUE(store().newest_key()->empty());

    event.key = at_ms(2000);
    put(org_a, event);
    event.key = at_ms(1000);
    put(org_a, event);
    EXPECT_EQ(*store().newest_key(), at_ms(2000).value);

    answer.key = at_ms(3000);
    put(org_b, answer);
    EXPECT_EQ(*store().newest_key(), at_ms(3000).value);
}

// ---- sums ---------------------------------------------------------------------------------------------------------

// Times that are not the start of a day, so that the events themselves are added up.
constexpr WindowSpan whole_span{from_micros(1), far_future};

TEST_P(StoreConformance, a_sum_is_of_cost_calls_and_every_kind_of_token) {
    core::CostEvent event = sample::cost_event(1);
    event.cost = 100;
    event.calls = 3;
    event.usage = {1, 20, 300, 4000, 50'000, 600'000};
    put(org_a, event);
    event.key = sample::cost_event(2).key;
    put(org_a, event);

    const core::Amounts sum = store().sum(org_a, {}, whole_span);

    EXPECT_EQ(sum, (core::Amounts{.usd = 200, .tokens = 1'308'642, .calls = 6, .runs = 0}));
    EXPECT_EQ(store().sum(org_b, {}, whole_span), core::Amounts{});
}

TEST_P(StoreConformance, open_sessions_are_counted_by_agent_and_key_in_their_org) {
    std::uint64_t number = 10;
    const auto add = [&](core::OrgId org, const std::string& agent, const std::string& key, bool closed) {
        core::Session session = sample::session(++number);
        session.parent = {};
        session.agent = agent;
        session.api_key = key;
        session.closed = closed;
        put(org, session);
        return session;
    };
    EXPECT_TRUE(store().open_sessions(org_a).empty());
    add(org_a, "ada", "k1", false);
    core::Session second = add(org_a, "ada", "k1", false);
    add(org_a, "ada", "k2", false);
    add(org_a, "", "", false);
    add(org_a, "ada", "k1", true);
    add(org_b, "ada", "k1", false);
    const auto counts = [&](core::OrgId org) {
        std::map<std::pair<std::string, std::string>, std::int64_t> found;
        for (const core::OpenSessions& open : store().open_sessions(org))
            found[{open.agent, open.api_key}] += open.count;
        return found;
    };

    using Counts = std::map<std::pair<std::string, std::string>, std::int64_t>;
    EXPECT_EQ(counts(org_a), (Counts{{{"", ""}, 1}, {{"ada", "k1"}, 2}, {{"ada", "k2"}, 1}}));
    EXPECT_EQ(counts(org_b), (Counts{{{"ada", "k1"}, 1}}));
    second.closed = true;
    put(org_a, second);
    EXPECT_EQ(counts(org_a), (Counts{{{"", ""}, 1}, {{"ada", "k1"}, 1}, {{"ada", "k2"}, 1}}));
    EXPECT_FALSE(store().failed());
}

TEST_P(StoreConformance, a_span_includes_its_start_and_not_its_end_and_goes_by_the_time_of_admission) {
    core::CostEvent event = sample::cost_event(1);
    event.cost = 1;
    event.at = from_micros(99'999);  // Not what counts.
    event.counted_at = from_micros(5000);
    put(org_a, event);
    const auto usd = [&](std::int64_t from, std::int64_t to) {
        return store().sum(org_a, {}, {from_micros(from), from_micros(to)}).usd;
    };

    EXPECT_EQ(usd(5000, 5001), 1);
    EXPECT_EQ(usd(5001, 9000), 0);
    EXPECT_EQ(usd(1, 5000), 0);
    EXPECT_EQ(usd(1, 5001), 1);
    EXPECT_EQ(usd(90'000, 100'000), 0);
}

TEST_P(StoreConformance, a_scope_takes_what_agrees_with_each_member_it_states) {
    core::CostEvent event = sample::cost_event(1);
    event.cost = 1;
    event.who = sample::attribution();
    put(org_a, event);
    const core::Attribution& who = event.who;

    std::vector<core::Scope> agreeing(10);
    agreeing[1].agent = who.agent;
    agreeing[2].workflow = who.workflow;
    agreeing[3].provider = who.provider;
    agreeing[4].model = who.model;
    agreeing[5].api_key = who.api_key;
    agreeing[6].run = who.run;
    agreeing[7].session = who.session;
    agreeing[8].tags = {*who.tags.begin()};
    agreeing[9] = {who.agent, who.workflow, who.provider, who.model, who.api_key, who.run, who.session, who.tags};
    for (std::size_t i = 0; i < agreeing.size(); ++i) {
        EXPECT_EQ(store().sum(org_a, agreeing[i], whole_span).usd, 1) << i;
    }

    std::vector<core::Scope> other(11);
    other[0].agent = "x";
    other[1].workflow = "x";
    other[2].provider = "x";
    other[3].model = "x";
    other[4].api_key = "x";
    other[5].run = core::RunId(Id{1, 1});
    other[6].session = core::SessionId(Id{1, 1});
    other[7].tags = {{who.tags.begin()->first, "x"}};
    other[8].tags = {{"x", who.tags.begin()->second}};
    other[9] = agreeing[9];
    other[9].tags["one more"] = "";
    other[10] = agreeing[9];
    other[10].model = "x";
    for (std::size_t i = 0; i < other.size(); ++i) {
        EXPECT_EQ(store().sum(org_a, other[i], whole_span).usd, 0) << i;
    }
}

TEST_P(StoreConformance, a_tag_is_found_whatever_is_in_its_name) {
    core::CostEvent event = sample::cost_event(1);
    event.cost = 1;
    event.who.tags = {{"a\"b\\c", "\n,\":\":\"v"}, {std::string("nul\0l", 5), std::string("\0", 1)}, {"", "empty"}};
    put(org_a, event);

    for (const auto& tag : event.who.tags) {
        core::Scope scope;
        scope.tags = {tag};
        EXPECT_EQ(store().sum(org_a, scope, whole_span).usd, 1) << tag.first;
    }
    core::Scope scope;
    scope.tags = {{":", "v"}};
    EXPECT_EQ(store().sum(org_a, scope, whole_span).usd, 0);
    scope.tags = {{"nul", ""}};
    EXPECT_EQ(store().sum(org_a, scope, whole_span).usd, 0);
}

TEST_P(StoreConformance, runs_are_counted_by_when_they_were_admitted) {
    put(org_a, sample::agent("worker"), sample::agent("other"));
    core::Run run = sample::run(1, "worker");
    run.admitted_at = from_micros(5000);
    put(org_a, run);
    core::Run waiting = sample::run(2, "worker");
    waiting.state = core::RunState::queued;
    waiting.fence = core::Fence(0);
    waiting.admitted_at = far_past;
    put(org_a, waiting);
    core::Run of_other = sample::run(3, "other");
    of_other.admitted_at = from_micros(6000);
    of_other.who.tags = {{"team", "red"}};
    put(org_a, of_other);
    const auto runs = [&](const core::Scope& scope, std::int64_t from, std::int64_t to) {
        return store().sum(org_a, scope, {from_micros(from), from_micros(to)}).runs;
    };

    EXPECT_EQ(runs({}, 0, 10'000), 2);
    EXPECT_EQ(runs({}, 5000, 6000), 1);
    EXPECT_EQ(runs({}, 5001, 6001), 1);
    core::Scope worker;
    worker.agent = "worker";
    EXPECT_EQ(runs(worker, 0, 10'000), 1);
    core::Scope red;
    red.tags = {{"team", "red"}};
    EXPECT_EQ(runs(red, 0, 10'000), 1);
    core::Scope itself;
    itself.run = run.id;
    EXPECT_EQ(runs(itself, 0, 10'000), 1);
}

TEST_P(StoreConformance, whole_days_sum_to_the_same_as_the_moments_in_them) {
    // Three days of events, each with its roll-up, for two agents and two models.
    constexpr std::int64_t day_us = std::int64_t{86'400} * 1'000'000;
    std::map<core::KeyOf<core::Rollup>, core::Rollup> rollups;
    std::uint64_t number = 0;
    for (std::int64_t at = day_us; at < 4 * day_us; at += day_us / 7) {
        core::CostEvent event = sample::cost_event(++number);
        event.counted_at = from_micros(at);
        event.who.agent = number % 2 == 0 ? "even" : "odd";
        event.who.provider = "p";
        event.who.model = number % 3 == 0 ? "large" : "small";
        event.cost = static_cast<std::int64_t>(number);
        event.usage = {1, 2, 3, 4, 5, static_cast<std::int64_t>(number)};
        put(org_a, event);
        core::Rollup day = core::with_key<core::Rollup>(
            {utc_day(event.counted_at), event.who.agent, event.who.provider, event.who.model});
        core::Rollup& sum = rollups.try_emplace(core::key_of(day), day).first->second;
        sum.cost += event.cost;
        sum.calls += event.calls;
        sum.events += 1;
        sum.usage.input_tokens += 1;
        sum.usage.output_tokens += 2;
        sum.usage.cache_read_tokens += 3;
        sum.usage.cache_write_5m_tokens += 4;
        sum.usage.cache_write_1h_tokens += 5;
        sum.usage.reasoning_tokens += event.usage.reasoning_tokens;
    }
    for (const auto& [_, rollup] : rollups) put(org_a, rollup);

    std::vector<core::Scope> scopes(4);
    scopes[1].agent = "odd";
    scopes[2].model = "small";
    scopes[3].agent = "even";
    scopes[3].provider = "p";
    scopes[3].model = "large";
    for (const core::Scope& scope : scopes) {
        for (std::int64_t from = 0; from < 3; ++from) {
            const Instant start = from_micros(from * day_us);
            for (const Instant end : {from_micros(3 * day_us), from_micros(4 * day_us), far_future}) {
                // A microsecond before a day, at which nothing happened, keeps roll-ups out of it.
                const WindowSpan exact{start - Duration(1), end};
                EXPECT_EQ(store().sum(org_a, scope, {start, end}), store().sum(org_a, scope, exact));
                EXPECT_GT(store().sum(org_a, scope, {start, end}).usd, 0);
            }
        }
    }
}

TEST_P(StoreConformance, a_sum_that_does_not_fit_is_the_greatest_number) {
    core::CostEvent event = sample::cost_event(1);
    event.cost = INT64_MAX;
    event.usage = {INT64_MAX, 0, 0, 0, 0, 1};
    put(org_a, event);
    event.key = sample::cost_event(2).key;
    event.cost = 1;
    put(org_a, event);

    const core::Amounts sum = store().sum(org_a, {}, whole_span);

    EXPECT_EQ(sum.usd, INT64_MAX);
    EXPECT_EQ(sum.tokens, INT64_MAX);
}

}  // namespace interlock::store
