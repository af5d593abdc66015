#include "core/feed.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "base/codec.h"
#include "base/sha256.h"
#include "core/leaves_test_support.h"

namespace interlock::core {
namespace {

using namespace std::chrono_literals;

constexpr Instant noon = from_micros(1'772'452'800'000'000);

std::string text_of(const Sha256& hash) { return {hash.begin(), hash.end()}; }

// Whether the pages are one chain, from the first page on.
bool is_chain(const std::vector<FeedPage>& pages) {
    std::string hash;
    for (const FeedPage& page : pages) {
        if (page.hash != text_of(hash_page(hash, page))) return false;
        hash = page.hash;
    }
    return true;
}

std::vector<FeedPage> three_pages() {
    Feed feed;
    std::vector<FeedPage> pages;
    for (const char* name : {"ada", "bob", "eve"}) {
        feed.add(AgentArchived{name});
        feed.add(KeyRevoked{name});
        pages.push_back(feed.seal(noon));
    }
    return pages;
}

TEST(FeedTest, events_are_numbered_from_one_without_gap_across_pages) {
    Feed feed;
    EXPECT_EQ(feed.last_seq(), Seq(0));

    EXPECT_EQ(feed.add(AgentArchived{"ada"}), Seq(1));
    EXPECT_EQ(feed.add(AgentArchived{"bob"}), Seq(2));
    const FeedPage first = feed.seal(noon);
    EXPECT_EQ(feed.add_charged(CostEvent{}, 0), Seq(3));
    const FeedPage second = feed.seal(noon + 1s);

    EXPECT_EQ(first.first_seq, Seq(1));
    EXPECT_EQ(first.last_seq, Seq(2));
    EXPECT_EQ(second.first_seq, Seq(3));
    EXPECT_EQ(second.last_seq, Seq(3));
    EXPECT_EQ(feed.last_seq(), Seq(3));
    EXPECT_EQ(feed.last_at(), noon + 1s);
}

TEST(FeedTest, there_is_a_page_only_where_something_happened) {
    Feed feed;
    EXPECT_FALSE(feed.has_page());

    feed.add(AgentArchived{"ada"});
    EXPECT_TRUE(feed.has_page());
    feed.seal(noon);

    EXPECT_FALSE(feed.has_page());
}

TEST(FeedTest, a_page_gives_its_events_back_in_order_and_whole) {
    Feed feed;
    BudgetWarned warned{.budget = "day", .window = noon, .percent = 80, .settled = 8, .limit_units = 10};
    feed.add(warned);
    feed.add(WakeCoalesced{"nightly", RunId(Id{1, 2})});

    const auto events = events_of(feed.seal(noon));

    ASSERT_TRUE(events.has_value());
    ASSERT_EQ(events->size(), 2u);
    EXPECT_EQ(leaf_texts((*events)[0]), leaf_texts(Event(warned)));
    EXPECT_EQ(std::get<WakeCoalesced>((*events)[1]).run, RunId(Id{1, 2}));
}

TEST(FeedTest, a_charge_added_from_its_row_reads_back_as_the_charge_it_is) {
    CostEvent row;
    fill_leaves(row);
    Feed feed;

    feed.add_charged(row, 4711);

    const auto events = events_of(feed.seal(noon));
    ASSERT_TRUE(events.has_value());
    const Charged expected{.key = row.key,
                           .agent = row.who.agent,
                           .provider = row.who.provider,
                           .model = row.who.model,
                           .run = row.who.run,
                           .session = row.who.session,
                           .hold = row.hold,
                           .cost = row.cost,
                           .tokens = 4711,
                           .overage = row.overage,
                           .estimated = row.estimated};
    EXPECT_EQ(leaf_texts(events->at(0)), leaf_texts(Event(expected)));
}

TEST(FeedTest, whoever_changes_a_page_breaks_the_chain) {
    const std::vector<FeedPage> pages = three_pages();
    ASSERT_TRUE(is_chain(pages));

    for (std::size_t i = 0; i < pages.size(); ++i) {
        SCOPED_TRACE(i);
        auto body = pages;
        body[i].body.back() = static_cast<char>(body[i].body.back() ^ 1);
        EXPECT_FALSE(is_chain(body));
        auto at = pages;
        at[i].at += 1us;
        EXPECT_FALSE(is_chain(at));
        auto first = pages;
        first[i].first_seq.value += 1;
        EXPECT_FALSE(is_chain(first));
        auto last = pages;
        last[i].last_seq.value += 1;
        EXPECT_FALSE(is_chain(last));
        auto dropped = pages;
        dropped.erase(dropped.begin() + static_cast<std::ptrdiff_t>(i));
        if (i + 1 < pages.size()) EXPECT_FALSE(is_chain(dropped)) << "what was dropped at the end leaves a chain";
        auto doubled = pages;
        doubled.insert(doubled.begin() + static_cast<std::ptrdiff_t>(i), pages[i]);
        EXPECT_FALSE(is_chain(doubled));
    }
    auto swapped = pages;
    std::swap(swapped[0], swapped[1]);
    EXPECT_FALSE(is_chain(swapped));
    // Whoever makes the changed page's own hash right breaks the next one.
    auto forged = pages;
    forged[0].body.back() = static_cast<char>(forged[0].body.back() ^ 1);
    forged[0].hash = text_of(hash_page("", forged[0]));
    EXPECT_FALSE(is_chain(forged));
}

TEST(FeedTest, the_hash_is_that_of_the_documented_bytes) {
    const FeedPage page = three_pages()[1];
    const std::string before = three_pages()[0].hash;
    const auto number = [](std::int64_t value) {
        std::string bytes;
        for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i)));
        return bytes;
    };

    const std::string bytes =
        before + number(page.first_seq.value) + number(page.last_seq.value) + number(micros(page.at)) + page.body;

    EXPECT_EQ(page.hash, text_of(Sha256Hasher().add(bytes).finish()));
    EXPECT_EQ(page.hash.size(), 32u);
}

TEST(FeedTest, the_time_of_pages_never_goes_back) {
    Feed feed;
    feed.add(AgentArchived{"ada"});
    feed.seal(noon);
    feed.add(AgentArchived{"bob"});

    EXPECT_EQ(feed.seal(noon - 1h).at, noon);
    feed.add(AgentArchived{"eve"});
    EXPECT_EQ(feed.seal(noon + 1us).at, noon + 1us);
}

TEST(FeedTest, a_feed_goes_on_where_its_last_page_ended) {
    const std::vector<FeedPage> pages = three_pages();
    Feed whole;
    for (const char* name : {"ada", "bob", "eve"}) {
        whole.add(AgentArchived{name});
        whole.add(KeyRevoked{name});
        whole.seal(noon);
    }
    Feed reopened;

    reopened.adopt(pages.back());

    EXPECT_EQ(reopened.last_seq(), Seq(6));
    EXPECT_EQ(reopened.last_at(), noon);
    EXPECT_FALSE(reopened.has_page());
    EXPECT_EQ(reopened.add(OrgCreated{"acme"}), Seq(7));
    whole.add(OrgCreated{"acme"});
    EXPECT_EQ(reopened.seal(noon - 1h).hash, whole.seal(noon).hash);
}

TEST(FeedTest, a_body_that_is_not_a_sequence_of_events_is_not_read) {
    FeedPage page = three_pages()[0];
    const std::string good = page.body;
    ASSERT_TRUE(events_of(page).has_value());

    std::size_t read = 0;
    for (std::size_t cut = 1; cut < good.size(); ++cut) {
        page.body = good.substr(0, cut);
        read += events_of(page).has_value() ? 1 : 0;
    }
    EXPECT_EQ(read, 1u) << "only what is cut exactly between the two events is a sequence";
    page.body = good + std::string(3, '\0');
    EXPECT_FALSE(events_of(page).has_value());
    page.body = good;
    page.body[4] = static_cast<char>(std::variant_size_v<Event::Kinds>);
    EXPECT_FALSE(events_of(page).has_value()) << "no such kind";
    page.body = good;
    page.body[0] = static_cast<char>(page.body[0] + 1);
    EXPECT_FALSE(events_of(page).has_value()) << "a length that is wrong";
    page.body = std::string(4, '\xFF');
    EXPECT_FALSE(events_of(page).has_value()) << "a length past the end";
    page.body.clear();
    EXPECT_TRUE(events_of(page)->empty());
}

}  // namespace
}  // namespace interlock::core
