#include "api/call.h"

#include <gtest/gtest.h>

namespace interlock::api {
namespace {

Problem refused(std::string detail, std::string_view body) { return pointed(invalid(std::move(detail)), body); }

TEST(CallTest, a_refusal_points_at_the_member_that_its_sentence_begins_with) {
    EXPECT_EQ(refused("title must not be empty", R"({"agent":"ada","title":""})").pointer, "/title");
    EXPECT_EQ(refused("env: A must not have NUL bytes", R"({"env":{"A":"b"}})").pointer, "/env");

    const Problem zone = refused("zone 'Mars/Base' is not known", R"({"timezone":"Mars/Base"})");

    EXPECT_EQ(zone.pointer, "/timezone");
    EXPECT_EQ(zone.detail, "timezone 'Mars/Base' is not known");
}

TEST(CallTest, a_refusal_does_not_point_at_a_member_that_the_body_does_not_have) {
    // The word is a value, a member further down, or there is no object at all.
    EXPECT_EQ(refused("title must not be empty", R"({"agent":"title"})").pointer, "");
    EXPECT_EQ(refused("content is not UTF-8", R"({"messages":[{"content":""}]})").pointer, "");
    EXPECT_EQ(refused("title must not be empty", R"(["title"])").pointer, "");
    EXPECT_EQ(refused("title must not be empty", "").pointer, "");
    EXPECT_EQ(refused("", R"({"":1})").pointer, "");
}

TEST(CallTest, a_pointer_that_is_there_already_stays) {
    Problem problem = invalid("title must not be empty", "/0/title");

    EXPECT_EQ(pointed(std::move(problem), R"({"title":""})").pointer, "/0/title");
}

}  // namespace
}  // namespace interlock::api
