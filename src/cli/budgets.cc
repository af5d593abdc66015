#include "cli/nouns.h"

namespace interlock::cli {
namespace {

const View& budgets_view() {
    static const View view{
        .id = "name",
        .columns = {{"NAME", "name", Format::id},
                    {"USED", "", Format::bar, Room::if_there_is},
                    {"SETTLED", "settled", Format::amount},
                    {"HELD", "held", Format::amount},
                    {"FREE", "free", Format::amount},
                    {"LIMIT", "limit", Format::amount},
                    {"METRIC", "metric", Format::text, Room::if_there_is},
                    {"WINDOW", "", Format::window, Room::if_there_is},
                    {"SCOPE", "scope", Format::pairs},
                    {"FROZEN", "frozen", Format::free_text}},
        .fields = {{"budget", "name", Format::id},
                   {"frozen", "frozen", Format::free_text},
                   {"used", "", Format::bar},
                   {"settled", "settled", Format::amount},
                   {"held", "held", Format::amount},
                   {"free", "free", Format::amount},
                   {"limit", "limit", Format::amount},
                   {"exhausted", "exhausted", Format::yes},
                   {"open holds", "open_holds", Format::count},
                   {"metric", "metric"},
                   {"window", "", Format::window},
                   {"began", "window.start", Format::time},
                   {"turns", "window.end", Format::time},
                   {"timezone", "timezone"},
                   {"scope", "scope", Format::pairs},
                   {"hard", "hard", Format::yes},
                   {"warns at %", "warn", Format::words},
                   {"when exhausted", "on_exhausted"},
                   {"created", "created_at", Format::time}},
        .when_empty = "There are no budgets yet. 'interlock budgets put NAME --limit 10.00' makes one."};
    return view;
}

const View& windows_view() {
    static const View view{.id = "start",
                           .columns = {{"START", "start", Format::text},
                                       {"END", "end", Format::text},
                                       {"USED", "", Format::bar, Room::if_there_is},
                                       {"SETTLED", "settled", Format::amount},
                                       {"HELD", "held", Format::amount},
                                       {"LIMIT", "limit", Format::amount}},
                           .when_empty = "Nothing was counted in any window yet."};
    return view;
}

const View& line_view() {
    static const View view{.id = "budget",
                           .fields = {{"budget", "budget", Format::id},
                                      {"settled", "settled", Format::amount},
                                      {"held", "held", Format::amount},
                                      {"limit", "limit", Format::amount},
                                      {"began", "start", Format::time},
                                      {"turns", "end", Format::time},
                                      {"per hour", "rate_per_hour", Format::amount},
                                      {"at its end", "projected", Format::amount},
                                      {"used up", "used_up_at", Format::time},
                                      {"settled until", "points", Format::rows}}};
    return view;
}

Argument budget_argument() { return {.name = "NAME", .help = "The budget", .completes = "budgets"}; }

std::vector<Flag> budget_flags() {
    const auto scope = [](std::string name, std::string value, std::string help, std::string completes) {
        return Flag{.name = name,
                    .value = std::move(value),
                    .help = std::move(help),
                    .member = "scope." + (name == "api-key" ? "api_key" : name),
                    .completes = std::move(completes)};
    };
    return {
        {.name = "limit",
         .value = "AMOUNT",
         .help = "Dollars, or a count",
         .takes = ValueType::amount,
         .required = true},
        scope("agent", "NAME", "Only what this agent spends", "agents"),
        scope("workflow", "NAME", "Only this workflow", ""),
        scope("provider", "NAME", "Only this provider", ""),
        scope("model", "NAME", "Only this model", ""),
        scope("api-key", "ID", "Only what comes by this key", "keys"),
        scope("run", "ID", "Only this run", "runs"),
        scope("session", "ID", "Only this session", "sessions"),
        tag_flag("scope.tags"),
        {.name = "metric",
         .value = "WHAT",
         .help = "What is counted (usd)",
         .choices = {"usd", "tokens", "calls", "runs"}},
        {.name = "window",
         .value = "WINDOW",
         .help = "When it begins anew (month)",
         .choices = {"day", "week", "month", "total"}},
        {.name = "timezone", .value = "ZONE", .help = "Where its days begin: Europe/Berlin (UTC)"},
        {.name = "soft", .help = "Count and warn, but refuse nothing", .takes = ValueType::off, .member = "hard"},
        {.name = "warn", .value = "PERCENT,…", .help = "Say so when this much is used", .takes = ValueType::numbers},
        {.name = "on-exhausted",
         .value = "WHAT",
         .help = "What happens then (refuse)",
         .choices = {"refuse", "pause_agent", "stop_runs"}}};
}

}  // namespace

std::vector<CliCommand> budget_commands() {
    const View* view = &budgets_view();
    return {
        {.words = {"budgets", "ls"},
         .summary = "List budgets: what is settled, held and free",
         .examples = {{"interlock budgets ls", ""}, {"interlock budgets ls --watch 1", "drawn again every second"}},
         .method = "GET",
         .path = "/v1/budgets",
         .answer = CliCommand::ResponseShape::list,
         .view = view},
        {.words = {"budgets", "show"},
         .summary = "Show one budget",
         .arguments = {budget_argument()},
         .examples = {{"interlock budgets show daily", ""}, {"interlock budgets show daily --json | jq -r .free", ""}},
         .method = "GET",
         .path = "/v1/budgets/{NAME}",
         .view = view},
        {.words = {"budgets", "put"},
         .summary = "Make a budget, or change its limit",
         .arguments = {budget_argument()},
         .flags = budget_flags(),
         .examples = {{"interlock budgets put daily --limit 10.00 --window day --timezone Europe/Berlin", ""},
                      {"interlock budgets put coder-month --limit 200 --window month --agent coder --warn 50,80", ""},
                      {"interlock budgets put tokens --metric tokens --limit 1000000 --window week --soft", ""}},
         .method = "PUT",
         .path = "/v1/budgets/{NAME}",
         .view = view,
         .notes = "Without a scope it counts everything. Scope, metric and window of a budget never change."},
        {.words = {"budgets", "limit"},
         .summary = "Change a budget's limit and nothing else",
         .arguments = {budget_argument(), {.name = "limit", .help = "Dollars, or a count", .takes = ValueType::amount}},
         .examples = {{"interlock budgets limit daily 20.00", ""}},
         .method = "PUT",
         .path = "/v1/budgets/{NAME}/limit",
         .view = view},
        {.words = {"budgets", "rm"},
         .summary = "Remove a budget; what was spent stays in the ledger",
         .arguments = {budget_argument()},
         .examples = {{"interlock budgets rm daily", ""}},
         .method = "DELETE",
         .path = "/v1/budgets/{NAME}",
         .answer = CliCommand::ResponseShape::nothing,
         .done = "removed budget {NAME}"},
        {.words = {"budgets", "unfreeze"},
         .summary = "Let a frozen budget be spent from again",
         .arguments = {budget_argument()},
         .examples = {{"interlock budgets unfreeze daily", "after looking at why: interlock budgets show daily"}},
         .method = "POST",
         .path = "/v1/budgets/{NAME}/unfreeze",
         .view = view},
        {.words = {"budgets", "windows"},
         .summary = "List a budget's windows, the newest first",
         .arguments = {budget_argument()},
         .examples = {{"interlock budgets windows daily --limit 7", "the last seven days"}},
         .method = "GET",
         .path = "/v1/budgets/{NAME}/windows",
         .answer = CliCommand::ResponseShape::list,
         .view = &windows_view()},
        {.words = {"budgets", "line"},
         .summary = "Show how a budget's current window was spent so far, and where that leads",
         .arguments = {budget_argument()},
         .examples = {{"interlock budgets line daily", ""},
                      {"interlock budgets line daily --json | jq -r .used_up_at", "when it is used up at this rate"}},
         .method = "GET",
         .path = "/v1/budgets/{NAME}/line",
         .view = &line_view(),
         .notes = "The rate is that of the last quarter of the window so far."},
    };
}

}  // namespace interlock::cli
