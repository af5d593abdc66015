#include "core/settings.h"

#include <gtest/gtest.h>

#include "core/limits.h"
#include "core/money_test_support.h"

namespace interlock::core {
namespace {

// Tests of what the gateway needs of the core: settings, recorded calls, and holds that take what is there.
using SettingsTest = MoneyTest;

TEST_F(SettingsTest, a_setting_has_a_version_that_never_goes_back) {
    EXPECT_EQ(apply(PutSetting{"upstream", "main", "{}"}).version, 1);
    EXPECT_EQ(apply(PutSetting{"upstream", "main", "{\"a\":1}"}).version, 2);
    EXPECT_EQ(apply(DropSetting{"upstream", "main"}).version, 3);
    const auto again = apply(PutSetting{"upstream", "main", "{}"});

    EXPECT_EQ(again.version, 4);
    const Setting row = get<Setting>({"upstream", "main"});
    EXPECT_EQ(row.document, "{}");
    EXPECT_FALSE(row.dropped);
    EXPECT_EQ(row.changed_at, now);
}

TEST_F(SettingsTest, the_same_document_changes_nothing) {
    apply(PutSetting{"price", "sim/*", "{}"});

    const auto reply = apply(PutSetting{"price", "sim/*", "{}"});

    EXPECT_EQ(reply.status, SettingStatus::unchanged);
    EXPECT_EQ(reply.version, 1);
}

TEST_F(SettingsTest, a_setting_is_refused_for_the_first_reason_in_the_order_of_its_status) {
    EXPECT_EQ(apply(PutSetting{"", "main", "{}"}).status, SettingStatus::invalid_request);
    EXPECT_EQ(apply(PutSetting{"upstream", "", "{}"}).status, SettingStatus::invalid_request);
    EXPECT_EQ(apply(PutSetting{"upstream", "main", std::string(limits::setting_bytes_max + 1, 'x')}).status,
              SettingStatus::invalid_request);
    EXPECT_EQ(apply(DropSetting{"upstream", "main"}).status, SettingStatus::setting_not_found);
    apply(PutSetting{"upstream", "main", "{}"});
    EXPECT_EQ(apply(DropSetting{"upstream", "main"}).status, SettingStatus::done);
    EXPECT_EQ(apply(DropSetting{"upstream", "main"}).status, SettingStatus::setting_not_found) << "it is gone already";
}

TEST_F(SettingsTest, recorded_calls_are_rows_as_they_came) {
    ModelCall call;
    call.id = CallId(Id{7, 8});
    call.who.agent = "ada";
    call.operation = "anthropic.messages";
    call.cost = 12;
    ModelCall other = call;
    other.id = CallId(Id{7, 9});

    EXPECT_EQ(apply(RecordCalls{{call, other}}).status, CallsStatus::recorded);

    EXPECT_EQ(get<ModelCall>(call.id).cost, 12);
    EXPECT_EQ(rows().of<ModelCall>().size(), 2u);
    ModelCall third = call;
    third.id = CallId(Id{7, 10});
    call.id = CallId();
    const auto reply = apply(RecordCalls{{call, third}});
    EXPECT_EQ(reply.detail, "a call needs an id");
    EXPECT_EQ(rows().of<ModelCall>().size(), 3u) << "one that cannot be kept does not keep the others out";
}

// ---- holds that take what is there ----------------------------------------------------------------------------------

auto at_least(Money floor, std::int32_t share = 100) {
    return [=](Reserve& body) {
        body.floor.usd = floor.nanos();
        body.share = share;
    };
}

TEST_F(SettingsTest, a_hold_takes_as_much_as_the_tightest_budget_has) {
    make_budget("wide", cents(10));
    make_budget("tight", cents(4));

    const auto reply = reserve(cents(8), at_least(cents(1)));

    EXPECT_EQ(reply.status, ReserveStatus::held);
    EXPECT_EQ(reply.bound.usd, cents(4).nanos());
    EXPECT_EQ(reply.left, 0);
    EXPECT_EQ(window("tight").held, cents(4).nanos());
    EXPECT_EQ(window("wide").held, cents(4).nanos());
    EXPECT_EQ(get<Hold>(reply.hold).bound.usd, cents(4).nanos());
}

TEST_F(SettingsTest, a_share_leaves_something_to_others_but_never_less_than_the_floor) {
    make_budget("day", cents(8));

    EXPECT_EQ(reserve(cents(8), at_least(cents(1), 50)).bound.usd, cents(4).nanos());
    EXPECT_EQ(reserve(cents(8), at_least(cents(1), 50)).bound.usd, cents(2).nanos());
    EXPECT_EQ(reserve(cents(8), at_least(cents(1), 50)).bound.usd, cents(1).nanos());
    EXPECT_EQ(reserve(cents(8), at_least(cents(1), 50)).bound.usd, cents(1).nanos()) << "the floor, which is all";
    const auto fifth = reserve(cents(8), at_least(cents(1), 50));
    EXPECT_EQ(fifth.status, ReserveStatus::budget_exceeded);
    EXPECT_EQ(fifth.budget->requested, cents(1).nanos()) << "what would have done";
}

TEST_F(SettingsTest, what_fits_whole_is_held_whole) {
    make_budget("day", cents(8));

    const auto reply = reserve(cents(3), at_least(cents(1), 50));

    EXPECT_EQ(reply.bound.usd, cents(3).nanos());
    EXPECT_EQ(reply.left, cents(5).nanos());
    EXPECT_EQ(reserve(cents(3)).left, cents(2).nanos());
}

TEST_F(SettingsTest, a_soft_budget_lowers_nothing_and_no_budget_leaves_nothing_to_say) {
    EXPECT_EQ(reserve(cents(3), at_least(cents(1))).left, -1);
    make_budget("soft", cents(1), [](PutBudget& body) { body.hard = false; });

    const auto reply = reserve(cents(3), at_least(cents(1)));

    EXPECT_EQ(reply.bound.usd, cents(3).nanos());
    EXPECT_EQ(reply.left, -1);
}

TEST_F(SettingsTest, tokens_are_lowered_by_themselves) {
    make_budget("tokens", Money::nanos(1000), [](PutBudget& body) { body.metric = Metric::tokens; });

    const auto reply = reserve(cents(3), [](Reserve& body) {
        body.bound.tokens = 5000;
        body.floor = {cents(1).nanos(), 500, 0, 0};
    });

    EXPECT_EQ(reply.bound.usd, cents(3).nanos());
    EXPECT_EQ(reply.bound.tokens, 1000);
}

TEST_F(SettingsTest, a_runs_ceiling_lowers_a_hold_like_a_budget) {
    const AdmitReply run = admit([&](AdmitRun& body) { body.ceiling = cents(5); });

    const auto first = reserve(cents(8), [&](Reserve& body) {
        body.who.run = run.run;
        body.floor.usd = cents(1).nanos();
    });
    EXPECT_EQ(first.bound.usd, cents(5).nanos());
    EXPECT_EQ(first.left, 0) << "a ceiling is a budget to whoever asks what is left";
    const auto second = reserve(cents(8), [&](Reserve& body) {
        body.who.run = run.run;
        body.floor.usd = cents(1).nanos();
    });
    EXPECT_EQ(second.status, ReserveStatus::budget_exceeded);
}

TEST_F(SettingsTest, a_floor_above_the_bound_is_nonsense) {
    EXPECT_EQ(reserve(cents(1), at_least(cents(2))).status, ReserveStatus::invalid_request);
    EXPECT_EQ(reserve(cents(3), at_least(cents(2), 0)).status, ReserveStatus::invalid_request);
    EXPECT_EQ(reserve(cents(3), at_least(cents(2), 101)).status, ReserveStatus::invalid_request);
}

TEST_F(SettingsTest, a_hold_says_on_whose_account_it_is) {
    apply(PutAgent{.name = "scribe", .command = {}, .tags = {}, .capture = Capture::full});
    const SessionId session = make_session("scribe");
    const AdmitReply run = admit([&](AdmitRun& body) {
        body.who.agent = "scribe";
        body.who.session = session;
    });

    const auto reply = reserve(cents(1), [&](Reserve& body) {
        body.who.agent.clear();
        body.who.run = run.run;
    });

    EXPECT_EQ(reply.agent, "scribe");
    EXPECT_EQ(reply.session, session);
    EXPECT_EQ(reply.capture, Capture::full);
}

TEST_F(SettingsTest, a_providers_cap_holds_for_calls_that_are_under_way) {
    apply(SetCap{CapKind::provider, "acme", 1});
    const auto call = [](Reserve& body) {
        body.who.provider = "acme";
        body.dispatched = true;
    };
    const HoldId first = hold(cents(1), call);

    EXPECT_EQ(reserve(cents(1), call).status, ReserveStatus::concurrency_limit);
    EXPECT_EQ(reserve(cents(1), [](Reserve& body) { body.who.provider = "acme"; }).status, ReserveStatus::held)
        << "money set aside is no call";
    reload();
    EXPECT_EQ(reserve(cents(1), call).status, ReserveStatus::concurrency_limit);
    settle(first, cents(1));
    EXPECT_EQ(reserve(cents(1), call).status, ReserveStatus::held);
}

}  // namespace
}  // namespace interlock::core
