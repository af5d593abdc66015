#include "server/verify_command.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <variant>

#include "engine/embedded.h"

namespace interlock::server {
namespace {

// What a command wrote.
class Captured {
 public:
    Captured()
        : output_{.out = open_memstream(&out_, &out_size_),
                  .err = open_memstream(&err_, &err_size_),
                  .styled = false,
                  .progress = false} {}
    ~Captured() {
        std::fclose(output_.out);
        std::fclose(output_.err);
        std::free(out_);
        std::free(err_);
    }
    Captured(const Captured&) = delete;
    Captured& operator=(const Captured&) = delete;

    cli::CliOutput& output() { return output_; }
    std::string out() { return std::fflush(output_.out), std::string(out_, out_size_); }
    std::string err() { return std::fflush(output_.err), std::string(err_, err_size_); }

 private:
    char* out_ = nullptr;
    char* err_ = nullptr;
    std::size_t out_size_ = 0;
    std::size_t err_size_ = 0;
    cli::CliOutput output_;
};

class VerifyCommand : public testing::Test {
 protected:
    VerifyCommand() {
        std::string pattern = (std::filesystem::temp_directory_path() / "interlock_verify_XXXXXX").string();
        directory_ = mkdtemp(pattern.data());
    }
    ~VerifyCommand() override { std::filesystem::remove_all(directory_); }

    std::unique_ptr<engine::Embedded> open_server() {
        engine::Embedded::Options options;
        options.directory = directory_;
        auto opened = engine::Embedded::open(options);
        EXPECT_TRUE(opened) << opened.error().detail;
        return std::move(*opened);
    }

    template <class Body>
    auto ask(engine::Embedded& server, Body body) {
        core::Command command;
        command.body = std::move(body);
        const auto answer = server.ask(std::move(command));
        EXPECT_TRUE(answer);
        return answer->reply;
    }

    // One of everything, through the front door.
    void live_a_little(engine::Embedded& server) {
        ask(server, core::PutAgent{.name = "coder", .command = {}, .max_concurrent_runs = 3, .tags = {}});
        ask(server, core::PutAgent{.name = "writer", .command = {}, .max_concurrent_runs = 1, .tags = {}});
        ask(server, core::SetCap{core::CapKind::org, "", 4});
        for (const auto& [name, metric, limit] : {std::tuple("money", core::Metric::usd, std::int64_t{1'000'000}),
                                                  std::tuple("tokens", core::Metric::tokens, std::int64_t{100'000}),
                                                  std::tuple("starts", core::Metric::runs, std::int64_t{10})}) {
            core::PutBudget budget;
            budget.name = name;
            budget.metric = metric;
            budget.limit_units = limit;
            ask(server, budget);
        }
        const core::SessionId session(server.fresh_id());
        ask(server, core::CreateSession{.session = session, .agent = "coder", .title = {}, .metadata = {}});
        core::Append turn;
        turn.session = session;
        for (int i = 0; i < 3; ++i) {
            turn.messages.push_back({.id = core::MessageId(server.fresh_id()),
                                     .role = "user",
                                     .content = "hello",
                                     .metadata = {},
                                     .input_tokens = 5});
        }
        EXPECT_EQ(std::get<core::AppendReply>(ask(server, turn)).status, core::AppendStatus::appended);
        const core::ForkSession fork{
            .from = session, .at_seq = 1, .session = core::SessionId(server.fresh_id()), .title = {}};
        EXPECT_EQ(std::get<core::SessionReply>(ask(server, fork)).status, core::SessionStatus::done);

        core::AdmitRun admit;
        admit.run = core::RunId(server.fresh_id());
        admit.who.agent = "coder";
        admit.places = {{.kind = core::ClaimKind::workspace, .host = "mill", .path = "/repo", .chain = {"8:2"}}};
        admit.hold.usd = 5'000;
        const auto admitted = std::get<core::AdmitReply>(ask(server, admit));
        EXPECT_EQ(admitted.status, core::AdmitStatus::admitted);
        admit.run = core::RunId(server.fresh_id());
        admit.on_conflict = core::OnConflict::queue;
        EXPECT_EQ(std::get<core::AdmitReply>(ask(server, admit)).status, core::AdmitStatus::queued);

        core::Charge charge;
        charge.who.agent = "coder";
        charge.who.session = session;
        charge.who.provider = "anthropic";
        charge.cost = Money::nanos(700);
        charge.usage.input_tokens = 70;
        for (int i = 0; i < 20; ++i) ask(server, charge);
        charge.who.run = admitted.run;
        charge.cost = Money::nanos(200);
        ask(server, charge);

        core::Reserve reserve;
        reserve.hold = core::HoldId(server.fresh_id());
        reserve.who.agent = "writer";
        reserve.bound = {.usd = 900, .tokens = 50};
        ask(server, reserve);
        ask(server, core::SettleHold{.hold = reserve.hold, .cost = Money::nanos(850), .usage = {}, .price = {}});
        reserve.hold = core::HoldId(server.fresh_id());
        reserve.who.agent = "coder";
        reserve.who.run = admitted.run;
        EXPECT_EQ(std::get<core::ReserveReply>(ask(server, reserve)).status, core::ReserveStatus::held);  // Stays open.
    }

    void sql(const std::string& statements) {
        sqlite3* db = nullptr;
        ASSERT_EQ(sqlite3_open((directory_ + "/interlock.db").c_str(), &db), SQLITE_OK);
        char* error = nullptr;
        EXPECT_EQ(sqlite3_exec(db, statements.c_str(), nullptr, nullptr, &error), SQLITE_OK)
            << (error == nullptr ? "" : error);
        sqlite3_free(error);
        sqlite3_close(db);
    }

    VerifyExit run(VerifyOptions options = {}) {
        options.store.text = directory_;
        captured_.emplace();
        return verify_command(options, captured_->output());
    }
    std::string out() { return captured_->out(); }
    std::string err() { return captured_->err(); }

    std::string directory_;
    std::optional<Captured> captured_;
};

TEST_F(VerifyCommand, a_store_is_clean_while_its_server_runs_and_after_it_has_gone) {
    auto server = open_server();
    live_a_little(*server);

    EXPECT_EQ(run(), VerifyExit::clean) << out() << err();

    server.reset();
    EXPECT_EQ(run(), VerifyExit::clean) << out() << err();
    EXPECT_NE(out().find("every guarantee holds (1 org, 22 cost events"), std::string::npos) << out();
}

TEST_F(VerifyCommand, a_violation_fails_and_names_its_row) {
    auto server = open_server();
    live_a_little(*server);
    server.reset();
    sql("update agent_totals set settled = settled + 1 where agent = 'coder'");

    EXPECT_EQ(run(), VerifyExit::violations);

    EXPECT_NE(out().find("FAILED  P1    exact ledger"), std::string::npos) << out();
    EXPECT_NE(out().find("agent_totals: org=1 and agent='coder'"), std::string::npos) << out();
    EXPECT_NE(out().find("settled is 14201, its cost events say 14200"), std::string::npos) << out();
    EXPECT_NE(out().find("ok      P2    hard ceiling"), std::string::npos) << out();
    EXPECT_NE(out().find("1 guarantee violated, 1 violation"), std::string::npos) << out();
    EXPECT_NE(out().find("--repair"), std::string::npos) << out();
}

TEST_F(VerifyCommand, repair_rebuilds_the_counters_and_says_what_it_changed) {
    auto server = open_server();
    live_a_little(*server);
    server.reset();
    sql("update agent_totals set settled = 3 where agent = 'coder'; delete from rollups where agent = 'writer'; "
        "insert into rollups select org, 7, agent, provider, model, cost, events, calls, 0, 0, 0, 0, 0, 0 from "
        "rollups; "
        "update budget_windows set settled = 0, held = 1 where budget = 'money'; update sessions set events = 5; "
        "update runs set settled = 0 where events > 0");

    EXPECT_EQ(run({.store = {}, .repair = true}), VerifyExit::clean) << out() << err();

    EXPECT_NE(out().find("changed agent_totals: org=1 and agent='coder'\n    settled 3 -> 14200"), std::string::npos)
        << out();
    EXPECT_NE(out().find("added rollups: org=1 and day="), std::string::npos) << out();
    EXPECT_NE(out().find("removed rollups: org=1 and day=7"), std::string::npos) << out();
    EXPECT_EQ(run(), VerifyExit::clean) << out() << err();
}

TEST_F(VerifyCommand, repair_leaves_alone_what_cannot_be_derived) {
    auto server = open_server();
    live_a_little(*server);
    server.reset();
    sql("delete from messages where seq = 1; update agent_totals set settled = 3 where agent = 'coder'");

    EXPECT_EQ(run({.store = {}, .repair = true}), VerifyExit::violations);

    EXPECT_NE(out().find("settled 3 -> 14200"), std::string::npos) << out();
    EXPECT_NE(out().find("FAILED  P4"), std::string::npos) << out();
    EXPECT_NE(out().find("ok      P1"), std::string::npos) << out();
}

TEST_F(VerifyCommand, a_clean_store_needs_no_repair) {
    auto server = open_server();
    live_a_little(*server);
    server.reset();

    EXPECT_EQ(run({.store = {}, .repair = true}), VerifyExit::clean) << out() << err();

    EXPECT_NE(out().find("nothing to repair"), std::string::npos) << out();
}

TEST_F(VerifyCommand, a_store_with_a_running_server_is_not_repaired) {
    auto server = open_server();
    live_a_little(*server);

    EXPECT_EQ(run({.store = {}, .repair = true}), VerifyExit::could_not_verify);

    EXPECT_NE(err().find("cannot verify"), std::string::npos) << err();
    EXPECT_EQ(run(), VerifyExit::clean) << out() << err();
}

TEST_F(VerifyCommand, programs_get_one_json_object) {
    auto server = open_server();
    live_a_little(*server);
    server.reset();
    sql("update agent_totals set settled = 3 where agent = 'coder'");

    EXPECT_EQ(run({.store = {}, .json = true}), VerifyExit::violations);
    const auto found = boost::json::parse(out()).as_object();
    EXPECT_EQ(run({.store = {}, .repair = true, .json = true}), VerifyExit::clean);
    const auto repaired = boost::json::parse(out()).as_object();

    EXPECT_FALSE(found.at("ok").as_bool());
    EXPECT_EQ(found.at("violations").as_int64(), 1);
    EXPECT_EQ(found.at("cost_events").as_int64(), 22);
    EXPECT_EQ(found.at("promises").as_array().size(), 11u);
    const auto& ledger = found.at("promises").as_array().at(0).as_object();
    EXPECT_EQ(ledger.at("id").as_string(), "P1");
    EXPECT_EQ(ledger.at("examples").as_array().at(0).at("row").as_string(), "agent_totals: org=1 and agent='coder'");
    EXPECT_TRUE(repaired.at("ok").as_bool());
    const auto& change = repaired.at("repaired").as_array().at(0).at("columns").as_array().at(0).as_object();
    EXPECT_EQ(change.at("from").as_int64(), 3);
    EXPECT_EQ(change.at("to").as_int64(), 14200);
}

TEST_F(VerifyCommand, an_empty_directory_is_no_store_and_does_not_become_one) {
    EXPECT_EQ(run(), VerifyExit::could_not_verify);
    EXPECT_NE(err().find("is there a store in this directory?"), std::string::npos) << err();
    EXPECT_EQ(run({.store = {}, .repair = true}), VerifyExit::could_not_verify);
    EXPECT_EQ(run({.store = {}, .json = true}), VerifyExit::could_not_verify);
    EXPECT_TRUE(boost::json::parse(out()).as_object().contains("error"));

    EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(VerifyCommand, a_file_that_is_not_ours_is_left_as_it_is) {
    const std::string content = "this is a letter to my grandmother, not a database at all. " + std::string(5000, '.');
    std::ofstream(directory_ + "/interlock.db") << content;

    EXPECT_EQ(run(), VerifyExit::could_not_verify);
    EXPECT_EQ(run({.store = {}, .repair = true}), VerifyExit::could_not_verify);

    std::ifstream file(directory_ + "/interlock.db");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), content);
}

TEST_F(VerifyCommand, a_store_of_a_later_version_is_left_to_that_version) {
    open_server().reset();
    sql("pragma user_version = 4711");

    EXPECT_EQ(run(), VerifyExit::could_not_verify);
    EXPECT_EQ(run({.store = {}, .repair = true}), VerifyExit::could_not_verify);
}

TEST(PromiseTable, is_marked_for_people_and_plain_for_pipes) {
    verify::Report report;
    report.promises = {{verify::Promise::exact_ledger, "P1", "exact ledger", "counters", 1'234'567, 0, {}, {}},
                       {verify::Promise::caps,
                        "P6",
                        "caps",
                        "caps in use",
                        2,
                        3,
                        {{verify::Promise::caps, "caps: org=1", "too many"}},
                        {"a note"}}};
    cli::CliOutput plain;
    cli::CliOutput styled;
    styled.styled = true;

    const std::string for_pipes = promise_table(report, std::chrono::milliseconds(1500), plain);
    const std::string for_people = promise_table(report, std::chrono::milliseconds(1500), styled);

    EXPECT_EQ(for_pipes,
              "ok      P1    exact ledger     1,234,567 counters\n"
              "FAILED  P6    caps                     2 caps in use  3 violations\n"
              "         caps: org=1\n"
              "             too many\n"
              "         and 2 more\n"
              "         note: a note\n"
              "\n"
              "1 guarantee violated, 3 violations (0 orgs, 0 cost events, 1.50 s)\n");
    EXPECT_NE(for_people.find("\x1b[32m✓\x1b[0m  P1"), std::string::npos) << for_people;
    EXPECT_NE(for_people.find("\x1b[31m✗\x1b[0m  P6"), std::string::npos) << for_people;
}

}  // namespace
}  // namespace interlock::server
