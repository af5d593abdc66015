#include "program/commands.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "cli/command_line.h"

namespace interlock::program {
namespace {

std::vector<cli::CliCommand> commands_of_a_test() {
    static std::string program = "interlock";
    static char* argv[] = {program.data(), nullptr};
    return local_commands(1, argv);
}

class LocalCommandsTest : public testing::Test {
 protected:
    LocalCommandsTest() { output_.out = output_.err = tmpfile(); }
    ~LocalCommandsTest() override { std::fclose(output_.out); }

    // The exit code, without running what parses.
    int parse(const std::string& line) {
        std::vector<std::string> words;
        std::istringstream in(line);
        for (std::string word; in >> word;) words.push_back(word);
        std::vector<const char*> argv;
        for (const std::string& word : words) argv.push_back(word.c_str());
        commands_.emplace(commands_of_a_test(), "0.1.0");
        return commands_->parse(static_cast<int>(argv.size()), argv.data(), output_).value_or(0);
    }
    // Only for what is refused before it starts.
    int run(const std::string& line) {
        const int parsed = parse(line);
        return parsed != 0 ? parsed : commands_->run({}, output_);
    }

    cli::CliOutput output_;
    std::optional<cli::CommandLine> commands_;
};

TEST_F(LocalCommandsTest, every_command_has_examples_that_parse) {
    for (const cli::CliCommand& command : commands_of_a_test()) {
        if (command.hidden) continue;
        EXPECT_FALSE(command.examples.empty()) << command.name();
        for (const cli::Example& example : command.examples) {
            EXPECT_TRUE(example.line.starts_with("interlock " + command.name())) << example.line;
            EXPECT_EQ(parse(example.line.substr(0, example.line.find(" > "))), 0) << example.line;
        }
    }
}

TEST_F(LocalCommandsTest, no_name_is_that_of_another_command_or_flag) {
    for (const cli::CliCommand& command : commands_of_a_test()) {
        EXPECT_EQ(cli::find_command(command.words), nullptr) << command.name();
        std::set<std::string> names;
        for (const cli::Flag& flag : command.flags) EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    }
}

TEST_F(LocalCommandsTest, values_out_of_their_range_end_with_two) {
    for (const char* line :
         {"interlock up --node-lease 0.1", "interlock up --memory-pressure 101", "interlock up --sandbox-default none",
          "interlock up --log-level loud", "interlock up --threads -1", "interlock demo --agents 0",
          "interlock demo --seconds 0.5", "interlock demo --agents 1.5", "interlock simulate-upstream --chunks 0",
          "interlock simulate-upstream --delay-ms 120001", "interlock migrate --from a", "interlock down --wait x"}) {
        EXPECT_EQ(parse(line), 2) << line;
    }
    EXPECT_EQ(parse("interlock up --node-lease 0.5 --memory-pressure 0 --sandbox-default sealed --threads 0"), 0);
    EXPECT_EQ(parse("interlock demo --agents 5000 --seconds 600"), 0);
}

TEST_F(LocalCommandsTest, flags_of_the_demo_that_exclude_each_other_end_with_two) {
    for (const char* line :
         {"interlock demo --serve --gateway", "interlock demo --serve --agents 3", "interlock demo --serve --no-kill",
          "interlock demo --pace 2", "interlock demo --listen 127.0.0.1:0"}) {
        EXPECT_EQ(run(line), 2) << line;
    }
}

}  // namespace
}  // namespace interlock::program
