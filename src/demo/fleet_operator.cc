#include "demo/fleet_operator.h"

#include <array>
#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "base/money.h"

namespace interlock::demo {
namespace {

using namespace std::chrono_literals;

constexpr double between_acts = 4;  // Seconds, at the usual pace.
constexpr auto processes_end_after_max = 20s;
constexpr const char* live_runs = "/v1/runs?status=queued,starting,running,paused&limit=1000";

}  // namespace

Operator::Operator(DemoFleet& fleet, std::atomic<bool>& house_rests)
    : fleet_(fleet), house_rests_(house_rests), client_(fleet.url, fleet.admin_key) {
    std::error_code unknown;
    program_ = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
}

void Operator::live() {
    open();
    constexpr std::array acts{&Operator::build,           &Operator::fork_a_session, &Operator::cancel_a_run,
                              &Operator::let_house_rest,  &Operator::raise_limits,   &Operator::pause_a_process,
                              &Operator::hold_some_money, &Operator::pause_an_agent};
    for (std::size_t i = 0; fleet_.pace.wait(between_acts); ++i) {
        if (i % acts.size() == 0) ++round_;
        (this->*acts[i % acts.size()])();
    }
}

bool Operator::end_processes() {
    const auto schedules = client_.get("/v1/schedules?limit=1000");
    for (const json::value& each : schedules ? items_in(*schedules) : json::array()) {
        may(net::Method::post, fmt::format("/v1/schedules/{}/pause", text_in(each, "name")));
    }
    const auto patience = std::chrono::steady_clock::now() + processes_end_after_max;
    while (std::chrono::steady_clock::now() < patience) {
        const auto runs = client_.get(live_runs);
        if (!runs) return false;
        if (items_in(*runs).empty()) return true;
        // What is under way already is not asked twice as loud: a repeated wish changes nothing.
        for (const json::value& run : items_in(*runs)) {
            may(net::Method::post, fmt::format("/v1/runs/{}/cancel", text_in(run, "id")),
                {{"fence", number_in(run, "fence")}, {"reason", "the demo ends"}});
        }
        std::this_thread::sleep_for(200ms);
    }
    return false;
}

// ---- everything once ----------------------------------------------------------------------------------------------

void Operator::open() {
    wake("sweep-old-carts");
    start(build_script, {{"budget", "0.05"}});
    start(hostile_script);
    start(failing_script, {{"retry", {{"tries", 2}, {"backoff_s", 3}}}});
    start(slow_script, {{"timeout_s", 5}});
    tell_stories();
    pay("release-notes", "launch", "0.46");
    pay("release-notes", "launch", "0.38");
    pay("researcher", "pilot", "0.14", true);
    ask_for_unknown_model();
    wake("look-after-the-shop");
    wake("sweep-old-carts");
    wake("sweep-old-carts");
    if (fleet_.around.has_repository) start_in_worktrees();
    may(net::Method::post, "/v1/keys", {{"scopes", json::array{"read"}}, {"note", "simulated: a board on the wall"}});
    may(net::Method::post, "/v1/keys",
        {{"scopes", json::array{"agent"}}, {"budget", "project-launch"}, {"note", "simulated: whoever works on it"}});
}

void Operator::start(const DemoScript& script, json::object more) {
    json::object document{{"agent", "builder"},
                          {"name", script.name},
                          {"command", json::array{"sh", "-c", script.text}},
                          {"env", {{"DEMO_PROGRAM", program_}}},
                          {"tags", {{"fleet", "simulated"}}},
                          {"on_conflict", "queue"},
                          {"timeout_s", 60},
                          {"grace_s", 1}};
    for (auto& member : more) document[member.key()] = std::move(member.value());
    ++fleet_.runs;
    may(net::Method::post, "/v1/runs", document);
}

void Operator::start_in_worktrees() {
    for (const DemoScript* script : {&dirty_script, &commit_script, &clean_script}) {
        start(*script, {{"workspace", fleet_.around.directory + "/repository"}, {"isolate", true}});
    }
}

// Two levels of forks, one of them closed.
void Operator::tell_stories() {
    const auto made = client_.post(
        "/v1/sessions",
        {{"agent", "researcher"}, {"title", "Should the shop have wish lists?"}, {"metadata", {{"simulated", true}}}});
    if (!made) return fleet_.odd(made.error());
    const std::string root = text_in(*made, "id");
    say(root, "system", "You are a simulated agent of a simulated shop.");
    say(root, "user", "Should the shop have wish lists?");
    say(root, "assistant", "People ask for them 40 times a month. What should they do when an item sells out?");
    say(root, "user", "Tell people when it is back. <script>alert('no page runs this')</script>");
    say(root, "tool", "{\"items\": 1204, \"sold_out\": 88}");
    say(root, "assistant", "Then 88 of 1,204 items matter at a time. A letter a day will do.");

    const std::string letters = fork(root, 2, "Another way: no letters");
    say(letters, "user", "What if nobody is told, and the list just shows it?");
    say(letters, "assistant", "Then it is a page and a table, and done in a day.");
    const std::string smaller = fork(letters, 4, "Smaller still: a link to share");
    say(smaller, "user", "And without an account?");
    say(smaller, "assistant", "The list lives in the link. Nothing to store at all.");
    const std::string given_up = fork(root, 1, "Given up: a whole social network");
    say(given_up, "assistant", "Let us not.");
    may(net::Method::post, fmt::format("/v1/sessions/{}/close", given_up));
}

std::string Operator::fork(const std::string& session, std::int64_t at, const char* title) {
    const auto made = client_.post(fmt::format("/v1/sessions/{}/fork", session), {{"at_seq", at}, {"title", title}});
    if (!made) fleet_.odd(made.error());
    return made ? text_in(*made, "id") : "";
}

void Operator::say(const std::string& session, const char* role, const char* text) {
    may(net::Method::post, fmt::format("/v1/sessions/{}/messages", session), {{"role", role}, {"content", text}});
}

void Operator::pay(const char* agent, const char* project, const char* cost, bool incurred) {
    may(net::Method::post, "/v1/charges",
        {{"agent", agent},
         {"provider", "sim"},
         {"model", "sim/large"},
         {"cost", cost},
         {"usage", {{"input_tokens", 9000}, {"output_tokens", 21000}}},
         {"tags", {{"fleet", "simulated"}, {"project", project}}},
         {"incurred", incurred}});
}

void Operator::ask_for_unknown_model() {
    const json::value body = {{"model", "sim/experimental"},
                              {"max_tokens", 100},
                              {"messages", json::array{{{"role", "user"}, {"content", "What do you cost?"}}}}};
    ++fleet_.calls;
    ++fleet_.refusals;
    (void)client_.send(net::Method::post, "/v1/chat/completions", body, {{"x-interlock-agent", "researcher"}});
}

void Operator::wake(const char* schedule) { may(net::Method::post, fmt::format("/v1/schedules/{}/wake", schedule)); }

// ---- the round ----------------------------------------------------------------------------------------------------

void Operator::build() {
    constexpr std::array scripts{&build_script, &failing_script, &hostile_script, &build_script, &slow_script};
    const DemoScript& script = *scripts[static_cast<std::size_t>(round_) % scripts.size()];
    start(script, {{"timeout_s", &script == &slow_script ? 10 : 60}, {"budget", "0.05"}});
    if (round_ % 3 == 0) wake("every-minute");
}

void Operator::fork_a_session() {
    const auto sessions = client_.get("/v1/sessions?limit=20");
    if (!sessions) return fleet_.odd(sessions.error());
    for (const json::value& session : items_in(*sessions)) {
        const std::int64_t messages = number_in(session, "messages");
        if (messages < 3) continue;
        const std::string made = fork(text_in(session, "id"), messages - 2, "Another way (simulated)");
        say(made, "user", "Try it the other way round.");
        say(made, "assistant", "The other way round it is shorter, and a little slower.");
        return;
    }
}

void Operator::cancel_a_run() {
    const auto runs = client_.get("/v1/runs?status=running&limit=100");
    if (!runs || items_in(*runs).empty()) return;
    const json::array& items = items_in(*runs);
    const json::value& run = items[static_cast<std::size_t>(round_) % items.size()];
    may(net::Method::post, fmt::format("/v1/runs/{}/cancel", text_in(run, "id")),
        {{"reason", "not needed any more (simulated)"}});
}

void Operator::pause_a_process() {
    const auto runs = client_.get("/v1/runs?status=running&agent=janitor&limit=1");
    if (!runs || items_in(*runs).empty()) return;
    const std::string run = text_in(items_in(*runs)[0], "id");
    may(net::Method::post, fmt::format("/v1/runs/{}/pause", run));
    fleet_.pace.wait(between_acts);
    may(net::Method::post, fmt::format("/v1/runs/{}/resume", run));
}

void Operator::hold_some_money() {
    const auto hold = client_.post("/v1/holds", {{"agent", "researcher"}, {"amount", "0.05"}, {"ttl_s", 20}});
    if (!hold) return;
    fleet_.pace.wait(between_acts / 2);
    // Every third one is forgotten, and comes back when its time is over.
    if (round_ % 3 == 0) return;
    may(net::Method::post, fmt::format("/v1/holds/{}/settle", text_in(*hold, "id")), {{"cost", "0.012"}});
}

void Operator::pause_an_agent() {
    constexpr std::array agents{"refactorer", "support", "release-notes"};
    const char* agent = agents[static_cast<std::size_t>(round_) % agents.size()];
    may(net::Method::post, fmt::format("/v1/agents/{}/pause", agent),
        {{"reason", "a look at its last run (simulated)"}});
    fleet_.pace.wait(2 * between_acts);
    may(net::Method::post, fmt::format("/v1/agents/{}/resume", agent));
}

void Operator::let_house_rest() {
    house_rests_ = round_ % 2 == 1;
    if (round_ % 2 == 0) ask_for_unknown_model();
}

// So that a fleet that is left alone is not refused everything in the end. The one budget that pauses its agent stays
// exhausted, as something to look at.
void Operator::raise_limits() {
    if (round_ % 8 == 1) pay("release-notes", "launch", "0.01");
    for (const auto& [name, step] : {std::pair{"org-month", 2'000'000'000}, {"large-models", 1'000'000'000}}) {
        const auto budget = client_.get(fmt::format("/v1/budgets/{}", name));
        if (!budget) continue;
        if (nanos_in(*budget, "free") > step / 4) continue;
        may(net::Method::put, fmt::format("/v1/budgets/{}/limit", name),
            {{"limit", to_text(Money::nanos(nanos_in(*budget, "limit") + step))}});
    }
    const auto tokens = client_.get("/v1/budgets/translator-tokens");
    if (!tokens || count_in(*tokens, "free") > 2'000) return;
    may(net::Method::put, "/v1/budgets/translator-tokens/limit",
        {{"limit", std::to_string(count_in(*tokens, "limit") + 5'000)}});
}

void Operator::may(net::Method method, std::string target, const json::value& body) {
    const auto answer = client_.send(method, target, body);
    if (!answer) return fleet_.odd(answer.error());
    if (answer->status >= 400 && answer->status != 402 && answer->status != 404 && answer->status != 409) {
        fleet_.odd(fmt::format("{} answered {}: {}", target, answer->status, answer->body));
    }
}

}  // namespace interlock::demo
