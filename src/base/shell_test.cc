#include "base/shell.h"

#include <gtest/gtest.h>

namespace interlock {
namespace {

TEST(Shell, what_means_something_to_a_shell_is_quoted) {
    EXPECT_EQ(shell_word("openai/gpt-5.1:latest"), "openai/gpt-5.1:latest");
    EXPECT_EQ(shell_word(""), "''");
    EXPECT_EQ(shell_word("a b"), "'a b'");
    EXPECT_EQ(shell_word("it's"), R"('it'\''s')");
    for (const char* word : {"$(touch x)", "`x`", "a;b", "a&b", "a|b", "*", "?", "~", "#", "!x", "a\\b", "{a,b}", "=ls",
                             "<x", ">x", "\"x", "[a]", "ü"}) {
        EXPECT_EQ(shell_word(word), "'" + std::string(word) + "'");
    }
    EXPECT_EQ(shell_word("a\nb\x1B[2J"), "'a b\uFFFD[2J'");
}

TEST(Shell, a_command_is_its_words) {
    EXPECT_EQ(shell_command({"interlock", "prices", "set", "acme/$(id)", "--input", "DOLLARS"}),
              "interlock prices set 'acme/$(id)' --input DOLLARS");
}

}  // namespace
}  // namespace interlock
