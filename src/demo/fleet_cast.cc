#include "demo/fleet_cast.h"

#include <array>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "supervisor/subprocess.h"

namespace interlock::demo {
namespace {

namespace fs = std::filesystem;

constexpr std::array research_talk{
    DemoTurn{"Which of our checkout steps do people leave most often?",
             "Most leave at the address form: 31 of 100, against 12 at payment. (simulated)"},
    DemoTurn{"Why there? Look at the sessions of the last week.",
             "Half of them came back from the postcode field. It refuses blanks, and phones put blanks there."},
    DemoTurn{"How many orders is that in a month?", "Roughly 240, if those behave like the ones who got through."},
    DemoTurn{"Write that down as a proposal with numbers and sources.",
             "Proposal: accept blanks in postcodes. Effect: up to 240 orders a month. Cost: one line and a test."},
};
constexpr std::array review_talk{
    DemoTurn{"Review the change to the cart: rounding moves from the view into the model.",
             "The sum is right now, but the discount is still rounded twice: once per line, once in total."},
    DemoTurn{"Can you show a case where that matters?",
             "Three items at 0.335 with ten percent off: 0.90 against 0.91. A test for it is in the comment."},
    DemoTurn{"What else would you change before it goes in?",
             "Name the rounding mode, and drop the unused import. Then it is good to merge."},
};
constexpr std::array fix_talk{
    DemoTurn{
        "The test of the mail queue fails every other day. Find out why.",
        "It compares two instants that are taken a millisecond apart. When the clock ticks between them, it fails."},
    DemoTurn{"Fix it without a sleep.",
             "The queue takes its clock as a parameter now, and the test hands it a still one."},
    DemoTurn{"Run the tests a hundred times.", "100 of 100 passed. (simulated)"},
};
constexpr std::array refactor_talk{
    DemoTurn{"Take the search apart: index, query, ranking.",
             "Three files instead of one. Nothing changed for callers; the tests passed before and after."},
    DemoTurn{"Is anything public that need not be?", "The tokenizer was. It is private to the index now."},
    DemoTurn{"Summarise it for the change log.", "Search is three parts. No change in behaviour."},
};
constexpr std::array test_talk{
    DemoTurn{"Which branches of the payment code has no test ever seen?",
             "The refund of a partly shipped order, and the timeout of the bank's answer."},
    DemoTurn{"Write tests for both.", "Two tests. The second one found that the timeout is counted twice."},
};
constexpr std::array notes_talk{
    DemoTurn{"What changed since the last release?",
             "41 commits: 3 features, 17 fixes, the rest is upkeep. Nothing that breaks a caller."},
    DemoTurn{"Draft the notes, at most ten lines, for people who use the shop.",
             "New: wish lists. Faster: search. Fixed: postcodes with blanks, a sum that was a cent off."},
    DemoTurn{"Shorter, and begin with what people asked for.",
             "Postcodes with blanks work. Sums are exact. Wish lists!"},
};
constexpr std::array translate_talk{
    DemoTurn{"Translate the help page about returns into German.",
             "Sie haben 30 Tage Zeit, einen Artikel zurueckzugeben. (simulated)"},
    DemoTurn{"And into French, with the same headings.", "Vous avez 30 jours pour renvoyer un article."},
    DemoTurn{"Check the glossary: is 'basket' the same word everywhere?",
             "It was 'Korb' twice and 'Warenkorb' once. Now it is always 'Warenkorb'."},
};
constexpr std::array experiment_talk{
    DemoTurn{"Try forty prompts for the product descriptions and rank them.",
             "Twelve done. The short ones win; the ones with a rhyme do not."},
    DemoTurn{"Go on with variations of the best three.", "Variation 3b is liked most, by a hair."},
};
constexpr std::array support_talk{
    DemoTurn{"A customer asks where order 1009 is.", "It left on Tuesday and is one stop away: tomorrow before noon."},
    DemoTurn{"Another one wants to change the address after shipping.",
             "Not any more on our side; the carrier's page can. Link and words are in the draft."},
    DemoTurn{"Sort the last fifty letters by what they are about.",
             "Delivery 22, returns 14, sizes 9, praise 5. (simulated)"},
};
constexpr std::array index_talk{
    DemoTurn{"wish list, returns, postcode", ""},
    DemoTurn{"wish list, returns, postcode", ""},
    DemoTurn{"sizes, colours, gift wrap", ""},
};

constexpr std::array the_roles{
    DemoRole{"researcher", 3, "insight", "", DemoApi::anthropic, "sim/large", true, false, 420,
             "Where do orders get lost?", research_talk},
    DemoRole{"reviewer", 2, "platform", "", DemoApi::openai_chat, "sim/large", false, true, 260,
             "Review: rounding in the cart", review_talk},
    DemoRole{"fixer", 2, "platform", "shop", DemoApi::openai_responses, "sim/reasoner", true, false, 300,
             "The mail queue's flaky test", fix_talk},
    DemoRole{"refactorer", 1, "platform", "shop", DemoApi::anthropic, "sim/small", false, false, 350,
             "Take the search apart", refactor_talk},
    DemoRole{"test-writer", 1, "platform", "shop/tests", DemoApi::openai_chat, "sim/small", true, false, 220,
             "Branches without a test", test_talk},
    DemoRole{"release-notes", 1, "docs", "docs", DemoApi::gemini, "sim/large", true, false, 180,
             "Notes for the next release", notes_talk},
    DemoRole{"translator", 2, "docs", "docs", DemoApi::gemini, "sim/small", false, false, 400,
             "Help pages in two languages", translate_talk},
    DemoRole{"experimenter", 1, "insight", "", DemoApi::anthropic, "sim/large", false, false, 380, "Forty prompts",
             experiment_talk},
    DemoRole{"support", 3, "shop", "", DemoApi::openai_chat, "house/small", true, false, 160, "Letters of the day",
             support_talk},
    DemoRole{"indexer", 1, "shop", "", DemoApi::embeddings, "sim/embed", false, false, 0, "Index of the help pages",
             index_talk},
};

constexpr const char* sweep_text = R"(printf '\033[2msweeping old carts (simulated)\033[0m\n'
for part in 1 2 3 4 5 6; do sleep 3; printf '  %s of 6, \033[36m%s\033[0m carts\n' $part $((part * 17)); done)";

constexpr const char* check_text = R"(printf '\033[1mlooking after the shop\033[0m (simulated)\n'
sleep 1; printf '\033[32m  ok\033[0m    answers in 41 ms\n'
sleep 1; printf '\033[32m  ok\033[0m    certificate: 61 days left\n')";

json::value simulated_tags(const char* team) { return {{"fleet", "simulated"}, {"team", team}}; }

json::value command_of(const char* text) { return json::array{"sh", "-c", text}; }

Result<void, std::string> cast_agents(DemoClient& admin, const DemoSurroundings& around);
Result<void, std::string> cast_money(DemoClient& admin);
Result<void, std::string> cast_gateway(DemoClient& admin, const DemoSurroundings& around);
Result<void, std::string> cast_schedules(DemoClient& admin);

// The first thing that could not be made.
Result<void, std::string> put_all(DemoClient& admin,
                                  std::initializer_list<std::pair<const char*, json::value>> documents) {
    for (const auto& [target, document] : documents) {
        if (const auto made = admin.put(target, document); !made) return fail(made.error());
    }
    return {};
}

}  // namespace

const DemoScript build_script{"build the shop", R"(printf '\033[1mBuilding the shop\033[0m (simulated)\n'
for part in cart checkout search mail; do sleep 1; printf '\033[32m  ok\033[0m    %s compiled\n' "$part"; done
printf '\033[33m  warn\033[0m  mail: 2 deprecated calls\n'
"$DEMO_PROGRAM" charges add builder 0.0042 --provider sim --model sim/small --output-tokens 3360
sleep 1; printf '\033[32mdone\033[0m, 128 files\n')"};

const DemoScript hostile_script{"print what strangers wrote", R"(printf '<script>alert("from a log")</script>\n'
printf '<img src=x onerror=alert(1)> &amp; <b>not bold</b>\n'
printf '\033]0;a title of its own\007\033[2J\033[31mred, and never reset\n'
head -c 6000 /dev/zero | tr '\0' 'x'; printf '\n'
printf 'caf\303\251, and bytes that are no text: \377\376\n'
sleep 4; printf 'over\n')"};

const DemoScript failing_script{"deploy to nowhere", R"(printf 'deploying (simulated)\n'; sleep 2
printf '\033[31merror:\033[0m the host shop.invalid is not known\n' >&2; exit 3)"};

const DemoScript slow_script{"wait for an answer that does not come", R"(printf 'waiting (simulated)\n'
for second in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 2; printf '.'; done)"};

const DemoScript dirty_script{"a change that is not committed",
                              R"(printf '\nA line that nobody has committed.\n' >> README.md
git status --short; sleep 2)"};

const DemoScript commit_script{"a change that is not merged", R"(printf 'wish lists\n' > wish_lists.txt
git add wish_lists.txt
git -c user.name=simulated -c user.email=simulated@invalid commit -q -m 'Wish lists (simulated)'
git log --oneline; sleep 2)"};

const DemoScript clean_script{"a look that changes nothing", "ls -la; sleep 2"};

std::span<const DemoRole> roles() { return the_roles; }

Result<DemoSurroundings, std::string> make_workspaces(const std::string& directory) {
    DemoSurroundings around{.directory = directory + "/workspaces", .house_url = {}, .spare_url = {}};
    std::error_code error;
    for (const char* name : {"shop/tests", "docs", "repository"}) {
        fs::create_directories(around.directory + "/" + name, error);
        if (error) return fail(fmt::format("cannot make '{}/{}': {}", around.directory, name, error.message()));
    }
    const std::string repository = around.directory + "/repository";
    std::ofstream(repository + "/README.md") << "# A shop\n\nA simulated repository for simulated agents.\n";
    // Its own fresh repository, with an author of its own.
    const auto git = [&](std::vector<std::string> words) {
        words.insert(words.begin(), {"git", "-c", "user.name=Interlock", "-c", "user.email=interlock@localhost"});
        const auto finished = supervisor::run_program(words, {.dir = repository});
        return finished && finished->exit_code == 0;
    };
    around.has_repository =
        git({"init", "-q"}) && git({"add", "README.md"}) && git({"commit", "-q", "-m", "A shop (simulated)"});
    return around;
}

Result<void, std::string> cast(DemoClient& admin, const DemoSurroundings& around) {
    if (auto made = cast_gateway(admin, around); !made) return made;
    if (auto made = cast_agents(admin, around); !made) return made;
    if (auto made = cast_money(admin); !made) return made;
    return cast_schedules(admin);
}

namespace {

Result<void, std::string> cast_agents(DemoClient& admin, const DemoSurroundings& around) {
    for (const DemoRole& role : the_roles) {
        json::object document{{"max_concurrent_runs", role.runs_max},
                              {"tags", simulated_tags(role.team)},
                              {"capture", "full"},
                              {"provider", std::string_view(role.model).starts_with("house/") ? "house" : "sim"}};
        if (role.workspace[0] != '\0') document["workspace"] = around.directory + "/" + role.workspace;
        if (const auto made = admin.put(fmt::format("/v1/agents/{}", role.agent), document); !made) {
            return fail(made.error());
        }
    }
    return put_all(admin, {{"/v1/agents/builder",
                            {{"max_concurrent_runs", 3},
                             {"tags", simulated_tags("platform")},
                             {"command", command_of(check_text)},
                             {"timeout_s", 120},
                             {"grace_s", 1}}},
                           {"/v1/agents/janitor",
                            {{"max_concurrent_runs", 2},
                             {"tags", simulated_tags("shop")},
                             {"command", command_of(sweep_text)},
                             {"timeout_s", 120},
                             {"grace_s", 1}}},
                           {"/v1/caps/org", {{"max_live", 40}}},
                           {"/v1/caps/provider/house", {{"max_live", 4}}}});
}

Result<void, std::string> cast_money(DemoClient& admin) {
    const json::array warn{50, 80};
    return put_all(
        admin,
        {{"/v1/budgets/org-month", {{"limit", "3.00"}, {"window", "month"}, {"warn", json::array{50, 80, 95}}}},
         {"/v1/budgets/org-day-soft", {{"limit", "0.60"}, {"window", "day"}, {"hard", false}, {"warn", warn}}},
         {"/v1/budgets/researcher-day",
          {{"scope", {{"agent", "researcher"}}}, {"limit", "5.00"}, {"window", "day"}, {"warn", warn}}},
         {"/v1/budgets/experimenter-day",
          {{"scope", {{"agent", "experimenter"}}},
           {"limit", "0.03"},
           {"window", "day"},
           {"warn", warn},
           {"on_exhausted", "pause_agent"}}},
         {"/v1/budgets/large-models", {{"scope", {{"model", "sim/large"}}}, {"limit", "2.00"}, {"warn", warn}}},
         {"/v1/budgets/project-launch",
          {{"scope", {{"tags", {{"project", "launch"}}}}}, {"limit", "1.00"}, {"window", "month"}, {"warn", warn}}},
         {"/v1/budgets/project-pilot",
          {{"scope", {{"tags", {{"project", "pilot"}}}}}, {"limit", "0.10"}, {"window", "week"}}},
         {"/v1/budgets/translator-tokens",
          {{"scope", {{"agent", "translator"}}},
           {"metric", "tokens"},
           {"limit", "8000"},
           {"window", "day"},
           {"warn", warn}}},
         {"/v1/budgets/builder-runs",
          {{"scope", {{"agent", "builder"}}}, {"metric", "runs"}, {"limit", "500"}, {"window", "day"}}}});
}

Result<void, std::string> cast_gateway(DemoClient& admin, const DemoSurroundings& around) {
    const auto house = [](const std::string& url, int priority) {
        return json::value{{"dialect", "openai"},      {"url", url},
                           {"provider", "house"},      {"models", json::array{"house/*"}},
                           {"strip_prefix", "house/"}, {"pass_headers", json::array{"x-sim"}},
                           {"priority", priority},     {"retries", 1},
                           {"backoff_ms", 100},        {"cooldown_after", 3},
                           {"cooldown_s", 20}};
    };
    return put_all(
        admin,
        {{"/v1/upstreams/sim-house", house(around.house_url, 50)},
         {"/v1/upstreams/sim-spare", house(around.spare_url, 100)},
         {"/v1/prices",
          {{"provider", "house"}, {"model", "house/*"}, {"input_per_mtok", "0.50"}, {"output_per_mtok", "2.00"}}},
         {"/v1/gateway", {{"wait_s", 2}}},
         {"/v1/rate-limits/indexer", {{"match", {{"agent", "indexer"}}}, {"requests_per_minute", 2}}}});
}

Result<void, std::string> cast_schedules(DemoClient& admin) {
    return put_all(
        admin,
        {{"/v1/schedules/look-after-the-shop", {{"agent", "builder"}, {"every", "20s"}, {"overlap", "queue"}}},
         {"/v1/schedules/every-minute", {{"agent", "builder"}, {"every", "1m"}, {"jitter_s", 5}}},
         {"/v1/schedules/sweep-old-carts", {{"agent", "janitor"}, {"every", "8s"}, {"overlap", "skip"}}},
         {"/v1/schedules/nightly-report", {{"agent", "builder"}, {"cron", "0 3 * * *"}, {"timezone", "Europe/Berlin"}}},
         {"/v1/schedules/weekly-audit", {{"agent", "builder"}, {"cron", "30 8 * * mon"}, {"enabled", false}}}});
}

}  // namespace
}  // namespace interlock::demo
