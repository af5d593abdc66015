#include "cli/transfer.h"

#include <boost/json.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "base/sha256.h"
#include "cli/cli_test_support.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

class TransferTest : public CliTest {
 protected:
    // In the order in which an export asks.
    void answers_everything() {
        server.answers(
            200,
            R"({"items":[{"name":"coder","state":"active","max_concurrent_runs":2,"command":["x"],"tags":{}}],"next":null})");
        server.answers(
            200,
            R"({"items":[{"name":"old","state":"archived","max_concurrent_runs":1},{"name":"coder","state":"active"}],"next":null})");
        server.answers(
            200,
            R"({"items":[{"kind":"org","name":"default","max_live":9,"live":0},{"kind":"provider","name":"p","max_live":3,"live":0}],"next":null})");
        server.answers(
            200, R"({"items":[{"id":"ses_1","agent":"coder","title":"t","metadata":{},"closed":true}],"next":null})");
        server.answers(
            200,
            R"({"items":[{"seq":0,"role":"user","content":"a"},{"seq":1,"role":"assistant","content":"b"}],"next":null})");
        server.answers(
            200,
            R"({"items":[{"name":"daily","scope":{"session":"ses_1"},"metric":"usd","limit":"10.00","hard":true,"window":{"kind":"day"}},
                                         {"name":"of-a-run","scope":{"run":"run_1"},"metric":"usd","limit":"1.00","window":{"kind":"total"}}],"next":null})");
        server.answers(
            200, R"({"items":[{"name":"nightly","agent":"coder","every_s":900,"cron":null,"fired":7}],"next":null})");
    }
    // What a server refuses an export must not ask for.
    static bool asks_for_pages(const HttpRequest& request) {
        return request.target.find("limit=") != std::string::npos;
    }
    std::string exported() {
        answers_everything();
        path = directory() + "/all.jsonl";
        EXPECT_EQ(run({"export"}, {.arguments = {path}}), ExitCode::ok) << err.text();
        std::ostringstream text;
        text << std::ifstream(path).rdbuf();
        EXPECT_EQ(std::ranges::count_if(server.seen, asks_for_pages), 6);
        EXPECT_EQ(server.seen.at(2).target, "/v1/caps");
        server.replies.clear();
        server.seen.clear();
        return text.str();
    }
    void rewrite(const std::string& text) { std::ofstream(path) << text; }
    std::vector<std::string> asked() const {
        std::vector<std::string> lines;
        for (const HttpRequest& request : server.seen) {
            lines.push_back(request.method + " " + request.target + (request.body.empty() ? "" : " " + request.body));
        }
        return lines;
    }

    ExitCode import(std::vector<std::string> flags = {"yes"}) {
        Invocation invocation{.arguments = {path}};
        for (const std::string& flag : flags) invocation.flags[flag] = {""};
        return run({"import"}, invocation);
    }

    std::string path;
};

TEST_F(TransferTest, an_export_ends_with_the_count_and_the_checksum_of_all_before) {
    const std::string text = exported();

    const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
    const json::value end = json::parse(text.substr(last));
    const Sha256 hash = sha256(text.substr(0, last));
    EXPECT_EQ(text_of(member_of(end, "kind")), "end");
    EXPECT_EQ(text_of(member_of(end, "sha256")), in_hex({reinterpret_cast<const char*>(hash.data()), hash.size()}));
    EXPECT_EQ(member_of(end, "lines").as_int64(), std::ranges::count(text, '\n') - 1);
}

TEST_F(TransferTest, an_export_never_writes_over_a_file) {
    exported();
    EXPECT_EQ(run({"export"}, {.arguments = {path}}), ExitCode::bad_usage);
}

TEST_F(TransferTest, an_import_makes_what_was_exported_and_maps_what_got_a_new_id) {
    exported();
    server.answers(201, R"({"id":"ses_new"})");

    EXPECT_EQ(import(), ExitCode::ok) << err.text();

    const std::vector<std::string> expected{
        R"(PUT /v1/agents/coder {"max_concurrent_runs":2,"command":["x"],"tags":{}})",
        R"(PUT /v1/agents/old {"max_concurrent_runs":1})",
        R"(PUT /v1/caps/org {"max_live":9})",
        R"(PUT /v1/caps/provider/p {"max_live":3})",
        R"(POST /v1/sessions {"agent":"coder","title":"t","metadata":{}})",
        R"(POST /v1/sessions/ses_new/messages {"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"expected_seq":0})",
        R"(PUT /v1/budgets/daily {"scope":{"session":"ses_new"},"metric":"usd","limit":"10.00","hard":true,"window":"day"})",
        R"(PUT /v1/schedules/nightly {"agent":"coder","every_s":900,"enabled":false})",
        "POST /v1/sessions/ses_new/close {}",
        "DELETE /v1/agents/old"};
    EXPECT_EQ(asked(), expected);
    EXPECT_NE(err.text().find("skipped budget of-a-run"), std::string::npos);
}

TEST_F(TransferTest, commands_that_a_file_brings_are_shown_and_asked_about) {
    exported();

    EXPECT_EQ(import({}), ExitCode::bad_usage);

    EXPECT_TRUE(server.seen.empty());
    EXPECT_NE(err.text().find("agent coder runs: x"), std::string::npos) << err.text();
    EXPECT_NE(err.text().find("schedule nightly starts agent coder every 900 s"), std::string::npos) << err.text();
    EXPECT_NE(err.text().find("--yes"), std::string::npos);
}

TEST_F(TransferTest, schedules_are_enabled_only_where_the_user_says_so) {
    exported();
    server.answers(201, R"({"id":"ses_new"})");

    EXPECT_EQ(import({"yes", "enable-schedules"}), ExitCode::ok) << err.text();

    EXPECT_EQ(asked().at(7), R"(PUT /v1/schedules/nightly {"agent":"coder","every_s":900})");
}

TEST_F(TransferTest, the_same_file_again_is_sent_under_the_same_keys) {
    exported();
    server.answers(201, R"({"id":"ses_new"})");
    import();
    const std::vector<HttpRequest> first = std::exchange(server.seen, {});

    import();

    ASSERT_EQ(server.seen.size(), first.size());
    std::set<std::string> keys;
    for (std::size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(header_of(server.seen[i], "Idempotency-Key"), header_of(first[i], "Idempotency-Key"));
        EXPECT_EQ(server.seen[i].body, first[i].body);
        keys.insert(header_of(first[i], "Idempotency-Key"));
    }
    EXPECT_EQ(keys.size(), first.size());
}

TEST_F(TransferTest, a_file_that_was_changed_or_cut_short_sends_nothing) {
    const std::string text = exported();
    std::string changed = text;
    changed.replace(changed.find("\"content\":\"a\""), 13, "\"content\":\"x\"");

    for (const std::string& broken :
         {changed, text.substr(0, text.rfind('\n', text.size() - 2) + 1), text + "{\"kind\":\"agent\"}\n",
          std::string("{\"kind\":\"agent\"}\n"), std::string("not json\n"), std::string()}) {
        rewrite(broken);
        EXPECT_EQ(import(), ExitCode::refused);
    }
    EXPECT_TRUE(server.seen.empty());
}

TEST_F(TransferTest, an_import_that_is_refused_says_at_which_line) {
    exported();
    server.answers(201, "{}");
    server.answers(409, R"({"code":"too_many","detail":"No more agents."})");

    EXPECT_EQ(import(), ExitCode::refused);

    EXPECT_NE(err.text().find("line 3 of " + path + ": No more agents."), std::string::npos) << err.text();
}

}  // namespace
}  // namespace interlock::cli
