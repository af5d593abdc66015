#include "base/text.h"

#include <gtest/gtest.h>

#include <random>

namespace interlock {
namespace {

using namespace std::string_literals;

TEST(Text, utf8_is_what_rfc_3629_says) {
    for (const std::string& good : {""s, "plain"s, "Größe"s, "日本語"s, "\U0001F600"s, "\U0010FFFF"s, "a\0b"s,
                                    "sixteen ASCII bytes and then é"s, "\xED\x9F\xBF"s, "\xEE\x80\x80"s}) {
        EXPECT_TRUE(is_utf8(good)) << good;
        EXPECT_EQ(as_utf8(good), good);
    }
    for (const std::string& bad : {"\xFF"s, "\xC0\x80"s, "\xC1\xBF"s, "\xE0\x9F\xBF"s, "\xED\xA0\x80"s,
                                   "\xF0\x8F\xBF\xBF"s, "\xF4\x90\x80\x80"s, "\xF5\x80\x80\x80"s, "\x80"s, "\xC3"s,
                                   "a\xE2\x82"s, "\xE2\x28\xA1"s, "sixteen ASCII bytes and then \xC3("s}) {
        EXPECT_FALSE(is_utf8(bad));
        EXPECT_FALSE(is_line(bad));
        EXPECT_TRUE(is_utf8(as_utf8(bad)));
    }
    EXPECT_EQ(as_utf8("a\xFF\xFE"
                      "b"),
              "a\uFFFD\uFFFDb");
}

TEST(Text, a_bad_byte_is_found_wherever_it_is) {
    for (std::size_t size = 1; size < 40; ++size) {
        for (std::size_t at = 0; at < size; ++at) {
            std::string text(size, 'x');
            text[at] = '\xFF';
            EXPECT_FALSE(is_utf8(text)) << size << ' ' << at;
            EXPECT_FALSE(is_line(text)) << size << ' ' << at;
        }
    }
}

TEST(Text, each_byte_is_judged_alike_wherever_it_is) {
    for (std::size_t size = 1; size < 20; ++size) {
        for (std::size_t at = 0; at < size; ++at) {
            for (int byte = 0; byte < 256; ++byte) {
                for (const char other : {' ', 'x', '~'}) {
                    std::string text(size, other);
                    text[at] = static_cast<char>(byte);
                    ASSERT_EQ(is_line(text), byte >= 0x20 && byte < 0x7F) << size << ' ' << at << ' ' << byte;
                }
            }
        }
    }
}

TEST(Text, a_line_has_nothing_that_a_terminal_acts_on) {
    for (const std::string& bad : {"a\nb"s, "\x1B[2J"s, "\0"s, "\x7F"s, "\u0080"s,
                                   "\u009B"
                                   "2J"s,
                                   "\u2028"s, "\u2029"s, "\u202A"s, "a\u202Eb"s, "\u2066"s, "\u2069"s, "\r"s}) {
        EXPECT_FALSE(is_line(bad));
        EXPECT_TRUE(is_utf8(bad));
        EXPECT_TRUE(is_line(as_line(bad)));
    }
    for (const std::string& good :
         {""s, "to be done"s, "\u00A0"s, "für später"s, "\u2027\u202F\u2065\u206A"s, "\u200F"s}) {
        EXPECT_TRUE(is_line(good));
    }
    EXPECT_EQ(as_line("one\ntwo\t\x1B[2J\xFF"), "one two \uFFFD[2J\uFFFD");
}

TEST(Text, any_text_that_is_mended_is_good) {
    std::mt19937 random(1);
    for (int i = 0; i < 20'000; ++i) {
        std::string bytes(random() % 24, '\0');
        for (char& c : bytes) c = static_cast<char>(random() % 3 == 0 ? 0x80 + random() % 0x80 : random() % 0x80);
        ASSERT_TRUE(is_utf8(as_utf8(bytes)));
        ASSERT_TRUE(is_line(as_line(bytes)));
    }
}

TEST(Text, a_cut_is_never_inside_a_character) {
    EXPECT_EQ(cut_text("aé", 2), "a");
    EXPECT_EQ(cut_text("aé", 3), "aé");
    EXPECT_EQ(cut_text("日本", 5), "日");
}

}  // namespace
}  // namespace interlock
