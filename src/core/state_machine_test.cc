#include "core/state_machine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/codec.h"
#include "core/leaves_test_support.h"
#include "core/limits.h"
#include "core/money_test_support.h"

namespace interlock::core {
namespace {

using namespace std::chrono_literals;

class StateMachineTest : public MoneyTest {
 protected:
    // What was asked, when, and the answer it got.
    struct Said {
        Instant at;
        Command command;
        std::string reply;
    };
    std::vector<Said> said;

    template <class Body>
    ReplyTo<Body> say(const Body& body) {
        const Command command = command_of(fresh_key(), body);
        const Applied applied = apply_command(command);
        EXPECT_FALSE(applied.repeated || applied.key_reused);
        EXPECT_TRUE(succeeded(applied.reply)) << "command " << said.size();
        said.push_back({now, command, encode(applied.reply)});
        return std::get<ReplyTo<Body>>(applied.reply);
    }

    // A command of every kind that can succeed, each in its own way.
    void say_everything() {
        say(CreateOrg{"acme"});
        say(PutAgent{.name = "eve", .command = {"work"}, .max_concurrent_runs = 5, .tags = {{"team", "red"}}});
        say(PauseAgent{"eve", "lunch"});
        say(ResumeAgent{"eve"});
        say(ArchiveAgent{"eve"});
        say(PutAgent{.name = "eve", .command = {}, .max_concurrent_runs = 5, .tags = {}});
        say(PutBudget{.name = "day", .scope = {}, .limit_units = nanos(1000), .warn = {}});
        say(CreateKey{
            .id = "k1", .hash = "abc", .scopes = {"agent"}, .agent = "eve", .run = {}, .budget = "day", .note = {}});
        say(RevokeKey{"k1"});
        say(SetCap{.kind = CapKind::provider, .name = "acme-ai", .max_live = 5});
        Charge charge_body = charge_of(cents(3));
        say(charge_body);
        say(CorrectCharge{.event = said.back().command.key, .to = cents(1), .why = "typed twice"});
        charge_body.cost = cents(2000);
        charge_body.incurred = true;
        say(charge_body);
        say(UnfreezeBudget{"day"});
        say(PutBudget{.name = "day", .scope = {}, .limit_units = nanos(100'000), .warn = {}});
        for (int i = 0; i < 2; ++i) {
            Reserve reserve_body;
            reserve_body.hold = fresh_hold();
            reserve_body.who.agent = "ada";
            reserve_body.bound.usd = nanos(10);
            say(reserve_body);
            say(ExtendHold{reserve_body.hold, 120, true});
            SettleHold settle_body;
            settle_body.hold = reserve_body.hold;
            settle_body.cost = cents(11);  // An overage, which its answer must repeat.
            i == 0 ? void(say(settle_body)) : void(say(ReleaseHold{reserve_body.hold}));
            if (i == 0) say(UnfreezeBudget{"day"});
        }
        const SessionId session = fresh_session();
        say(CreateSession{.session = session, .agent = "ada", .title = "t", .metadata = {}});
        Append turn;
        turn.session = session;
        turn.messages.resize(2);
        for (NewMessage& message : turn.messages) {
            message.id = fresh_message();
            message.role = "user";
        }
        say(turn);
        say(ForkSession{.from = session, .at_seq = 0, .session = fresh_session(), .title = {}});
        say(CloseSession{session});
        std::vector<AdmitReply> runs;
        for (int i = 0; i < 4; ++i) {
            AdmitRun run;
            run.run = fresh_run();
            run.who.agent = "ada";
            run.lease_s = 24 * 3600;
            runs.push_back(say(run));
        }
        say(StartRun{runs[0].run, runs[0].fence});
        say(HeartbeatRun{runs[1].run, runs[1].fence});
        say(PauseRun{runs[0].run, runs[0].fence});
        say(ResumeRun{runs[0].run, runs[0].fence});
        FinishRun finish_body;
        finish_body.run = runs[0].run;
        finish_body.fence = runs[0].fence;
        finish_body.charge = FinalCharge{.provider = {}, .model = {}, .cost = cents(1), .usage = {}, .price = {}};
        say(finish_body);
        say(CancelRun{.run = runs[1].run, .fence = {}, .reason = "enough", .charge = {}});
        say(CancelRun{.run = runs[1].run, .fence = runs[1].fence, .reason = {}, .charge = {}});
        say(LoseRun{runs[2].run, runs[2].fence, "gone"});
        say(RestatePlaces{runs[3].run, runs[3].fence, {}, "moved"});
        PutSchedule schedule;
        schedule.name = "nightly";
        schedule.agent = "ada";
        schedule.every_s = 3600;
        say(schedule);
        say(Wake{"nightly", fresh_run()});
        say(EnableSchedule{"nightly", false});
        say(DeleteSchedule{"nightly"});
        say(DeleteBudget{"day"});
        PutWorktree worktree;
        worktree.run = runs[0].run;
        worktree.path = "/worktrees/one";
        say(worktree);
        say(DropWorktree{.run = runs[0].run, .saved_as = {}});
        say(PutSetting{"upstream", "main", "{}"});
        say(DropSetting{"upstream", "main"});
        ModelCall call;
        call.id = CallId(Id{1, 2});
        say(RecordCalls{{call}});
        say(RecordConnection{.run = runs[0].run, .host = "example.org", .port = 443});
    }

    static constexpr std::size_t kinds_that_can_succeed =
        std::variant_size_v<CommandBody::Kinds> - 2;  // Not Tick, Reopened.

    void expect_first_answers() {
        for (const Said& first : said) {
            const Applied again = apply_command(first.command);  // Which also checks that no row changes.
            EXPECT_TRUE(again.repeated) << "kind " << first.command.body.index();
            EXPECT_EQ(encode(again.reply), first.reply) << "kind " << first.command.body.index();
        }
    }
};

// ---- one command, one effect --------------------------------------------------------------------------------------

TEST_F(StateMachineTest, a_repeat_of_any_command_gets_the_first_answer_and_changes_nothing) {
    say_everything();
    std::set<std::size_t> kinds;
    for (const Said& each : said) kinds.insert(each.command.body.index());
    ASSERT_EQ(kinds.size(), kinds_that_can_succeed) << "every kind is among them";

    expect_first_answers();
}

TEST_F(StateMachineTest, a_repeat_gets_the_first_answer_within_the_same_batch_too) {
    batching = true;

    say_everything();
    const Said last = said.back();
    expect_first_answers();

    EXPECT_TRUE(apply_command(last.command).repeated);
}

TEST_F(StateMachineTest, a_repeat_gets_the_first_answer_after_a_restart) {
    say_everything();
    reload();

    expect_first_answers();
}

TEST_F(StateMachineTest, a_key_used_before_with_other_content_is_refused_whatever_the_kinds) {
    say_everything();

    for (const Said& first : said) {
        SCOPED_TRACE(first.command.body.index());
        Command other_kind = command_of(first.command.key, PauseAgent{"ada", "another command"});
        EXPECT_TRUE(apply_command(other_kind).key_reused);
        Command charging = command_of(first.command.key, charge_of(cents(77)));
        EXPECT_TRUE(apply_command(charging).key_reused);
        CommandBody changed = first.command.body;
        for (std::uint64_t leaf = 0; fingerprint_of(changed) == fingerprint_of(first.command.body); ++leaf) {
            ASSERT_TRUE(change_leaf(changed, leaf)) << "something in a command is content";
        }
        EXPECT_TRUE(apply_command(command_of(first.command.key, changed)).key_reused);
    }
    expect_first_answers();
}

// As versions computed it that counted the API key as content.
std::uint64_t former_fingerprint_of(const Charge& body) {
    std::string bytes;
    Encoder encoder(bytes);
    encoder.put(static_cast<std::uint64_t>(CommandBody(body).index()));
    encoder.put(body);
    std::uint64_t hash = 0xCBF2'9CE4'8422'2325ull;
    const std::size_t size = bytes.size();
    bytes.append(-size % sizeof hash, '\0');
    for (std::size_t at = 0; at <= bytes.size(); at += sizeof hash) {
        std::uint64_t word = size;
        if (at < bytes.size()) std::memcpy(&word, bytes.data() + at, sizeof word);
        hash = (hash ^ word) * 0x9E37'79B9'7F4A'7C15ull;
        hash ^= hash >> 32;
    }
    return hash;
}

TEST_F(StateMachineTest, a_retry_with_another_api_key_is_a_repeat) {
    Charge body = charge_of(cents(5));
    body.who.api_key = "first";
    const CommandKey key = fresh_key();
    EXPECT_FALSE(apply_with(key, body).repeated);
    body.who.api_key = "second";
    EXPECT_TRUE(apply_with(key, body).repeated);
    body.cost = cents(6);
    EXPECT_TRUE(apply_with(key, body).key_reused);
}

TEST_F(StateMachineTest, a_retry_of_a_charge_that_an_older_version_took_is_a_repeat) {
    Charge body = charge_of(cents(5));
    body.who.api_key = "first";
    Command command = command_of(fresh_key(), body);
    command.fingerprint = former_fingerprint_of(body);
    EXPECT_NE(command.fingerprint, fingerprint_of(body));
    EXPECT_FALSE(apply_command(command).repeated);

    EXPECT_TRUE(apply_with(command.key, body).repeated);
    body.cost = cents(6);
    EXPECT_TRUE(apply_with(command.key, body).key_reused);
}

TEST_F(StateMachineTest, a_refusal_is_not_remembered) {
    const CommandKey key = fresh_key();
    Charge body = charge_of(cents(5));
    body.who.agent = "bob";
    EXPECT_EQ(std::get<ChargeReply>(apply_with(key, body).reply).status, ChargeStatus::agent_not_found);
    EXPECT_FALSE(machine.find_answer(command_of(key, body)).has_value());
    make_agent("bob");

    const Applied second = apply_with(key, body);
    EXPECT_FALSE(second.repeated);
    EXPECT_EQ(std::get<ChargeReply>(second.reply).status, ChargeStatus::charged);

    const CommandKey other = fresh_key();
    EXPECT_EQ(std::get<BudgetReply>(apply_with(other, DeleteBudget{"day"}).reply).status,
              BudgetStatus::budget_not_found);
    EXPECT_EQ(std::get<AgentReply>(apply_with(other, PauseAgent{"bob", "x"}).reply).status, AgentStatus::done)
        << "also for other content";
}

TEST_F(StateMachineTest, a_repeat_is_answered_although_the_world_has_moved_on) {
    const CommandKey charged = fresh_key();
    apply_with(charged, charge_of(cents(5)));
    const HoldId id = fresh_hold();
    Reserve reserve_body;
    reserve_body.hold = id;
    reserve_body.who.agent = "ada";
    const CommandKey held = fresh_key();
    apply_with(held, reserve_body);
    release(id);
    apply(ArchiveAgent{"ada"});

    const Applied charge_again = apply_with(charged, charge_of(cents(5)));
    EXPECT_TRUE(charge_again.repeated);
    EXPECT_EQ(std::get<ChargeReply>(charge_again.reply).status, ChargeStatus::charged);
    const Applied hold_again = apply_with(held, reserve_body);
    EXPECT_TRUE(hold_again.repeated);
    EXPECT_EQ(std::get<ReserveReply>(hold_again.reply).status, ReserveStatus::held);
    EXPECT_EQ(std::get<ReserveReply>(hold_again.reply).expires_at, start + 60s);
}

TEST_F(StateMachineTest, keys_of_every_kind_are_remembered_over_a_restart) {
    const std::vector<CommandKey> keys{fresh_key(),
                                       CommandKey(id_from_hash("order-7")),
                                       CommandKey(Id{~0ull, ~0ull}),
                                       CommandKey(Id{0, 1}),
                                       CommandKey(time_ordered_id(start - 24h, 1, 1)),
                                       CommandKey(time_ordered_id(start + 240h, 1, 1))};
    for (const CommandKey key : keys) {
        EXPECT_EQ(std::get<ChargeReply>(apply_with(key, charge_of(cents(1))).reply).status, ChargeStatus::charged);
    }

    for (int restarted = 0; restarted < 2; ++restarted) {
        for (const CommandKey key : keys) EXPECT_TRUE(apply_with(key, charge_of(cents(1))).repeated);
        reload();
    }

    EXPECT_EQ(get<AgentTotals>("ada").events, 6);
}

TEST_F(StateMachineTest, a_command_without_a_key_is_carried_out_each_time_and_not_remembered) {
    const std::size_t answers = rows().of<StoredReply>().size();

    const Applied first = apply_with({}, PauseAgent{"ada", "x"});
    const Applied second = apply_with({}, PauseAgent{"ada", "x"});

    EXPECT_EQ(std::get<AgentReply>(first.reply).status, AgentStatus::done);
    EXPECT_FALSE(second.repeated);
    EXPECT_EQ(std::get<AgentReply>(second.reply).status, AgentStatus::unchanged);
    EXPECT_EQ(rows().of<StoredReply>().size(), answers);
}

TEST_F(StateMachineTest, the_answer_to_a_key_can_be_asked_for_without_carrying_anything_out) {
    const Command command = command_of(fresh_key(), charge_of(cents(5)));
    EXPECT_FALSE(machine.find_answer(command).has_value());
    const Applied first = apply_command(command);

    const auto found = machine.find_answer(command);
    ASSERT_TRUE(found.has_value());
    EXPECT_TRUE(found->repeated);
    EXPECT_EQ(encode(found->reply), encode(first.reply));
    EXPECT_TRUE(machine.find_answer(command_of(command.key, charge_of(cents(6))))->key_reused);
    EXPECT_FALSE(machine.find_answer(command_of({}, charge_of(cents(5)))).has_value());
    Command elsewhere = command;
    elsewhere.org = OrgId(7);
    EXPECT_FALSE(machine.find_answer(elsewhere).has_value());
}

class FormerKeysTest : public StateMachineTest {
 protected:
    // As after an upgrade: what was said before is under its former key.
    void upgrade(Instant until) {
        commit();
        source.orgs[org].of<Org>().begin()->second.former_keys_until = until;
        reload();
    }
    Command again(const Command& first, CommandBody body) {
        Command command = command_of(fresh_key(), std::move(body));
        command.former = first.key;
        return command;
    }
};

TEST_F(FormerKeysTest, a_retry_after_an_upgrade_gets_the_first_answer) {
    say_everything();
    upgrade(now + std::chrono::days(1));

    for (const Said& first : said) {
        SCOPED_TRACE(first.command.body.index());
        const Applied applied = apply_command(again(first.command, first.command.body));
        EXPECT_TRUE(applied.repeated);
        EXPECT_EQ(encode(applied.reply), first.reply);
        EXPECT_TRUE(machine.find_answer(again(first.command, first.command.body)).has_value());
    }
}

TEST_F(FormerKeysTest, former_keys_mean_nothing_to_a_new_store_and_when_their_time_is_over) {
    const Command first = command_of(fresh_key(), charge_of(cents(5)));
    apply_command(first);
    for (const Instant until : {Instant{}, now}) {
        upgrade(until);
        const std::int64_t before = get<AgentTotals>("ada").events;
        EXPECT_FALSE(apply_command(again(first, first.body)).repeated);
        EXPECT_EQ(get<AgentTotals>("ada").events, before + 1);
    }
}

TEST_F(FormerKeysTest, the_same_former_key_with_other_content_is_refused_unless_it_was_another_agents) {
    make_agent("bob");
    const Command first = command_of(fresh_key(), charge_of(cents(5)));
    apply_command(first);
    upgrade(now + std::chrono::days(1));

    EXPECT_TRUE(apply_command(again(first, charge_of(cents(6)))).key_reused);
    Charge of_bob = charge_of(cents(5));
    of_bob.who.agent = "bob";
    const Applied applied = apply_command(again(first, of_bob));
    EXPECT_FALSE(applied.repeated || applied.key_reused);
    EXPECT_EQ(get<AgentTotals>("bob").events, 1);
}

TEST_F(StateMachineTest, no_rule_decides_on_a_source_that_cannot_answer) {
    make_budget("day", cents(10));
    charge(cents(10));
    const HoldId id = hold(Money());
    release(id);
    const CommandKey used = fresh_key();
    apply_with(used, PauseAgent{"ada", "x"});
    reload();
    source.fails = true;
    PutBudget budget;
    budget.name = "other";

    const auto apply_past_the_check = [&](CommandKey key, const CommandBody& body) {
        return machine.apply({now}, command_of(key, body));
    };
    EXPECT_THROW(apply_past_the_check(fresh_key(), charge_of(cents(10))), SourceFailed) << "the window is not empty";
    EXPECT_THROW(apply_past_the_check(fresh_key(), ReleaseHold{id}), SourceFailed);
    EXPECT_THROW(apply_past_the_check(fresh_key(), budget), SourceFailed) << "the sum is not nothing";
    EXPECT_THROW(apply_past_the_check(used, PauseAgent{"ada", "x"}), SourceFailed) << "the key is not new";
}

// ---- determinism --------------------------------------------------------------------------------------------------

TEST_F(StateMachineTest, the_same_commands_at_the_same_times_give_the_same_rows_and_replies) {
    // Begin from nothing, with the recorded commands alone.
    MapSource other_source;
    StateMachine other(other_source);
    const auto commit_other = [&](Instant at_time) {
        for (auto& [id, state] : other.orgs()) {
            if (!state->has_changes()) continue;
            collect_into(*state, other_source.orgs[id]);
            if (state->feed.has_page()) {
                const FeedPage& page = state->feed.seal(at_time);
                other_source.orgs[id].of<FeedPage>().insert_or_assign(page.last_seq, page);
            }
            state->committed();
        }
    };
    source = {};
    machine.forget_everything({});
    say(CreateOrg{"acme"});
    say(PutAgent{.name = "ada", .command = {}, .max_concurrent_runs = 100, .tags = {}});
    say_everything();

    for (const Said& each : said) {
        const Applied applied = other.apply({each.at}, each.command);
        EXPECT_EQ(encode(applied.reply), each.reply);
        commit_other(each.at);
    }

    EXPECT_EQ(other_source.orgs[org].bytes(), source.orgs[org].bytes());
}

// ---- time ---------------------------------------------------------------------------------------------------------

TEST_F(StateMachineTest, time_never_goes_back_for_an_org) {
    make_budget("day", cents(10));
    const Instant midnight = utc_time("2026-03-03T00:00:00Z");
    at(midnight + 1s);
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged);

    now = midnight - 1h;

    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded) << "the day before is over";
    const HoldId id = fresh_hold();
    Reserve body;
    body.hold = id;
    body.who.agent = "ada";
    EXPECT_EQ(apply(body).expires_at, midnight + 61s);
    EXPECT_EQ(get<Hold>(id).created_at, midnight + 1s);
    reload();
    EXPECT_EQ(charge(Money()).status, ChargeStatus::charged);
    EXPECT_EQ(last_event().at, midnight + 1s) << "also after a restart";
}

TEST_F(StateMachineTest, one_orgs_clock_is_not_another_ones) {
    machine.apply({start}, {.org = OrgId(2), .key = {}, .body = CreateOrg{"other"}});
    commit();
    at(start + 1h);
    charge(cents(1));

    now = start + 1s;
    const Command put{.org = OrgId(2), .key = {}, .body = PutAgent{.name = "zoe", .command = {}, .tags = {}}};
    machine.apply({now}, put);
    commit();

    EXPECT_EQ(source.orgs[OrgId(2)].of<Agent>().at("zoe").created_at, start + 1s);
}

TEST_F(StateMachineTest, the_next_deadline_is_the_first_of_all_orgs) {
    EXPECT_FALSE(machine.next_deadline().has_value());
    hold(cents(1), [](Reserve& body) { body.ttl_s = 100; });
    EXPECT_EQ(machine.next_deadline(), start + 100s);
    const OrgId second(2);
    const auto apply_there = [&](const CommandBody& body) {
        return machine.apply({now},
                             {.org = second, .key = fresh_key(), .body = body, .fingerprint = fingerprint_of(body)});
    };
    apply_there(CreateOrg{"other"});
    apply_there(PutAgent{.name = "zoe", .command = {}, .tags = {}});
    Reserve body;
    body.hold = fresh_hold();
    body.who.agent = "zoe";
    body.ttl_s = 50;

    apply_there(body);

    EXPECT_EQ(machine.next_deadline(), start + 50s);
}

TEST_F(StateMachineTest, a_tick_does_only_so_much_and_the_rest_is_due_at_once) {
    for (std::uint64_t i = 0; i <= limits::expiries_per_tick_max; ++i) {
        Hold row;
        row.id = HoldId(Id{.high = 1, .low = i + 1});
        row.who.agent = "ada";
        row.expires_at = start;
        machine.org(org).adopt(row);
    }
    const auto tick = [&] {
        return std::get<TickReply>(machine.apply({now}, command_of({}, Tick{})).reply).expired_holds;
    };

    EXPECT_EQ(tick(), static_cast<std::int64_t>(limits::expiries_per_tick_max));
    EXPECT_EQ(machine.next_deadline(), start);
    EXPECT_EQ(tick(), 1);
    EXPECT_EQ(tick(), 0);
}

// ---- orgs ---------------------------------------------------------------------------------------------------------

TEST_F(StateMachineTest, every_command_to_an_org_that_is_not_there_is_refused_and_leaves_nothing) {
    const OrgId nowhere(7);
    boost::mp11::mp_for_each<boost::mp11::mp_iota_c<std::variant_size_v<CommandBody::Kinds>>>([&](auto index) {
        const CommandBody body(std::in_place_index<index.value>);
        if (std::holds_alternative<CreateOrg>(body)) return;
        const Applied applied = machine.apply({now}, {.org = nowhere, .key = fresh_key(), .body = body});
        EXPECT_TRUE(std::holds_alternative<NoSuchOrg>(applied.reply)) << index.value;
        EXPECT_FALSE(succeeded(applied.reply));
    });

    EXPECT_FALSE(machine.orgs().contains(nowhere));
}

TEST_F(StateMachineTest, the_same_key_in_two_orgs_is_two_commands) {
    const OrgId second(2);
    const CommandKey key = fresh_key();
    EXPECT_EQ(std::get<ChargeReply>(apply_with(key, charge_of(cents(5))).reply).status, ChargeStatus::charged);
    const auto apply_there = [&](CommandKey with, const CommandBody& body) {
        return machine.apply({now}, {.org = second, .key = with, .body = body, .fingerprint = fingerprint_of(body)});
    };
    apply_there({}, CreateOrg{"other"});
    apply_there({}, PutAgent{.name = "ada", .command = {}, .tags = {}});

    const Applied there = apply_there(key, charge_of(cents(7)));
    commit();

    EXPECT_FALSE(there.repeated || there.key_reused);
    EXPECT_EQ(source.orgs[second].of<AgentTotals>().at("ada").settled, nanos(7));
    EXPECT_EQ(get<AgentTotals>("ada").settled, nanos(5));
    EXPECT_EQ(contradictions(source.orgs[second]), std::vector<std::string>{});
}

TEST_F(StateMachineTest, an_org_is_made_once_and_keeps_its_name) {
    EXPECT_EQ(apply(CreateOrg{"acme"}).status, OrgStatus::already_there);
    EXPECT_EQ(apply(CreateOrg{"other"}).status, OrgStatus::name_taken);
    EXPECT_EQ(apply(CreateOrg{"not a name"}).status, OrgStatus::invalid_request);

    EXPECT_EQ(get<Org>({}).name, "acme");
    EXPECT_EQ(get<Org>({}).created_at, start);
}

TEST_F(StateMachineTest, an_org_that_was_refused_leaves_nothing_behind_and_counts_nowhere) {
    for (std::uint32_t i = 2; i < 5; ++i) {
        const Applied refused =
            machine.apply({now}, {.org = OrgId(i), .key = fresh_key(), .body = CreateOrg{"not a name"}});
        EXPECT_EQ(std::get<OrgReply>(refused.reply).status, OrgStatus::invalid_request);
    }
    EXPECT_EQ(machine.orgs().size(), 1u);
}

TEST_F(StateMachineTest, there_are_only_so_many_orgs) {
    for (std::uint32_t i = 1; machine.orgs().size() < limits::orgs_max; ++i) machine.org(OrgId(100 + i));
    const auto create = [&](const std::string& name) {
        return std::get<OrgReply>(
                   machine.apply({now}, {.org = OrgId(7), .key = fresh_key(), .body = CreateOrg{name}}).reply)
            .status;
    };

    EXPECT_EQ(create("one-more"), OrgStatus::too_many);
    EXPECT_EQ(create("not a name"), OrgStatus::invalid_request) << "the earlier reason";

    EXPECT_EQ(machine.orgs().size(), limits::orgs_max);
}

}  // namespace
}  // namespace interlock::core
