#include "shim/adapters.h"

#include <gtest/gtest.h>

namespace interlock::shim {
namespace {

TEST(Adapters, a_program_is_known_by_its_name_wherever_it_lies) {
    EXPECT_EQ(find_adapter("", "/usr/local/bin/claude")->name, "claude");
    EXPECT_EQ(find_adapter("", "codex")->name, "codex");
    EXPECT_EQ(find_adapter("", "claude-wrapper"), nullptr);
    EXPECT_EQ(find_adapter("", "claude/run.sh"), nullptr);
    EXPECT_EQ(find_adapter("", ""), nullptr);
}

TEST(Adapters, what_was_named_wins_over_what_the_program_is_called) {
    EXPECT_EQ(find_adapter("gemini", "claude")->name, "gemini");
    EXPECT_EQ(find_adapter("none", "claude"), nullptr);
}

TEST(Adapters, url_and_key_are_put_where_each_program_looks_for_them) {
    const auto additions = [](const char* name) {
        return gateway_additions(*find_adapter(name, ""), "http://127.0.0.1:4100/g", "ilk_a_b", "/data/runs/it");
    };

    const Additions claude = additions("claude");
    EXPECT_EQ(claude.env[0], "ANTHROPIC_BASE_URL=http://127.0.0.1:4100/g");
    EXPECT_EQ(claude.env[1], "ANTHROPIC_AUTH_TOKEN=ilk_a_b");
    EXPECT_TRUE(claude.arguments.empty());

    const Additions codex = additions("codex");
    EXPECT_EQ(codex.env, std::vector<std::string>{"INTERLOCK_API_KEY=ilk_a_b"});
    ASSERT_EQ(codex.arguments.size(), 6u);
    EXPECT_EQ(codex.arguments[1], "web_search=\"disabled\"");
    EXPECT_NE(codex.arguments[5].find("={name=\"Interlock\",base_url=\"http://127.0.0.1:4100/g/v1\","),
              std::string::npos);

    EXPECT_EQ(additions("gemini").env[0], "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4100/g");
    EXPECT_EQ(additions("opencode").env[0],
              "OPENCODE_CONFIG_CONTENT={\"provider\":{\"anthropic\":{\"options\":"
              "{\"baseURL\":\"http://127.0.0.1:4100/g/v1\",\"apiKey\":\"ilk_a_b\"}}}}");
}

TEST(Adapters, a_key_that_looks_like_a_pattern_stays_what_it_is) {
    EXPECT_EQ(gateway_additions(*find_adapter("claude", ""), "{key}", "{url}", "{key}").env[0],
              "ANTHROPIC_BASE_URL={key}");
}

}  // namespace
}  // namespace interlock::shim
