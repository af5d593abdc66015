#include "cli/apply_files.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "cli/view.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

class ApplyFilesTest : public testing::Test {
 protected:
    ApplyFilesTest() {
        char path[] = "/tmp/interlock-apply-XXXXXX";
        directory_ = mkdtemp(path);
    }
    ~ApplyFilesTest() override { std::filesystem::remove_all(directory_); }

    void write(const std::string& name, const std::string& text) {
        const std::filesystem::path path = std::filesystem::path(directory_) / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    ApplyFiles read() { return read_apply_files(directory_, "/users/me"); }
    // "agents/coder.yaml:3:5: what (hint)" for each mistake.
    std::string mistakes() {
        std::string all;
        for (const Mistake& one : read().mistakes) {
            all += fmt::format("{}:{}:{}: {}", one.file.substr(directory_.size() + 1), one.at.line, one.at.column,
                               one.what);
            all += one.hint.empty() ? "\n" : " (" + one.hint + ")\n";
        }
        return all;
    }
    // The mistakes of one agent's file.
    std::string mistakes_of(const std::string& text) {
        write("agents/coder.yaml", text);
        return mistakes();
    }
    Wanted wanted(Kind kind, const std::string& name) {
        const ApplyFiles files = read();
        EXPECT_EQ(mistakes(), "");
        for (const Wanted& one : files.wanted) {
            if (one.kind == kind && one.name == name) return one;
        }
        ADD_FAILURE() << name << " is not wanted";
        return {};
    }
    static std::string member(const Wanted& one, std::string_view path) {
        return text_of(member_of(json::value(one.body), path));
    }

    std::string directory_;
};

TEST_F(ApplyFilesTest, an_agent_has_the_name_of_its_file_and_defaults_for_what_it_does_not_say) {
    write("agents/coder.yaml", "command: [claude, -p]\n");

    const Wanted agent = wanted(Kind::agent, "coder");
    EXPECT_EQ(member(agent, "command"), R"(["claude","-p"])");
    json::object expected = defaults_of(Kind::agent);
    expected["command"] = {"claude", "-p"};
    EXPECT_EQ(agent.body, expected);
    EXPECT_EQ(read().wanted.size(), 1u);
}

TEST_F(ApplyFilesTest, everything_can_be_said) {
    write("agents/coder.yaml", R"(name: fixer
command: claude -p "fix the tests" it\'s
workspace: src/shop
roots: [src, /srv/shop]
max_concurrent_runs: 3
provider: anthropic
capture: full
env: {LEVEL: 3, EMPTY: ""}
pass_env: [ANTHROPIC_API_KEY]
timeout: 30m
grace: 5s
nice: -5
limits: {nofile: 1024}
sandbox: {writable: [/var/cache, ~/cache]}
adapter: claude
setup: make deps
teardown: make clean
isolate: true
mode: read
on_conflict: isolate
resources: [gpu]
tags: {team: core}
retry: {tries: 3, backoff: 1m, backoff_max: 1h}
budget: {limit: 5.10, window: day, timezone: Europe/Berlin, hard: false, warn: [50, 80], on_exhausted: pause_agent}
schedule: {every: 30m, jitter: 10s, overlap: queue, missed: all, missed_max: 3, enabled: false, priority: 2, hold: 0.25}
)");

    const Wanted agent = wanted(Kind::agent, "fixer");
    EXPECT_EQ(member(agent, "command"), R"(["claude","-p","fix the tests","it's"])");
    const std::string canonical = std::filesystem::weakly_canonical(directory_).string();
    EXPECT_EQ(member(agent, "workspace"), canonical + "/src/shop");
    EXPECT_EQ(member(agent, "roots"), R"([")" + canonical + R"(/src","/srv/shop"])");
    EXPECT_EQ(member(agent, "env.LEVEL"), "3");
    EXPECT_EQ(member(agent, "capture"), "full");
    EXPECT_EQ(member(agent, "timeout_s"), "1800");
    EXPECT_EQ(member(agent, "grace_s"), "5");
    EXPECT_EQ(member(agent, "nice"), "-5");
    EXPECT_EQ(member(agent, "limits.nofile"), "1024");
    EXPECT_EQ(member(agent, "sandbox"), "true");
    EXPECT_EQ(member(agent, "sandbox_level"), "files");
    EXPECT_EQ(member(agent, "writable"), R"(["/var/cache","/users/me/cache"])");
    EXPECT_EQ(member(agent, "retry"), R"({"max_attempts":3,"backoff_s":60,"backoff_max_s":3600})");
    const Wanted budget = wanted(Kind::budget, "fixer");
    EXPECT_EQ(member(budget, "limit"), "5.10");
    EXPECT_EQ(member(budget, "scope.agent"), "fixer");
    EXPECT_EQ(member(budget, "warn"), "[50,80]");
    EXPECT_EQ(budget.at.line, 24);
    const Wanted schedule = wanted(Kind::schedule, "fixer");
    EXPECT_EQ(member(schedule, "every_s"), "1800");
    EXPECT_EQ(member(schedule, "hold"), "0.25");
    EXPECT_EQ(member(schedule, "enabled"), "false");
    EXPECT_EQ(member(schedule, "workspace"), canonical + "/src/shop") << "as its agent";
    EXPECT_EQ(member(schedule, "isolate"), "true");
}

TEST_F(ApplyFilesTest, an_amount_never_passes_through_a_float) {
    write("agents/coder.yaml", "budget: {limit: 123456789.123456789}\nschedule: {every: 1h, hold: 0.1}\n");

    EXPECT_EQ(member(wanted(Kind::budget, "coder"), "limit"), "123456789.123456789");
    EXPECT_EQ(member(wanted(Kind::schedule, "coder"), "hold"), "0.10");
    EXPECT_EQ(mistakes_of("budget: {limit: 5e2}\n"),
              "agents/coder.yaml:1:17: limit must be dollars such as 10 or 0.25, with at most nine decimals, "
              "not '5e2'\n");
}

TEST_F(ApplyFilesTest, several_agents_budgets_and_schedules) {
    write("agents/all.yml",
          "name: a\n---\nname: b\nbudget:\n  - {name: b-day, limit: 1, window: day}\n"
          "  - {name: b-tokens, limit: 1000, metric: tokens}\n"
          "schedule:\n  - {name: b-early, cron: '0 6 * * *'}\n  - {name: b-late, cron: '@daily'}\n");
    write("interlock.yaml", "name: shop\ncaps: {org: 20, provider: {anthropic: 4}, node: {a: 2}}\n");

    EXPECT_EQ(read().set, "shop");
    EXPECT_EQ(member(wanted(Kind::budget, "b-tokens"), "limit"), "1000");
    EXPECT_EQ(wanted(Kind::schedule, "b-late").agent, "b");
    EXPECT_EQ(member(wanted(Kind::cap, "provider/anthropic"), "max_live"), "4");
    EXPECT_EQ(member(wanted(Kind::cap, "org"), "max_live"), "20");
    EXPECT_EQ(read().wanted.size(), 9u);
}

TEST_F(ApplyFilesTest, without_a_directory_of_agents_the_files_are_beside_interlock_yaml) {
    write("coder.yaml", "command: x\n");
    write("interlock.yaml", "caps: {org: 1}\n");
    write(".hidden.yaml", "nonsense: [\n");
    write("readme.md", "nothing\n");

    EXPECT_EQ(read().wanted.size(), 2u);
    EXPECT_EQ(read().set, std::filesystem::weakly_canonical(directory_).string());
}

TEST_F(ApplyFilesTest, all_mistakes_of_all_files_are_found_at_once) {
    write("agents/a.yaml", "comand: x\ntimeout: soon\nretry:\n  tries: none\n");
    write("agents/b.yaml",
          "isolate: yes\nmode: wirte\n\nbudget:\n  window: day\nschedule:\n  cron: 0 9 * *\n  every: 1h\n");
    write("interlock.yaml", "caps:\n  provider:\n    anthropic: many\n");

    EXPECT_EQ(
        mistakes(),
        "interlock.yaml:3:16: the cap of provider/anthropic must be a whole number from 0 to 100000, not 'many'\n"
        "agents/a.yaml:1:1: an agent has no 'comand' (did you mean 'command'?)\n"
        "agents/a.yaml:2:10: timeout must be a time such as 90s, 30m, 2h or 1d, not 'soon'\n"
        "agents/a.yaml:4:10: max_attempts must be a whole number from 1 to 100, not 'none'\n"
        "agents/b.yaml:1:10: isolate must be true or false, not 'yes'\n"
        "agents/b.yaml:2:7: mode must be write or read, not 'wirte' (did you mean 'write'?)\n"
        "agents/b.yaml:5:3: a budget needs a limit (limit: 5.00)\n"
        "agents/b.yaml:7:3: a schedule needs either every or cron (every: 30m, or cron: \"0 9 * * mon-fri\")\n"
        "agents/b.yaml:7:9: cron: expression: 4 fields where five are needed: minute, hour, day of month, month, day "
        "of week (for example \"0 9 * * mon-fri\" or \"@daily\")\n");
}

TEST_F(ApplyFilesTest, an_old_name_is_read_like_the_new_one) {
    for (const char* const retry : {"{tries: 4}", "{max_attempts: 4}", "{tries: 4, max_attempts: 4}"}) {
        write("agents/coder.yaml", fmt::format("retry: {}\n", retry));
        EXPECT_EQ(member(wanted(Kind::agent, "coder"), "retry.max_attempts"), "4") << retry;
    }
}

TEST_F(ApplyFilesTest, each_kind_of_mistake_says_where_and_what) {
    const std::pair<const char*, const char*> cases[] = {
        {"- command: x\n", "1:1: an agent must be a map of names and values"},
        {"command: 'a b\n", "this is not YAML"},
        {"command: \"claude 'open\"\n", "1:10: command has an unclosed quote"},
        {"command: {a: b}\n", "1:10: command must be a list"},
        {"command: [[a]]\n", "1:11: each of command must be text"},
        {"name: no spaces\n", "1:7: name is not valid: 'no spaces'"},
        {"workspace: [a]\n", "1:12: workspace must be text"},
        {"max_concurrent_runs: 1.5\n", "1:22: max_concurrent_runs must be a whole number from 0 to 100000, not '1.5'"},
        {"max_concurrent_runs: -1\n", "1:22: max_concurrent_runs must be a whole number"},
        {"env: [A]\n", "1:6: env must be a map of names and texts"},
        {"env:\n  A:\n", "2:3: env.A must be text (write \"\" for an empty text)"},
        {"pass_env: HOME\n", "1:11: pass_env must be a list (write pass_env: [a, b])"},
        {"timeout: -5m\n", "1:10: timeout must be a time"},
        {"nice: 99\n", "1:7: nice must be a whole number from -20 to 19, not '99'"},
        {"limits: {nofile: many}\n", "1:18: limits.nofile must be a whole number"},
        {"sandbox: maybe\n", "1:10: sandbox must be off, guarded, files, sealed, true or false, not 'maybe'"},
        {"sandbox: {writeable: [/x]}\n", "1:11: sandbox has no 'writeable' (did you mean 'writable'?)"},
        {"sandbox: {writable: /x}\n", "1:21: writable must be a list of directories"},
        {"isolate: 'true'\n", "1:10: isolate must be true or false, not 'true'"},
        {"on_conflict: qeue\n",
         "1:14: on_conflict must be queue, refuse, replace or isolate, not 'qeue' (did you mean"},
        {"tags: {interlock.apply: x}\n", "1:8: the tag 'interlock.apply' is reserved"},
        {"tags: {'a b': x}\n", "1:8: a tag is not valid: 'a b'"},
        {"retry: 3\n",
         "1:8: retry must be a map of names and values (possible names: max_attempts, backoff, backoff_max, tries)"},
        {"retry: {tries: 3, max_attempts: 4}\n",
         "1:9: tries is the old name of max_attempts, and they have different values (write only max_attempts)"},
        {"budget: 5\n", "1:9: budget must be a map of names and values"},
        {"budget: {limit: 5, window: year}\n", "1:28: window must be month, day, week or total, not 'year'"},
        {"budget: {limit: -5}\n", "1:17: limit must be dollars"},
        {"budget: {limit: 5, timezone: Mars}\n", "1:30: 'Mars' is not a timezone"},
        {"budget: {limit: 5, warn: 50}\n", "1:26: warn must be a list of percentages (warn: [50, 80])"},
        {"budget: {limit: 5, warn: [500]}\n", "1:27: each of warn must be a whole number from 1 to 100, not '500'"},
        {"budget: {limit: 1.5, metric: runs}\n", "1:17: limit must be a whole number"},
        {"budget: [{limit: 5}, {limit: 6}]\n", "1:10: an agent with several needs a name for each budget"},
        {"schedule: {}\n", "1:11: a schedule needs either every or cron"},
        {"schedule: {cron: '61 * * * *'}\n", "1:18: cron: minute: "},
        {"limits: {threads: 5}\n", "1:10: limits has no 'threads'"},
        {"env: {INTERLOCK_KEY: x}\n", "1:7: env sets INTERLOCK_KEY, which is reserved"},
        {"schedule: {every: 0s}\n", "1:19: every must be a time"},
        {"schedule: {every: 1h, overlap: sometimes}\n", "1:32: overlap must be skip, queue, replace or allow"},
        {"schedule: {every: 1h, hold: lots}\n", "1:29: hold must be dollars"},
        {"schedule: {evry: 1h}\n", "1:12: schedule has no 'evry' (did you mean 'every'?)"},
        {"name: a\n---\ncommand: x\n", "3:1: a file with several agents needs a name for each (name: coder)"},
        {"name: a\n---\nname: a\n", "3:1: agent 'a' is defined twice"},
        {"name: a\nname: b\n", "2:1: 'name' stands here twice; the first one is on line 1"},
    };
    for (const auto& [text, expected] : cases) {
        const std::string found = mistakes_of(text);
        EXPECT_NE(found.find(expected), std::string::npos) << text << found;
        EXPECT_EQ(found.find("agents/coder.yaml:"), 0u) << text << found;
    }
}

TEST_F(ApplyFilesTest, a_file_name_that_is_no_name_and_one_that_cannot_be_read) {
    write("agents/my agent.yaml", "command: x\n");
    std::filesystem::create_directories(directory_ + "/agents/odd.yaml");
    std::filesystem::create_symlink("/nowhere/at/all", directory_ + "/agents/gone.yaml");

    const std::string found = mistakes();

    EXPECT_NE(found.find("agents/gone.yaml:1:1: this file cannot be read"), std::string::npos) << found;
    EXPECT_NE(found.find("agents/odd.yaml:1:1: this file cannot be read"), std::string::npos) << found;
    EXPECT_NE(found.find("agents/my agent.yaml:1:1: the file's name, which names the agent, is not valid: 'my agent'"),
              std::string::npos)
        << found;
}

TEST(ShellWordsTest, quotes_and_backslashes_and_nothing_else) {
    using Words = std::vector<std::string>;
    EXPECT_EQ(shell_words("a  b\tc"), (Words{"a", "b", "c"}));
    EXPECT_EQ(shell_words(R"(a 'b c' "d e")"), (Words{"a", "b c", "d e"}));
    EXPECT_EQ(shell_words(R"(a'b'"c" '' "")"), (Words{"abc", "", ""}));
    EXPECT_EQ(shell_words(R"(a\ b "\"\\\n" '\')"), (Words{"a b", "\"\\\\n", "\\"}));
    EXPECT_EQ(shell_words("echo $HOME *.c `x`; rm"), (Words{"echo", "$HOME", "*.c", "`x`;", "rm"}));
    EXPECT_EQ(shell_words(""), Words{});
    EXPECT_EQ(shell_words("   "), Words{});
    EXPECT_FALSE(shell_words("a 'b").has_value());
    EXPECT_FALSE(shell_words("a \"b").has_value());
    EXPECT_FALSE(shell_words("a \\").has_value());
}

}  // namespace
}  // namespace interlock::cli
