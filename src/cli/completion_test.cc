#include "cli/completion.h"

#include <gtest/gtest.h>

#include <fstream>

#include "cli/cli_test_support.h"

namespace interlock::cli {
namespace {

const std::vector<CliCommand> others{
    {.words = {"up"}, .summary = "Start a server", .flags = {{.name = "port"}, {.name = "ready-fd", .hidden = true}}}};

class EveryShell : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Shells, EveryShell, testing::Values("bash", "zsh", "fish"));

TEST_P(EveryShell, knows_every_noun_verb_and_flag) {
    const std::string script = *completion_script(GetParam(), others);
    const bool fish = GetParam() == "fish";

    for (const CliCommand& command : commands()) {
        if (command.hidden && command.words[0] != "__complete") continue;  // Their words are common.
        for (const std::string& word : command.words) {
            EXPECT_NE(script.find(word), std::string::npos) << command.name();
        }
        for (const Flag& flag : all_flags(command)) {
            if (flag.hidden) continue;
            EXPECT_NE(script.find(fish ? "-l " + flag.name : "--" + flag.name), std::string::npos) << flag.name;
        }
    }
    EXPECT_EQ(script.find("queue-for"), std::string::npos) << "an old name";
    EXPECT_EQ(script.find("ready-fd"), std::string::npos) << "a hidden flag";
    EXPECT_NE(script.find("up"), std::string::npos);
    EXPECT_NE(script.find(fish ? "-l port" : "--port"), std::string::npos);
}

TEST_P(EveryShell, asks_the_program_for_names) {
    EXPECT_NE(completion_script(GetParam(), others)->find("interlock __complete"), std::string::npos);
}

TEST(Completion, there_is_none_for_other_shells) { EXPECT_FALSE(completion_script("tcsh", others)); }

// The script in a real shell, with a stand-in for the program that knows two agents.
class InBash : public CliTest {
 protected:
    std::string completes(const std::string& line) {
        const std::string path = directory() + "/script";
        std::ofstream(path) << "interlock() { [[ $2 == agents ]] && printf 'coder\\nreviewer\\n$(touch pwned)\\n'; }\n"
                            << *completion_script("bash", others) << "COMP_WORDS=(" << line << ")\n"
                            << "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_interlock\necho \"${COMPREPLY[*]}\"\n";
        std::FILE* shell = popen(("bash --norc " + path + " 2>&1").c_str(), "r");
        char text[4096] = {};
        const std::size_t length = std::fread(text, 1, sizeof text - 1, shell);
        pclose(shell);
        return std::string(text, length);
    }
};

TEST_F(InBash, nouns_verbs_flags_values_and_names_are_completed) {
    EXPECT_EQ(completes("interlock ag"), "agents\n");
    EXPECT_EQ(completes("interlock u"), "up upstreams users\n");
    EXPECT_EQ(completes("interlock agents p"), "put pause\n");
    EXPECT_EQ(completes("interlock agents show c"), "coder\n");
    EXPECT_EQ(completes("interlock budgets put daily --window m"), "month\n");
    EXPECT_EQ(completes("interlock runs ls --agent r"), "reviewer\n");
    EXPECT_EQ(completes("interlock runs start coder --on-c"), "--on-conflict\n");
}

TEST_F(InBash, a_name_from_the_server_is_never_run) {
    EXPECT_EQ(completes("interlock agents show"
                        " \\$"),
              "\\$\\(touch\\ pwned\\)\n");
    EXPECT_FALSE(std::filesystem::exists("pwned"));
}

}  // namespace
}  // namespace interlock::cli
