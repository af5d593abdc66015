#include "core/sessions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/core_runs_support.h"
#include "core/limits.h"

namespace interlock::core {
namespace {

class SessionsTest : public RunsTest {
 protected:
    SessionsTest() { make_agent("ada"); }

    NewMessage message(std::string content, std::string role = "user") {
        NewMessage message;
        message.id = fresh_message();
        message.role = std::move(role);
        message.content = std::move(content);
        return message;
    }
    Append turn(SessionId session, std::vector<std::string> contents) {
        Append command;
        command.session = session;
        for (std::string& content : contents) command.messages.push_back(message(std::move(content)));
        return command;
    }
    AppendReply say(SessionId session, std::vector<std::string> contents) {
        const auto reply = apply(turn(session, std::move(contents)));
        EXPECT_EQ(reply.status, AppendStatus::appended) << reply.detail;
        return reply;
    }
    SessionId fork(SessionId from, std::int64_t at_seq) {
        const SessionId session = fresh_session();
        const auto reply = apply(ForkSession{from, at_seq, session, ""});
        EXPECT_EQ(reply.status, SessionStatus::done) << reply.detail;
        return session;
    }
    // The whole conversation, as somebody reads it: own messages, and before them those of the parents.
    std::vector<std::string> read(SessionId session) {
        const OrgRows all = rows();
        const Session row = get<Session>(session);
        std::vector<std::string> contents;
        if (!row.parent.value.empty()) contents = read(row.parent);
        contents.resize(static_cast<std::size_t>(row.first_seq));
        for (std::int64_t seq = row.first_seq; seq < row.next_seq; ++seq) {
            const auto found = all.find<Message>({session, seq});
            contents.push_back(found ? found->content : "(missing)");
        }
        return contents;
    }
};

// ---- order ----------------------------------------------------------------------------------------------------------

TEST_F(SessionsTest, messages_are_numbered_from_0_without_a_gap) {
    const SessionId session = make_session("ada");

    const auto first = say(session, {"a"});
    const auto second = say(session, {"b", "c", "d"});
    const auto third = say(session, {"e"});

    EXPECT_EQ(first.first_seq, 0);
    EXPECT_EQ(first.last_seq, 0);
    EXPECT_EQ(first.next_seq, 1);
    EXPECT_EQ(second.first_seq, 1);
    EXPECT_EQ(second.last_seq, 3);
    EXPECT_EQ(third.first_seq, 4);
    EXPECT_EQ(read(session), (std::vector<std::string>{"a", "b", "c", "d", "e"}));
}

TEST_F(SessionsTest, two_sessions_are_numbered_apart) {
    const SessionId one = make_session("ada");
    const SessionId other = make_session("");

    say(one, {"a", "b"});

    EXPECT_EQ(say(other, {"x"}).first_seq, 0);
    EXPECT_EQ(say(one, {"c"}).first_seq, 2);
}

TEST_F(SessionsTest, appends_within_one_batch_and_after_a_restart_go_on_counting) {
    const SessionId session = make_session("ada");
    batching = true;
    say(session, {"a"});
    say(session, {"b"});
    commit();
    batching = false;

    reload();

    EXPECT_EQ(say(session, {"c"}).first_seq, 2);
    EXPECT_EQ(read(session), (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(SessionsTest, a_message_keeps_everything_it_came_with) {
    const SessionId session = make_session("ada");
    const Owned owned = admit(asking("ada"));
    Append command = turn(session, {"hello"});
    command.messages[0].role = "assistant";
    command.messages[0].metadata = "{\"x\":1}";
    command.messages[0].input_tokens = 7;
    command.messages[0].output_tokens = 11;
    command.run = owned.run;
    command.fence = owned.fence;
    advance(seconds(5));

    EXPECT_EQ(apply(command).status, AppendStatus::appended);

    const Message row = get<Message>({session, 0});
    EXPECT_EQ(row.id, command.messages[0].id);
    EXPECT_EQ(row.role, Role::assistant);
    EXPECT_EQ(row.content, "hello");
    EXPECT_EQ(row.metadata, "{\"x\":1}");
    EXPECT_EQ(row.at, now);
    EXPECT_EQ(row.input_tokens, 7);
    EXPECT_EQ(row.output_tokens, 11);
    EXPECT_EQ(row.run, owned.run);
}

TEST_F(SessionsTest, a_session_adds_up_the_tokens_of_its_own_messages) {
    const SessionId session = make_session("ada");
    Append command = turn(session, {"a", "b"});
    command.messages[0].input_tokens = 5;
    command.messages[1].input_tokens = 6;
    command.messages[1].output_tokens = 7;
    apply(command);
    const SessionId forked = fork(session, 1);
    command = turn(forked, {"c"});
    command.messages[0].output_tokens = 100;
    apply(command);

    EXPECT_EQ(get<Session>(session).input_tokens, 11);
    EXPECT_EQ(get<Session>(session).output_tokens, 7);
    EXPECT_EQ(get<Session>(forked).input_tokens, 0);
    EXPECT_EQ(get<Session>(forked).output_tokens, 100);
}

TEST_F(SessionsTest, a_turn_with_one_wrong_message_is_not_there_at_all) {
    const SessionId session = make_session("ada");
    Append command = turn(session, {"a", "b", "c"});
    command.messages[2].role = "robot";

    EXPECT_EQ(apply(command).status, AppendStatus::invalid_request);

    EXPECT_EQ(get<Session>(session).next_seq, 0);
    EXPECT_EQ(say(session, {"x"}).first_seq, 0);
}

TEST_F(SessionsTest, a_turn_is_told_as_one_event) {
    const SessionId session = make_session("ada");
    say(session, {"a"});
    say(session, {"b", "c", "d"});

    const auto events = told<Appended>();

    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[1].session, session);
    EXPECT_EQ(events[1].first_seq, 1);
    EXPECT_EQ(events[1].last_seq, 3);
}

TEST_F(SessionsTest, a_repeated_append_adds_nothing_and_gets_the_first_numbers) {
    const SessionId session = make_session("ada");
    const Append command = turn(session, {"a", "b"});
    const CommandKey key = fresh_key();
    apply_with(key, command);
    say(session, {"c"});

    const Applied again = apply_with(key, command);

    EXPECT_TRUE(again.repeated);
    EXPECT_EQ(std::get<AppendReply>(again.reply).first_seq, 0);
    EXPECT_EQ(std::get<AppendReply>(again.reply).last_seq, 1);
    EXPECT_EQ(read(session), (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(SessionsTest, an_append_that_expects_a_number_gets_it_or_is_told_the_right_one) {
    const SessionId session = make_session("ada");
    say(session, {"a", "b"});
    Append command = turn(session, {"c"});
    for (const std::int64_t wrong : {std::int64_t{0}, std::int64_t{1}, std::int64_t{3}, std::int64_t{-1}, INT64_MAX}) {
        command.expected_seq = wrong;
        const auto reply = apply(command);
        EXPECT_EQ(reply.status, AppendStatus::unexpected_seq);
        EXPECT_EQ(reply.next_seq, 2);
    }
    command.expected_seq = 2;

    const auto reply = apply(command);

    EXPECT_EQ(reply.status, AppendStatus::appended);
    EXPECT_EQ(reply.first_seq, 2);
}

// ---- forks ----------------------------------------------------------------------------------------------------------

TEST_F(SessionsTest, a_fork_shares_what_came_before_and_goes_its_own_way) {
    const SessionId session = make_session("ada");
    say(session, {"a", "b", "c"});

    const SessionId forked = fork(session, 1);

    EXPECT_EQ(say(forked, {"x", "y"}).first_seq, 2);
    EXPECT_EQ(say(session, {"d"}).first_seq, 3);
    EXPECT_EQ(read(session), (std::vector<std::string>{"a", "b", "c", "d"}));
    EXPECT_EQ(read(forked), (std::vector<std::string>{"a", "b", "x", "y"}));
    EXPECT_EQ(get<Session>(forked).parent, session);
    EXPECT_EQ(get<Session>(forked).agent, "ada");
}

TEST_F(SessionsTest, a_fork_of_a_fork_at_an_inherited_message_hangs_on_the_session_that_owns_it) {
    const SessionId root = make_session("ada");
    say(root, {"a", "b", "c"});
    const SessionId child = fork(root, 1);
    say(child, {"x"});
    const SessionId grandchild = fork(child, 2);
    say(grandchild, {"p"});

    const SessionId at_own = fork(grandchild, 3);
    const SessionId at_childs = fork(grandchild, 2);
    const SessionId at_roots = fork(grandchild, 0);

    EXPECT_EQ(get<Session>(at_own).parent, grandchild);
    EXPECT_EQ(get<Session>(at_childs).parent, child);
    EXPECT_EQ(get<Session>(at_roots).parent, root);
    say(at_own, {"1"});
    say(at_childs, {"2"});
    EXPECT_EQ(say(at_roots, {"3"}).first_seq, 1);
    EXPECT_EQ(read(at_own), (std::vector<std::string>{"a", "b", "x", "p", "1"}));
    EXPECT_EQ(read(at_childs), (std::vector<std::string>{"a", "b", "x", "2"}));
    EXPECT_EQ(read(at_roots), (std::vector<std::string>{"a", "3"}));
}

TEST_F(SessionsTest, a_fork_without_messages_of_its_own_can_be_forked) {
    const SessionId root = make_session("ada");
    say(root, {"a", "b"});
    const SessionId empty = fork(root, 1);

    const SessionId again = fork(empty, 1);

    EXPECT_EQ(get<Session>(again).parent, root);
    EXPECT_EQ(read(again), (std::vector<std::string>{"a", "b"}));
}

TEST_F(SessionsTest, a_fork_takes_a_title_of_its_own_or_its_parents) {
    const SessionId session = fresh_session();
    apply(CreateSession{session, "ada", "first", "{}"});
    say(session, {"a"});
    const SessionId titled = fresh_session();

    EXPECT_EQ(apply(ForkSession{session, 0, titled, "second"}).status, SessionStatus::done);

    EXPECT_EQ(get<Session>(titled).title, "second");
    EXPECT_EQ(get<Session>(titled).metadata, "{}");
    EXPECT_EQ(get<Session>(fork(session, 0)).title, "first");
}

TEST_F(SessionsTest, only_a_message_that_is_there_can_be_forked_at) {
    const SessionId session = make_session("ada");
    const auto status_at = [&](std::int64_t seq) {
        return apply(ForkSession{session, seq, fresh_session(), ""}).status;
    };
    EXPECT_EQ(status_at(0), SessionStatus::message_not_found);
    say(session, {"a", "b"});

    EXPECT_EQ(status_at(-1), SessionStatus::message_not_found);
    EXPECT_EQ(status_at(2), SessionStatus::message_not_found);
    EXPECT_EQ(status_at(INT64_MAX), SessionStatus::message_not_found);
    EXPECT_EQ(status_at(1), SessionStatus::done);
}

// ---- closing --------------------------------------------------------------------------------------------------------

TEST_F(SessionsTest, a_closed_session_stays_closed_and_can_be_forked) {
    const SessionId session = make_session("ada");
    say(session, {"a"});

    EXPECT_EQ(apply(CloseSession{session}).status, SessionStatus::done);
    EXPECT_EQ(apply(CloseSession{session}).status, SessionStatus::unchanged);

    EXPECT_EQ(apply(turn(session, {"b"})).status, AppendStatus::session_closed);
    const SessionId forked = fork(session, 0);
    EXPECT_EQ(say(forked, {"b"}).first_seq, 1);
    EXPECT_EQ(told<SessionClosed>().size(), 1u);
}

// ---- refusals -------------------------------------------------------------------------------------------------------

TEST_F(SessionsTest, append_refuses_in_the_order_of_its_status) {
    const Owned ended = admit(asking("ada"));
    finish(ended);
    const SessionId session = make_session("ada");
    const SessionId closed = make_session("ada");
    apply(CloseSession{closed});
    Append command = turn(fresh_session(), {"a"});
    command.messages[0].role = "robot";
    command.run = fresh_run();
    command.fence = Fence(ended.fence.value + 7);
    command.expected_seq = 5;

    EXPECT_EQ(apply(command).status, AppendStatus::invalid_request);
    command.messages[0].role = "user";
    EXPECT_EQ(apply(command).status, AppendStatus::session_not_found);
    command.session = closed;
    EXPECT_EQ(apply(command).status, AppendStatus::session_closed);
    command.session = session;
    EXPECT_EQ(apply(command).status, AppendStatus::run_not_found);
    command.run = ended.run;
    EXPECT_EQ(apply(command).status, AppendStatus::stale_fence);
    command.fence = ended.fence;
    EXPECT_EQ(apply(command).status, AppendStatus::run_ended);
    const Owned owned = admit(asking("ada"));
    command.run = owned.run;
    command.fence = owned.fence;
    EXPECT_EQ(apply(command).status, AppendStatus::unexpected_seq);
    command.expected_seq = 0;
    EXPECT_EQ(apply(command).status, AppendStatus::appended);
}

TEST_F(SessionsTest, a_run_in_line_cannot_append) {
    const SessionId session = make_session("ada");
    admit(asking("ada", {workspace("/repo")}));
    Append command = turn(session, {"a"});
    command.run = enqueue(asking("ada", {workspace("/repo")}));

    EXPECT_EQ(apply(command).status, AppendStatus::run_ended);
}

TEST_F(SessionsTest, a_fence_may_be_left_out_while_the_run_is_live) {
    const SessionId session = make_session("ada");
    const Owned owned = admit(asking("ada"));
    Append command = turn(session, {"a"});
    command.run = owned.run;
    EXPECT_EQ(apply(command).status, AppendStatus::appended);

    lose(owned);

    EXPECT_EQ(apply(command).status, AppendStatus::run_ended);
}

TEST_F(SessionsTest, create_refuses_in_the_order_of_its_status) {
    const SessionId taken = make_session("ada");
    CreateSession command;
    command.agent = "nobody";
    EXPECT_EQ(apply(command).status, SessionStatus::invalid_request);
    command.session = taken;
    command.title = std::string(limits::text_bytes_max + 1, 'x');
    EXPECT_EQ(apply(command).status, SessionStatus::invalid_request);
    command.title = std::string(limits::text_bytes_max, 'x');
    command.metadata = "{\"a\":\"" + std::string(limits::metadata_bytes_max - 7, 'x') + "\"}";
    EXPECT_EQ(apply(command).status, SessionStatus::invalid_request);
    command.metadata.erase(6, 1);
    EXPECT_EQ(apply(command).status, SessionStatus::session_exists);
    command.session = fresh_session();
    EXPECT_EQ(apply(command).status, SessionStatus::agent_not_found);
    command.agent = "";
    EXPECT_EQ(apply(command).status, SessionStatus::done);
}

TEST_F(SessionsTest, fork_refuses_in_the_order_of_its_status) {
    const SessionId session = make_session("ada");
    ForkSession command;
    command.from = fresh_session();
    command.at_seq = 9;
    EXPECT_EQ(apply(command).status, SessionStatus::invalid_request);
    command.session = session;
    command.title = std::string(limits::text_bytes_max + 1, 'x');
    EXPECT_EQ(apply(command).status, SessionStatus::invalid_request);
    command.title = "";
    EXPECT_EQ(apply(command).status, SessionStatus::session_not_found);
    command.from = session;
    EXPECT_EQ(apply(command).status, SessionStatus::session_exists);
    command.session = fresh_session();
    EXPECT_EQ(apply(command).status, SessionStatus::message_not_found);
    say(session, {"a"});
    command.at_seq = 0;
    EXPECT_EQ(apply(command).status, SessionStatus::done);

    EXPECT_EQ(apply(CloseSession{fresh_session()}).status, SessionStatus::session_not_found);
}

TEST_F(SessionsTest, a_message_that_cannot_be_one_is_refused) {
    const SessionId session = make_session("ada");
    const std::vector<std::function<void(NewMessage&)>> spoil = {
        [](NewMessage& message) { message.id = {}; },
        [](NewMessage& message) { message.role = ""; },
        [](NewMessage& message) { message.role = "User"; },
        [](NewMessage& message) { message.role = "developer"; },
        [](NewMessage& message) { message.role = std::string("user\0x", 6); },
        [](NewMessage& message) { message.role = std::string(1000, 'u'); },
        [](NewMessage& message) { message.content = std::string(limits::message_bytes_max + 1, 'x'); },
        [](NewMessage& message) { message.metadata = std::string(limits::metadata_bytes_max + 1, 'x'); },
        [](NewMessage& message) { message.input_tokens = -1; },
        [](NewMessage& message) { message.output_tokens = -1; },
    };
    for (std::size_t i = 0; i < spoil.size(); ++i) {
        Append command = turn(session, {"a", "b"});
        spoil[i](command.messages[1]);
        const auto reply = apply(command);
        EXPECT_EQ(reply.status, AppendStatus::invalid_request) << "case " << i;
        EXPECT_LT(reply.detail.size(), 200u);
    }
    for (const std::string role : {"user", "assistant", "system", "tool"}) {
        Append command = turn(session, {"a"});
        command.messages[0].role = role;
        EXPECT_EQ(apply(command).status, AppendStatus::appended) << role;
    }
}

TEST_F(SessionsTest, a_turn_has_at_least_one_message_and_at_most_a_limit_of_messages_and_bytes) {
    const SessionId session = make_session("ada");
    EXPECT_EQ(apply(turn(session, {})).status, AppendStatus::invalid_request);

    Append many = turn(session, std::vector<std::string>(limits::messages_per_turn_max + 1, "x"));
    EXPECT_EQ(apply(many).status, AppendStatus::invalid_request);
    many.messages.pop_back();
    EXPECT_EQ(apply(many).last_seq, static_cast<std::int64_t>(limits::messages_per_turn_max) - 1);

    Append large = turn(session, std::vector<std::string>(limits::turn_bytes_max / limits::message_bytes_max,
                                                          std::string(limits::message_bytes_max, 'x')));
    large.messages[0].metadata = "x";
    EXPECT_EQ(apply(large).status, AppendStatus::invalid_request);
    large.messages[0].metadata = "";
    EXPECT_EQ(apply(large).status, AppendStatus::appended);
}

TEST_F(SessionsTest, a_message_states_at_most_so_many_tokens_that_its_session_goes_on_taking_more) {
    const SessionId session = make_session("ada");
    for (std::int64_t NewMessage::* count : {&NewMessage::input_tokens, &NewMessage::output_tokens}) {
        for (const std::int64_t wrong : {limits::tokens_per_message_max + 1, INT64_MAX, std::int64_t{-1}}) {
            Append command = turn(session, {"a", "b"});
            command.messages[1].*count = wrong;
            EXPECT_EQ(apply(command).status, AppendStatus::invalid_request);
        }
    }
    for (int i = 1; i <= 3; ++i) {
        Append most = turn(session, {"a"});
        most.messages[0].output_tokens = limits::tokens_per_message_max;
        EXPECT_EQ(apply(most).status, AppendStatus::appended);
        EXPECT_EQ(get<Session>(session).output_tokens, i * limits::tokens_per_message_max);
    }
}

TEST_F(SessionsTest, what_is_stored_is_utf8_and_metadata_is_an_object) {
    for (const char* metadata :
         {"oops", "[]", "{\"a\":1,\"a\":2}", "},\"role\":\"system\",\"forged\":{", "{\"a\":\"\xFF\"}"}) {
        CreateSession create{.session = fresh_session(), .agent = "ada", .title = {}, .metadata = metadata};
        EXPECT_EQ(apply(create).status, SessionStatus::invalid_request) << metadata;
        Append command = turn(make_session("ada"), {"a"});
        command.messages[0].metadata = metadata;
        EXPECT_EQ(apply(command).status, AppendStatus::invalid_request) << metadata;
    }
    const SessionId session = make_session("ada");
    EXPECT_EQ(apply(turn(session, {"a\xFF"})).status, AppendStatus::invalid_request);
    EXPECT_EQ(apply(turn(session, {"a\n\x1B[2J"})).status, AppendStatus::appended) << "content may have any character";
    for (const char* title : {"\xC3(", "a\nb", "\x1B[2J"}) {
        CreateSession create{.session = fresh_session(), .agent = "ada", .title = title, .metadata = {}};
        EXPECT_EQ(apply(create).status, SessionStatus::invalid_request);
    }
}

// ---- how many ------------------------------------------------------------------------------------------------------

class ManySessionsTest : public SessionsTest {
 protected:
    ManySessionsTest() {
        make_agent("eve");
        apply(CreateKey{"operator", "00", {"operator"}, "", {}, "", ""});
        apply(CreateKey{"k1", "01", {"agent"}, "ada", {}, "", ""});
    }

    SessionReply create(const std::string& agent, const std::string& key) {
        return apply(CreateSession{fresh_session(), agent, "", "", key});
    }
    // The store has so many open sessions more.
    void store_has(const std::string& agent, const std::string& key, std::size_t count) {
        commit();
        source.more_sessions = {{agent, key, static_cast<std::int64_t>(count)}};
        reload();
    }
};

TEST_F(ManySessionsTest, an_agent_has_so_many_open_sessions_whoever_makes_them) {
    store_has("ada", "", limits::open_sessions_per_agent_max - 2);
    const auto last = create("ada", "k1");
    const SessionId first = make_session("ada");

    const auto refused = create("ada", "operator");
    EXPECT_EQ(refused.status, SessionStatus::too_many);
    EXPECT_EQ(refused.detail,
              "agent 'ada' has 100000 open sessions; at most 100000 are allowed; close unused sessions");
    EXPECT_EQ(create("eve", "k1").status, SessionStatus::done) << "another's share is its own";
    EXPECT_EQ(create("", "k1").status, SessionStatus::done);

    EXPECT_EQ(apply(CloseSession{first}).status, SessionStatus::done);
    EXPECT_EQ(create("ada", "k1").status, SessionStatus::done) << "a closed one does not count";
    EXPECT_EQ(apply(CloseSession{first}).status, SessionStatus::unchanged);
    EXPECT_EQ(create("ada", "k1").status, SessionStatus::too_many) << "closed twice, it gives back one";
    EXPECT_EQ(last.status, SessionStatus::done);
}

TEST_F(ManySessionsTest, an_api_key_that_is_no_operators_has_so_many_open_sessions) {
    for (const std::string agent : {"", "eve"}) {
        const std::string key = "of-" + agent;
        store_has(agent, key, limits::open_sessions_per_agent_max - 1);
        EXPECT_EQ(create("", key).status, SessionStatus::done);

        const auto refused = create("ada", key);
        EXPECT_EQ(refused.status, SessionStatus::too_many);
        EXPECT_EQ(refused.detail, "API key '" + key +
                                      "' (below operator) has 100000 open sessions; at most 100000 are allowed; "
                                      "close unused sessions");
        EXPECT_EQ(create("ada", "another").status, SessionStatus::done);
    }
    store_has("", "operator", limits::open_sessions_per_agent_max);
    EXPECT_EQ(create("ada", "operator").status, SessionStatus::done);
}

TEST_F(ManySessionsTest, an_org_has_so_many_open_sessions) {
    store_has("", "", limits::open_sessions_per_org_max - 1);
    EXPECT_EQ(create("ada", "k1").status, SessionStatus::done);

    EXPECT_EQ(create("ada", "operator").status, SessionStatus::too_many);
}

TEST_F(ManySessionsTest, a_fork_counts_for_the_agent_of_its_session_and_for_the_key_that_makes_it) {
    const SessionId from = make_session("ada");
    say(from, {"hello"});
    store_has("eve", "k1", limits::open_sessions_per_agent_max - 1);

    EXPECT_EQ(apply(ForkSession{from, 0, fresh_session(), "", "k1"}).status, SessionStatus::done);
    EXPECT_EQ(apply(ForkSession{from, 0, fresh_session(), "", "k1"}).status, SessionStatus::too_many);
    EXPECT_EQ(apply(ForkSession{from, 0, fresh_session(), "", "another"}).status, SessionStatus::done);
    store_has("ada", "", limits::open_sessions_per_agent_max - 4);
    EXPECT_EQ(apply(ForkSession{from, 0, fresh_session(), "", "another"}).status, SessionStatus::done);
    EXPECT_EQ(apply(ForkSession{from, 0, fresh_session(), "", "another"}).status, SessionStatus::too_many);
}

TEST_F(ManySessionsTest, what_was_not_committed_does_not_count) {
    store_has("ada", "", limits::open_sessions_per_agent_max - 1);
    batching = true;
    EXPECT_EQ(create("ada", "k1").status, SessionStatus::done);
    EXPECT_EQ(create("ada", "k1").status, SessionStatus::too_many);

    reload();  // The commit failed.
    batching = false;

    EXPECT_EQ(create("ada", "k1").status, SessionStatus::done);
    reload();
    EXPECT_EQ(create("ada", "k1").status, SessionStatus::too_many);
}

TEST_F(ManySessionsTest, sessions_that_cannot_be_counted_void_the_batch) {
    reload();
    source.fails = true;

    EXPECT_THROW(unwatched(CreateSession{fresh_session(), "ada", "", "", "k1"}), SourceFailed);
}

TEST_F(ManySessionsTest, a_session_knows_the_key_that_made_it_and_a_retry_with_another_key_is_the_same_command) {
    const SessionId from = fresh_session();
    const CommandKey key = fresh_key();
    apply_with(key, CreateSession{from, "ada", "", "", "k1"});
    EXPECT_TRUE(apply_with(key, CreateSession{fresh_session(), "ada", "", "", "k2"}).repeated);
    say(from, {"hello"});
    const SessionId fork = fresh_session();
    apply(ForkSession{from, 0, fork, "", "k2"});

    EXPECT_EQ(get<Session>(from).api_key, "k1");
    EXPECT_EQ(get<Session>(fork).api_key, "k2");
}

}  // namespace
}  // namespace interlock::core
