#include "net/http.h"

#include <gtest/gtest.h>

namespace interlock::net {
namespace {

using Segments = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

TEST(Http, a_path_is_split_before_it_is_decoded) {
    EXPECT_EQ(path_segments("/"), Segments());
    EXPECT_EQ(path_segments("/a"), Segments({"a"}));
    EXPECT_EQ(path_segments("/a/b%20c/"), Segments({"a", "b c"}));
    EXPECT_EQ(path_segments("/a%2Fb/c+d"), Segments({"a/b", "c+d"}));
    EXPECT_EQ(path_segments("/%E2%82%AC"), Segments({"\xE2\x82\xAC"}));
}

TEST(Http, a_path_that_is_not_beyond_doubt_has_no_segments) {
    for (const char* path : {"", "a", "//", "/a//b", "/a//", "/.", "/a/../b", "/%2e%2E", "/a%", "/a%2", "/a%zz",
                             "/a%00", "/a%0a", "/%7f", "/%ff", "/%c0%80", "/%ed%a0%80", "/%f4%90%80%80", "/%e2%82"}) {
        EXPECT_EQ(path_segments(path), std::nullopt) << path;
    }
}

TEST(Http, a_query_is_pairs) {
    EXPECT_EQ(query_pairs(""), Pairs());
    EXPECT_EQ(query_pairs("a=1&b=x+y&c"), Pairs({{"a", "1"}, {"b", "x y"}, {"c", ""}}));
    EXPECT_EQ(query_pairs("a=1=2&a=%26%3D%2B"), Pairs({{"a", "1=2"}, {"a", "&=+"}}));
}

TEST(Http, a_query_that_is_not_beyond_doubt_has_no_pairs) {
    for (const char* query : {"&", "a&&b", "=1", "a=%", "a=%4", "a=%g1", "%zz=1", "a=%00", "a=%ff"}) {
        EXPECT_EQ(query_pairs(query), std::nullopt) << query;
    }
}

TEST(Http, a_problem_says_what_is_wrong_in_json) {
    const Response response = problem(404, "not_found", "no \"x\\y\"\n\x01\xFF\xC3\xA4");

    EXPECT_EQ(response.status, 404);
    EXPECT_EQ(response.content_type, "application/problem+json");
    EXPECT_EQ(response.body, R"({"type":"about:blank","title":"Not Found","status":404,"code":"not_found",)"
                             R"("detail":"no \"x\\y\"\u000a\u0001\ufffd)"
                             "\xC3\xA4\"}");
}

TEST(Http, header_names_are_tokens_in_lower_case_and_values_have_no_control_characters) {
    for (const char* name : {"x-a", "x_cache", "x.y", "a!#$%&'*+-.^_`|~9"}) EXPECT_TRUE(is_header_name(name)) << name;
    for (const char* name : {"", "X-A", "a b", "a:b", "a\r\nb", "caf\xc3\xa9", "a(b)", "a\x7f"}) {
        EXPECT_FALSE(is_header_name(name)) << name;
    }
    EXPECT_TRUE(is_header_value("a \t\xff"));
    EXPECT_FALSE(is_header_value("a\nb"));
    EXPECT_FALSE(is_header_value(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace interlock::net
