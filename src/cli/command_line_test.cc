#include "cli/command_line.h"

#include <set>
#include <sstream>

#include "cli/cli_test_support.h"
#include "cli/help.h"
#include "cli/request.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

// As a shell takes a line apart, without quotes.
std::vector<std::string> words_of(const std::string& line) {
    std::vector<std::string> words;
    std::istringstream in(line);
    for (std::string word; in >> word;) words.push_back(word);
    return words;
}

class CommandLineTest : public CliTest {
 protected:
    std::optional<int> parse(const std::string& line) {
        const std::vector<std::string> words = words_of("interlock " + line);
        std::vector<const char*> argv;
        for (const std::string& word : words) argv.push_back(word.c_str());
        return commands.parse(static_cast<int>(argv.size()), argv.data(), context.output);
    }
    // "POST /v1/charges {…}", or what the person is told.
    std::string request_of(const std::string& line) {
        if (const auto ended = parse(line)) return "ended " + std::to_string(*ended) + ": " + err.text();
        const auto chosen = commands.chosen();
        const auto built = build_request(chosen->command, chosen->invocation, noon, stdin);
        if (!built) return "refused: " + built.error().detail;
        return chosen->command.method + " " + built->target + (built->body.empty() ? "" : " " + built->body);
    }

    CommandLine commands{
        {{.words = {"up"},
          .summary = "Start a server",
          .flags = {{.name = "port", .value = "N", .takes = ValueType::number, .range = Range{1, 65535}},
                    {.name = "log", .value = "LEVEL", .choices = {"debug", "info"}},
                    {.name = "ready-fd", .value = "FD", .hidden = true}},
          .run = [](Context&, const Invocation& invocation) -> ExitCode {
              return static_cast<ExitCode>(invocation.number("port", 0));
          }}},
        "0.1.0"};
};

struct Line {
    std::string typed;
    std::string asked;
};

class EveryVerb : public CommandLineTest, public testing::WithParamInterface<Line> {};

TEST_P(EveryVerb, asks_the_server_for_what_was_typed) { EXPECT_EQ(request_of(GetParam().typed), GetParam().asked); }

INSTANTIATE_TEST_SUITE_P(
    Agents, EveryVerb,
    testing::Values(
        Line{"agents ls", "GET /v1/agents"}, Line{"agents ls --archived", "GET /v1/agents?archived=true"},
        Line{"agents show coder", "GET /v1/agents/coder"}, Line{"agents show status", "GET /v1/agents/status"},
        Line{"agents show a/b", "GET /v1/agents/a%2Fb"}, Line{"agents put coder", "PUT /v1/agents/coder {}"},
        Line{"agents put coder --root /srv/a/ --root /srv/./b",
             R"(PUT /v1/agents/coder {"roots":["/srv/a","/srv/b"]})"},
        Line{
            "agents put coder --max-concurrent-runs 3 --tag team=web --tag x=y=z -- claude -p --verbose",
            R"(PUT /v1/agents/coder {"command":["claude","-p","--verbose"],"max_concurrent_runs":3,"tags":{"team":"web","x":"y=z"}})"},
        Line{R"(agents put coder --tag list=[a,b] -- jq [.a,.b] [])",
             R"(PUT /v1/agents/coder {"command":["jq","[.a,.b]","[]"],"tags":{"list":"[a,b]"}})"},
        Line{"agents pause coder --reason [looking,on]", R"(POST /v1/agents/coder/pause {"reason":"[looking,on]"})"},
        Line{"agents pause coder --reason looking", R"(POST /v1/agents/coder/pause {"reason":"looking"})"},
        Line{"agents resume coder", "POST /v1/agents/coder/resume {}"},
        Line{"agents rm coder", "DELETE /v1/agents/coder"}));

INSTANTIATE_TEST_SUITE_P(
    Money, EveryVerb,
    testing::Values(
        Line{"budgets ls", "GET /v1/budgets"}, Line{"budgets show daily", "GET /v1/budgets/daily"},
        Line{
            "budgets put daily --limit $10.00 --window day --agent coder --api-key k1 --tag a=b --soft --warn 50,80",
            R"(PUT /v1/budgets/daily {"limit":"10.00","scope":{"agent":"coder","api_key":"k1","tags":{"a":"b"}},"window":"day","hard":false,"warn":[50,80]})"},
        Line{"budgets put t --metric tokens --limit 1000 --on-exhausted stop_runs",
             R"(PUT /v1/budgets/t {"limit":"1000","metric":"tokens","on_exhausted":"stop_runs"})"},
        Line{"budgets rm daily", "DELETE /v1/budgets/daily"},
        Line{"budgets unfreeze daily", "POST /v1/budgets/daily/unfreeze {}"},
        Line{"budgets windows daily --limit 7", "GET /v1/budgets/daily/windows"},
        Line{"charges ls --agent coder --from 24h", "GET /v1/charges?agent=coder&from=2026-11-14T12%3A00%3A00Z"},
        Line{"charges ls --to 2026-11-01", "GET /v1/charges?to=2026-11-01T00%3A00%3A00Z"},
        Line{
            "charges add coder 0.00075 --provider p --model m --input-tokens 5 --cache-write-5m-tokens 6 --incurred",
            R"(POST /v1/charges {"agent":"coder","cost":"0.00075","provider":"p","model":"m","usage":{"input_tokens":5,"cache_write_5m_tokens":6},"incurred":true})"},
        Line{"holds ls --status open", "GET /v1/holds?status=open"}, Line{"holds show hold_1", "GET /v1/holds/hold_1"},
        Line{"holds reserve coder 0.25 --ttl 120 --dispatched",
             R"(POST /v1/holds {"agent":"coder","amount":"0.25","ttl_s":120,"dispatched":true})"},
        Line{"holds settle hold_1 0.2 --output-tokens 8 --estimated",
             R"(POST /v1/holds/hold_1/settle {"cost":"0.2","usage":{"output_tokens":8},"estimated":true})"},
        Line{"holds release hold_1", "POST /v1/holds/hold_1/release {}"},
        Line{"holds extend hold_1 --ttl 60", R"(POST /v1/holds/hold_1/extend {"ttl_s":60})"}));

INSTANTIATE_TEST_SUITE_P(
    Sessions, EveryVerb,
    testing::Values(Line{"sessions ls --agent coder", "GET /v1/sessions?agent=coder"},
                    Line{"sessions show ses_1", "GET /v1/sessions/ses_1"},
                    Line{R"(sessions create --agent coder --title x --metadata {"a":1})",
                         R"(POST /v1/sessions {"agent":"coder","title":"x","metadata":{"a":1}})"},
                    Line{"sessions append ses_1 hello --role user --expected-seq 7",
                         R"(POST /v1/sessions/ses_1/messages {"content":"hello","role":"user","expected_seq":7})"},
                    Line{"sessions append ses_1 --role user -- --help",
                         R"(POST /v1/sessions/ses_1/messages {"content":"--help","role":"user"})"},
                    Line{"sessions messages ses_1", "GET /v1/sessions/ses_1/messages"},
                    Line{"sessions fork ses_1 --at 12", R"(POST /v1/sessions/ses_1/fork {"at_seq":12})"},
                    Line{"sessions close ses_1", "POST /v1/sessions/ses_1/close {}"}));

INSTANTIATE_TEST_SUITE_P(
    Runs, EveryVerb,
    testing::Values(
        Line{"runs ls --status running,paused --agent coder", "GET /v1/runs?status=running%2Cpaused&agent=coder"},
        Line{"runs show run_1", "GET /v1/runs/run_1"},
        Line{
            "runs start coder --workspace /srv/./app --on-conflict queue --queue 600 --resource a --resource b "
            "--priority -5 --lease 30 --hold 1.00",
            R"(POST /v1/runs {"agent":"coder","workspace":"/srv/app","resources":["a","b"],"on_conflict":"queue","queue_timeout_s":600,"priority":-5,"lease_s":30,"hold":"1.00"})"},
        Line{"runs begin run_1 --fence 3", R"(POST /v1/runs/run_1/start {"fence":3})"},
        Line{"runs heartbeat run_1 --fence 3", R"(POST /v1/runs/run_1/heartbeat {"fence":3})"},
        Line{"runs pause run_1 --fence 3", R"(POST /v1/runs/run_1/pause {"fence":3})"},
        Line{"runs pause run_1", R"(POST /v1/runs/run_1/pause {})"},
        Line{"runs resume run_1", R"(POST /v1/runs/run_1/resume {})"},
        Line{"runs retry run_1", R"(POST /v1/runs/run_1/retry {})"},
        Line{"runs ls --name nightly", "GET /v1/runs?name=nightly"},
        Line{
            "run --agent a --budget $1.50 --timeout 30m --grace 5s --limit nofile=64 --writable /tmp/./x -- make -j2",
            R"(POST /v1/runs {"command":["make","-j2"],"agent":"a","budget":"1.50","timeout_s":1800,"grace_s":5,"limits":{"nofile":64},"writable":["/tmp/x"]})"},
        Line{
            "run --agent a --sandbox=sealed --allow-host a.example --allow-host b.example:22 -- true",
            R"(POST /v1/runs {"command":["true"],"agent":"a","sandbox_level":"sealed","allowed_hosts":["a.example","b.example:22"]})"},
        Line{
            "runs finish run_1 --fence 3 --outcome succeeded --cost 0.4 --output-tokens 9",
            R"(POST /v1/runs/run_1/finish {"fence":3,"outcome":"succeeded","charge":{"cost":"0.4","usage":{"output_tokens":9}}})"},
        Line{"runs cancel run_1 --reason wrong", R"(POST /v1/runs/run_1/cancel {"reason":"wrong"})"},
        Line{"claims", "GET /v1/claims"}, Line{"claims ls", "GET /v1/claims"}, Line{"places", "GET /v1/claims"},
        Line{"places ls", "GET /v1/claims"}, Line{"claims restore run_1", "POST /v1/worktrees/run_1/restore {}"},
        Line{"places restore run_1", "POST /v1/worktrees/run_1/restore {}"},
        Line{"runs start coder --queue-timeout 10m", R"(POST /v1/runs {"agent":"coder","queue_timeout_s":600})"},
        Line{"run --agent a --queue-timeout 10m -- true",
             R"(POST /v1/runs {"command":["true"],"agent":"a","queue_timeout_s":600})"},
        Line{"run --agent a --queue-for 10m -- true",
             R"(POST /v1/runs {"command":["true"],"agent":"a","queue_timeout_s":600})"},
        Line{"agents put a --max-attempts 3", R"(PUT /v1/agents/a {"retry":{"max_attempts":3}})"},
        Line{"agents put a --tries 3", R"(PUT /v1/agents/a {"retry":{"max_attempts":3}})"},
        Line{"agents put a --run-timeout 5m", R"(PUT /v1/agents/a {"timeout_s":300})"}));

INSTANTIATE_TEST_SUITE_P(
    TheRest, EveryVerb,
    testing::Values(
        Line{"schedules ls", "GET /v1/schedules"}, Line{"schedules show nightly", "GET /v1/schedules/nightly"},
        Line{"schedules put nightly --agent coder --every 15m --jitter 30 --disabled",
             R"(PUT /v1/schedules/nightly {"agent":"coder","every":"15m","jitter_s":30,"enabled":false})"},
        Line{"schedules trigger nightly", "POST /v1/schedules/nightly/trigger {}"},
        Line{"schedules wake nightly", "POST /v1/schedules/nightly/trigger {}"},
        Line{"schedules rm nightly", "DELETE /v1/schedules/nightly"}, Line{"caps ls", "GET /v1/caps"},
        Line{"caps set org 20", R"(PUT /v1/caps/org {"max_live":20})"},
        Line{"caps set provider/a%b 5", R"(PUT /v1/caps/provider/a%25b {"max_live":5})"},
        Line{"caps rm node/build-1", "DELETE /v1/caps/node/build-1"}, Line{"keys ls", "GET /v1/keys"},
        Line{"keys create --scope agent,read --agent coder",
             R"(POST /v1/keys {"scopes":["agent","read"],"agent":"coder"})"},
        Line{"keys show self", "GET /v1/keys/self"}, Line{"keys revoke k1", "DELETE /v1/keys/k1"},
        Line{"orgs create research", R"(POST /v1/orgs {"name":"research"})"},
        Line{"orgs key research", "POST /v1/orgs/research/keys {}"}, Line{"orgs ls", "GET /v1/orgs"},
        Line{"spend --by agent,day --from 7d --to 2026-12-01",
             "GET /v1/spend?by=agent%2Cday&from=2026-11-08&to=2026-12-01"},
        Line{"budgets line daily", "GET /v1/budgets/daily/line"}, Line{"runs steps run_1", "GET /v1/runs/run_1/steps"},
        Line{"schedules ticks --schedule nightly", "GET /v1/ticks?schedule=nightly"},
        Line{"status --watch 1", "GET /v1/status"}, Line{"agents show --watch coder", "GET /v1/agents/coder"},
        Line{"backup /var/backups/a.db", R"(POST /v1/backup {"to":"/var/backups/a.db"})"}));

TEST_F(CommandLineTest, flags_of_every_command_are_understood_before_and_behind_it) {
    EXPECT_EQ(parse("--url http://a agents ls --json --key k -q"), std::nullopt);

    EXPECT_EQ(commands.settings().url, "http://a");
    EXPECT_EQ(commands.settings().key, "k");
    EXPECT_TRUE(commands.settings().json);
    EXPECT_TRUE(commands.settings().quiet);
}

TEST_F(CommandLineTest, watch_takes_its_seconds_or_two) {
    ASSERT_EQ(parse("agents ls --watch 0.5"), std::nullopt);
    EXPECT_EQ(commands.chosen()->invocation.value("watch"), "0.5");
}

TEST_F(CommandLineTest, watch_does_not_swallow_the_next_argument) {
    ASSERT_EQ(parse("agents show --watch coder"), std::nullopt);
    EXPECT_EQ(commands.chosen()->invocation.value("watch"), "2");
}

TEST_F(CommandLineTest, a_local_command_runs_with_its_flags) {
    ASSERT_EQ(parse("up --port 4101"), std::nullopt);
    EXPECT_EQ(commands.run({}, context.output, server.world()), 4101);
}

TEST_F(CommandLineTest, a_hidden_flag_is_accepted_and_not_in_the_help) {
    ASSERT_EQ(parse("up --ready-fd 3"), std::nullopt);
    EXPECT_EQ(commands.chosen()->invocation.text("ready-fd"), "3");
    EXPECT_EQ(parse("up --help"), 0);
    EXPECT_NE(out.text().find("--port N"), std::string::npos) << out.text();
    EXPECT_EQ(out.text().find("ready-fd"), std::string::npos) << out.text();
}

TEST_F(CommandLineTest, the_request_timeout_has_an_old_name_where_a_run_has_none) {
    ASSERT_EQ(parse("agents ls --timeout 2.5"), std::nullopt);
    EXPECT_EQ(commands.settings().request_timeout_s, 2.5);
}

TEST_F(CommandLineTest, a_run_has_a_timeout_besides_the_request_timeout) {
    ASSERT_EQ(parse("run --timeout 30m --request-timeout 7 -- true"), std::nullopt);
    EXPECT_EQ(commands.settings().request_timeout_s, 7);
    EXPECT_EQ(commands.chosen()->invocation.value("timeout"), "30m");
}

TEST_F(CommandLineTest, both_names_of_a_flag_with_one_value_are_one_flag) {
    EXPECT_EQ(request_of("agents put a --timeout 5m --run-timeout 5m"), R"(PUT /v1/agents/a {"timeout_s":300})");
}

TEST_F(CommandLineTest, the_help_does_not_show_old_names) {
    EXPECT_EQ(parse("agents put --help"), 0);
    EXPECT_EQ(out.text().find("--run-timeout"), std::string::npos) << out.text();
    EXPECT_EQ(out.text().find("--tries"), std::string::npos) << out.text();
}

struct Mistake {
    std::string typed;
    std::string told;
};

class BadUsage : public CommandLineTest, public testing::WithParamInterface<Mistake> {};

TEST_P(BadUsage, ends_with_two_and_says_what_to_do) {
    const std::string told = request_of(GetParam().typed);

    EXPECT_TRUE(told.starts_with("ended 2: ") || told.starts_with("refused: ")) << told;
    EXPECT_NE(told.find(GetParam().told), std::string::npos) << told;
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, BadUsage,
    testing::Values(Mistake{"", "Usage: interlock COMMAND"},
                    Mistake{"agents", "'interlock agents' needs a command: ls, show"},
                    Mistake{"agents lst", "did you mean 'interlock agents ls'?"},
                    Mistake{"agent ls", "did you mean 'interlock agents'?"},
                    Mistake{"agents ls --archive", "did you mean --archived?"},
                    Mistake{"agents ls --bogus", "'interlock agents ls --help' lists them"},
                    Mistake{"agents show", "needs NAME"}, Mistake{"agents show a b", "does not take the argument 'b'"},
                    Mistake{"budgets put daily", "needs --limit AMOUNT"},
                    Mistake{"budgets put daily --limit ten", "--limit takes an amount"},
                    Mistake{"budgets put daily --limit 1 --window dya",
                            "--window is day, week, month or total, not 'dya'"},
                    Mistake{"budgets put daily --limit 1 --warn 50,x", "--warn takes a whole number, not 'x'"},
                    Mistake{"agents put coder --tag x", "--tag takes NAME=VALUE, not 'x'"},
                    Mistake{"agents put coder --max-concurrent-runs 1.5", "takes a whole number"},
                    Mistake{"charges ls --from yesterday", "--from takes a date"},
                    Mistake{"sessions create --metadata [1]", "--metadata takes a JSON object"},
                    Mistake{"runs ls --status runing", "not 'runing'"},
                    Mistake{"run --agent a --detach --retries x -- true", "--retries takes a whole number, not 'x'"},
                    Mistake{"run --agent a --detach --max-attempts 0 -- true",
                            "--max-attempts takes a number from 1 to 1000000, not '0'"},
                    Mistake{"up --port 0", "--port takes a number from 1 to 65535, not '0'"},
                    Mistake{"up --port 99999", "--port takes a number from 1 to 65535, not '99999'"},
                    Mistake{"up --port x", "--port takes a whole number, not 'x'"},
                    Mistake{"up --log loud", "--log is debug or info, not 'loud'"},
                    Mistake{"agents ls --request-timeout 0", "--request-timeout takes a number from 0.1 to 86400"},
                    Mistake{"agents ls --timeout soon", "--request-timeout takes a number, not 'soon'"},
                    Mistake{"agents put a --timeout 5m --run-timeout 6m",
                            "--run-timeout is the old name of --timeout, and they have different values"},
                    Mistake{"runs start a --queue-timeout 5m --queue 10",
                            "--queue is the old name of --queue-timeout, and they have different values"}));

TEST_F(CommandLineTest, help_is_data_and_ends_well) {
    EXPECT_EQ(parse("runs start --help"), 0);
    EXPECT_NE(out.text().find("Usage: interlock runs start AGENT"), std::string::npos);
    EXPECT_EQ(err.text(), "");
}

TEST_F(CommandLineTest, help_fits_a_narrow_terminal) {
    for (const CliCommand& command : cli::commands()) {
        std::istringstream lines(help_of(command));
        for (std::string line; std::getline(lines, line) && line != "Examples:";) {
            if (line.starts_with("Usage: ")) continue;  // Never broken, so that it can be copied.
            EXPECT_LE(display_width(line), 80u) << command.name() << ": " << line;
        }
    }
    EXPECT_NE(help_of(*find_command({"run"})).find("\n                                created if missing)\n"),
              std::string::npos)
        << "continued below the text: " << help_of(*find_command({"run"}));
}

TEST_F(CommandLineTest, help_can_be_asked_for_in_front) {
    EXPECT_EQ(parse("help runs start"), 0);
    EXPECT_NE(out.text().find("Usage: interlock runs start AGENT"), std::string::npos);
}

TEST_F(CommandLineTest, the_overview_names_every_command_also_local_ones) {
    EXPECT_EQ(parse("--help"), 0);

    EXPECT_NE(out.text().find("Start a server"), std::string::npos);
    for (const Noun& noun : nouns())
        EXPECT_NE(out.text().find("\n  " + noun.name + " "), std::string::npos) << noun.name;
}

// An example that does not parse is worse than none.
TEST_F(CommandLineTest, every_command_has_examples_and_they_are_real) {
    for (const CliCommand& command : cli::commands()) {
        if (command.hidden) continue;
        EXPECT_FALSE(command.examples.empty()) << command.name();
        for (const Example& example : command.examples) {
            EXPECT_NE(example.line.find("interlock " + command.name()), std::string::npos) << example.line;
            std::string line = example.line.substr(example.line.find("interlock ") + 10);
            line = line.substr(0, std::min({line.find(" | "), line.find(" > "), line.rfind(')'), line.size()}));
            while (line.find('\'') != std::string::npos) {  // What is quoted is one word.
                const std::size_t open = line.find('\'');
                line.replace(open, line.find('\'', open + 1) - open + 1, "quoted");
            }
            CommandLine fresh({}, "0.1.0");
            std::vector<std::string> words = words_of("interlock " + line);
            std::vector<const char*> argv;
            for (const std::string& word : words) argv.push_back(word.c_str());
            EXPECT_EQ(fresh.parse(static_cast<int>(argv.size()), argv.data(), context.output).value_or(0), 0)
                << line << err.text();
        }
    }
}

TEST_F(CommandLineTest, no_two_commands_have_one_name_and_no_command_two_flags_of_one) {
    std::set<std::vector<std::string>> names;
    for (const CliCommand& command : cli::commands()) {
        EXPECT_TRUE(names.insert(command.words).second) << command.name();
        std::set<std::string> flags;
        for (const Flag& flag : all_flags(command)) {
            EXPECT_TRUE(flags.insert(flag.name).second) << command.name() << " --" << flag.name;
            for (const std::string& old_name : flag.old_names)
                EXPECT_TRUE(flags.insert(old_name).second) << command.name() << " --" << old_name;
        }
        for (const Flag& flag : global_flags()) {
            // There it is the address of the upstream.
            const bool meant = command.name() == "upstreams add" && flag.name == "url";
            EXPECT_EQ(flags.contains(flag.name), meant) << command.name() << " --" << flag.name;
        }
    }
}

}  // namespace
}  // namespace interlock::cli
