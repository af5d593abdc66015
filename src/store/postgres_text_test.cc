#include "store/postgres_text.h"

#include <string>

#include <gtest/gtest.h>

namespace interlock::store {
namespace {

std::string escaped(std::string_view text) {
    std::string out;
    append_escaped(out, text);
    return out;
}

TEST(PostgresText, ordinary_text_is_left_as_it_is) {
    for (const std::string text : {"", "a", "line\nline\t\x01", "ä€😀", "\xF4\x8F\xBF\xBF", "\xED\x9F\xBF"}) {
        EXPECT_TRUE(is_plain_text(text)) << text;
        EXPECT_EQ(escaped(text), text);
        EXPECT_EQ(unescaped(text), text);
    }
}

TEST(PostgresText, what_postgres_refuses_is_escaped_and_comes_back) {
    const std::string nul("a\0b", 3);
    EXPECT_EQ(escaped(nul),
              "a\x7f"
              "00b");
    for (const std::string& text :
         {nul, std::string("\x7f"),
          std::string("\x7f"
                      "41"),
          std::string("\xff"), std::string("\x80"), std::string("\xC0\x80"), std::string("\xC3"),
          std::string("\xE0\x80\x80"), std::string("\xED\xA0\x80"), std::string("\xF0\x80\x80\x80"),
          std::string("\xF4\x90\x80\x80"), std::string("\xE2\x82 "), std::string("ok \xE2\x82\xAC \xE2\x82")}) {
        EXPECT_FALSE(is_plain_text(text));
        EXPECT_TRUE(escaped(text).find('\0') == std::string::npos);
        EXPECT_EQ(unescaped(escaped(text)), text);
    }
}

TEST(PostgresText, every_pair_of_bytes_comes_back) {
    for (int first = 0; first < 256; ++first) {
        for (int second = 0; second < 256; ++second) {
            const std::string text{static_cast<char>(first), static_cast<char>(second)};
            const std::string stored = is_plain_text(text) ? text : escaped(text);
            ASSERT_EQ(unescaped(stored), text) << first << " " << second;
        }
    }
}

TEST(PostgresText, a_mark_that_is_not_ours_stays) {
    EXPECT_EQ(unescaped("a\x7f"), "a\x7f");
    EXPECT_EQ(unescaped("\x7fzz"), "\x7fzz");
    EXPECT_EQ(unescaped("\x7f"
                        "4"),
              "\x7f"
              "4");
}

}  // namespace
}  // namespace interlock::store
