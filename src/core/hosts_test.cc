#include "core/hosts.h"

#include <gtest/gtest.h>

#include "core/core_runs_support.h"

namespace interlock::core {
namespace {

TEST(Hosts, a_name_is_read_in_lower_case_and_without_a_dot_at_its_end) {
    EXPECT_EQ(host_name_from("Example.ORG"), "example.org");
    EXPECT_EQ(host_name_from("example.org."), "example.org");
    EXPECT_EQ(host_name_from("localhost"), "localhost");
    EXPECT_EQ(host_name_from("a_b-c.1x.example"), "a_b-c.1x.example");
}

TEST(Hosts, what_a_resolver_takes_for_an_address_is_no_name) {
    for (const char* text :
         {"127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0X7F.0.0.1", "0177.0.0.1", "127.0.0.1.",
          "127.0.0.0x1", "[::1]", "::1", "[::ffff:127.0.0.1]", "::ffff:7f00:1", "1.example.1", "example.0x1", "0"}) {
        EXPECT_EQ(host_name_from(text), std::nullopt) << text;
        EXPECT_EQ(host_rule_from(text), std::nullopt) << text;
    }
}

TEST(Hosts, what_is_no_name_is_refused) {
    for (const char* text : {"", ".", "..", "a..b", ".a", "-a.example", "a-.example", "a b", "a/b", "user@host",
                             "a%2eb", "h\xc3\xb6st", "a:b", "*", "*.example"}) {
        EXPECT_EQ(host_name_from(text), std::nullopt) << text;
    }
    EXPECT_EQ(host_name_from(std::string(254, 'a')), std::nullopt);
    EXPECT_EQ(host_name_from(std::string(64, 'a')), std::nullopt);
    EXPECT_TRUE(host_name_from(std::string(63, 'a')));
}

TEST(Hosts, a_rule_without_a_port_stands_for_http_and_https) {
    const auto rule = host_rule_from("Example.org.");

    ASSERT_TRUE(rule);
    EXPECT_TRUE(rule->matches("example.org", 443));
    EXPECT_TRUE(rule->matches("example.org", 80));
    EXPECT_FALSE(rule->matches("example.org", 22));
    EXPECT_FALSE(rule->matches("www.example.org", 443));
    EXPECT_FALSE(rule->matches("notexample.org", 443));
}

TEST(Hosts, a_rule_with_a_port_stands_for_that_alone) {
    const auto rule = host_rule_from("example.org:8443");

    ASSERT_TRUE(rule);
    EXPECT_TRUE(rule->matches("example.org", 8443));
    EXPECT_FALSE(rule->matches("example.org", 443));
    for (const char* text : {"example.org:", "example.org:0", "example.org:65536", "example.org:-1", "example.org:443x",
                             "example.org:4 43", ":443"}) {
        EXPECT_EQ(host_rule_from(text), std::nullopt) << text;
    }
}

TEST(Hosts, a_pattern_stands_for_what_is_below_it) {
    const auto rule = host_rule_from("*.Example.org"), any = host_rule_from("*:443");

    ASSERT_TRUE(rule && any);
    EXPECT_TRUE(rule->is_pattern() && any->is_pattern());
    EXPECT_TRUE(rule->matches("a.example.org", 443));
    EXPECT_TRUE(rule->matches("a.b.example.org", 443));
    EXPECT_FALSE(rule->matches("example.org", 443));
    EXPECT_FALSE(rule->matches("aexample.org", 443));
    EXPECT_TRUE(any->matches("anything.example", 443));
    EXPECT_FALSE(any->matches("anything.example", 80));
    for (const char* text : {"*example.org", "a.*.org", "**", "*.", "*.*.org"}) {
        EXPECT_EQ(host_rule_from(text), std::nullopt) << text;
    }
}

TEST(Hosts, one_of_several_rules_is_enough) {
    const std::vector<std::string> rules{"a.example:22", "*.b.example", "127.0.0.1"};

    EXPECT_TRUE(is_allowed(rules, "a.example", 22));
    EXPECT_TRUE(is_allowed(rules, "x.b.example", 443));
    EXPECT_FALSE(is_allowed(rules, "a.example", 443));
    EXPECT_FALSE(is_allowed(rules, "127.0.0.1", 443));
    EXPECT_FALSE(is_allowed({}, "a.example", 443));
}

TEST(Hosts, a_list_is_refused_with_the_entry_that_is_wrong) {
    EXPECT_EQ(check_allowed_hosts({"a.example", "*.b.example:80", "*"}), std::nullopt);
    EXPECT_NE(check_allowed_hosts({"a.example", "10.0.0.1:80"}).value_or("").find("'10.0.0.1:80'"), std::string::npos);
    EXPECT_TRUE(check_allowed_hosts(std::vector<std::string>(257, "a.example")));
}

class ConnectionsTest : public RunsTest {
 protected:
    ConnectionsTest() { make_agent("ada"); }
};

TEST_F(ConnectionsTest, a_connection_is_one_event_of_its_run_also_when_the_run_has_ended) {
    const Owned owned = admit(asking("ada"));
    RecordConnection connection{.run = owned.run, .host = "a.example", .port = 443, .bytes_out = 7, .bytes_in = 9};

    EXPECT_EQ(apply(connection).status, RunStatus::done);
    finish(owned);
    connection.outcome = ConnectionOutcome::not_public;
    connection.host = "[::1]";
    EXPECT_EQ(apply(connection).status, RunStatus::done);

    const auto events = told<ConnectionEnded>();
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].run, owned.run);
    EXPECT_EQ(events[0].agent, "ada");
    EXPECT_EQ(events[0].host, "a.example");
    EXPECT_EQ(events[0].bytes_out + events[0].bytes_in, 16);
    EXPECT_EQ(events[1].outcome, ConnectionOutcome::not_public);
}

TEST_F(ConnectionsTest, what_makes_no_sense_is_refused) {
    const Owned owned = admit(asking("ada"));
    const RecordConnection good{.run = owned.run, .host = "a.example", .port = 443};
    const auto status_with = [&](auto change) {
        RecordConnection bad = good;
        change(bad);
        return apply(bad).status;
    };

    EXPECT_EQ(status_with([](auto& bad) { bad.host = std::string(129, 'a'); }), RunStatus::invalid_request);
    EXPECT_EQ(status_with([](auto& bad) { bad.port = 0; }), RunStatus::invalid_request);
    EXPECT_EQ(status_with([](auto& bad) { bad.port = 65'536; }), RunStatus::invalid_request);
    EXPECT_EQ(status_with([](auto& bad) { bad.bytes_in = -1; }), RunStatus::invalid_request);
    EXPECT_EQ(status_with([](auto& bad) { bad.run = RunId(Id{9, 9}); }), RunStatus::run_not_found);
    EXPECT_TRUE(told<ConnectionEnded>().empty());
}

}  // namespace
}  // namespace interlock::core
