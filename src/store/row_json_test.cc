#include "store/row_json.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "store/sample_rows.h"

namespace interlock::store {
namespace {

template <class T>
std::string json(const T& value) {
    std::string out;
    write_json(out, value);
    return out;
}

TEST(SqliteJson, values_are_written_compactly) {
    EXPECT_EQ(json(core::Tags{}), "{}");
    EXPECT_EQ(json(core::Tags{{"team", "red"}, {"x", ""}}), R"({"team":"red","x":""})");
    EXPECT_EQ(json(std::vector<std::int32_t>{50, -1}), "[50,-1]");
    EXPECT_EQ(json(std::vector<core::HoldPart>{{"daily", from_micros(7), 5, 1}}),
              R"([{"budget":"daily","window":7,"amount":5,"drawn":1}])");
    EXPECT_EQ(json(std::vector<core::Place>{{.host = "h", .path = "/p", .chain = {"1:2"}}}),
              R"([{"kind":"workspace","host":"h","path":"/p","chain":["1:2"],"mode":"write"}])");
}

TEST(SqliteJson, a_scope_has_only_what_it_states) {
    core::Scope scope;
    EXPECT_EQ(json(scope), "{}");
    scope.model = "m";
    scope.run = core::RunId(Id{0x0123456789abcdef, 0xff});
    EXPECT_EQ(json(scope), R"({"model":"m","run":"0123456789abcdef00000000000000ff"})");
}

TEST(SqliteJson, text_is_escaped_and_comes_back) {
    const std::string wild = sample::text(1);
    std::string back;

    EXPECT_EQ(json(std::string("\"\\\n\0", 4)), R"("\"\\\u000a\u0000")");
    ASSERT_TRUE(read_json(json(wild), back));
    EXPECT_EQ(back, wild);
}

TEST(SqliteJson, what_other_tools_write_is_read_too) {
    core::Tags tags;
    ASSERT_TRUE(read_json(" { \"a\" : \"\\u00e4\\t\\/\" ,\n\"b\":\"\\ud83d\\ude00\" } ", tags));
    EXPECT_EQ(tags, (core::Tags{{"a", "ä\t/"}, {"b", "😀"}}));

    core::HoldPart part;
    ASSERT_TRUE(read_json(R"({"amount":5,"budget":"b"})", part));
    EXPECT_EQ(part, (core::HoldPart{"b", Instant{}, 5, 0}));
}

TEST(SqliteJson, what_is_not_a_value_of_the_type_is_refused) {
    core::Tags tags;
    for (const char* text :
         {"", "{", "[]", "{\"a\"}", "{\"a\":1}", "{\"a\":\"b\"", "{\"a\":\"b\",}", "{} x", "{\"a\":\"b}",
          "{\"a\":\"\\x\"}", "{\"a\":\"\\u12\"}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\\ud800\\u0041\"}"}) {
        EXPECT_FALSE(read_json(text, tags)) << text;
    }
    std::vector<std::int32_t> numbers;
    for (const char* text : {"[1,]", "[,1]", "[1 2]", "[2147483648]", "[1.5]", "[\"1\"]"}) {
        EXPECT_FALSE(read_json(text, numbers)) << text;
    }
    core::Place place;
    EXPECT_FALSE(read_json(R"({"kind":"island"})", place));
    EXPECT_FALSE(read_json(R"({"colour":"red"})", place));
    core::Scope scope;
    EXPECT_FALSE(read_json(R"({"run":"12"})", scope));
    EXPECT_FALSE(read_json(R"({"run":"zz23456789abcdef00000000000000ff"})", scope));
    bool yes = false;
    EXPECT_FALSE(read_json("1", yes));
}

}  // namespace
}  // namespace interlock::store
