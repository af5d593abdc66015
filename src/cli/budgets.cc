#include "cli/nouns.h"

namespace interlock::cli {
namespace {

const View& budgets_view() {
    static const View view{.id = "name",
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
                                      {"resets", "window.end", Format::time},
                                      {"timezone", "timezone"},
                                      {"scope", "scope", Format::pairs},
                                      {"hard", "hard", Format::yes},
                                      {"warns at %", "warn", Format::words},
                                      {"on exhausted", "on_exhausted"},
                                      {"created", "created_at", Format::time}},
                           .when_empty = "No budgets. Create one: interlock budgets put NAME --limit 10.00"};
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
                           .when_empty = "No window has charges or holds."};
    return view;
}

const View& line_view() {
    static const View view{.id = "budget",
                           .fields = {{"budget", "budget", Format::id},
                                      {"settled", "settled", Format::amount},
                                      {"held", "held", Format::amount},
                                      {"limit", "limit", Format::amount},
                                      {"began", "start", Format::time},
                                      {"resets", "end", Format::time},
                                      {"per hour", "rate_per_hour", Format::amount},
                                      {"projected", "projected", Format::amount},
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
         .help = "Limit in dollars, or a count",
         .takes = ValueType::amount,
         .required = true},
        scope("agent", "NAME", "Count only this agent", "agents"),
        scope("workflow", "NAME", "Count only this workflow", ""),
        scope("provider", "NAME", "Count only this provider", ""),
        scope("model", "NAME", "Count only this model", ""),
        scope("api-key", "ID", "Count only this API key", "keys"),
        scope("run", "ID", "Count only this run", "runs"),
        scope("session", "ID", "Count only this session", "sessions"),
        tag_flag("scope.tags"),
        {.name = "metric",
         .value = "METRIC",
         .help = "Unit of the limit (default usd)",
         .choices = {"usd", "tokens", "calls", "runs"}},
        {.name = "window",
         .value = "WINDOW",
         .help = "Period after which the budget resets (default month)",
         .choices = {"day", "week", "month", "total"}},
        {.name = "timezone", .value = "ZONE", .help = "Timezone of the window, such as Europe/Berlin (default UTC)"},
        {.name = "soft", .help = "Count and warn, but never refuse", .takes = ValueType::off, .member = "hard"},
        {.name = "warn",
         .value = "PERCENT,…",
         .help = "Warn at these percentages of the limit",
         .takes = ValueType::numbers},
        {.name = "on-exhausted",
         .value = "ACTION",
         .help = "If the budget is exhausted (default refuse)",
         .choices = {"refuse", "pause_agent", "stop_runs"}}};
}

}  // namespace

std::vector<CliCommand> budget_commands() {
    const View* view = &budgets_view();
    return {
        {.words = {"budgets", "ls"},
         .summary = "List budgets with their settled, held and free amounts",
         .examples = {{"interlock budgets ls", ""}, {"interlock budgets ls --watch 1", "refreshed every second"}},
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
         .summary = "Create a budget or change its limit",
         .arguments = {budget_argument()},
         .flags = budget_flags(),
         .examples = {{"interlock budgets put daily --limit 10.00 --window day --timezone Europe/Berlin", ""},
                      {"interlock budgets put coder-month --limit 200 --window month --agent coder --warn 50,80", ""},
                      {"interlock budgets put tokens --metric tokens --limit 1000000 --window week --soft", ""}},
         .method = "PUT",
         .path = "/v1/budgets/{NAME}",
         .view = view,
         .notes = "Without a scope flag the budget counts everything. Scope, metric and window cannot be changed."},
        {.words = {"budgets", "limit"},
         .summary = "Change only the limit of a budget",
         .arguments =
             {budget_argument(),
              {.name = "LIMIT", .help = "Limit in dollars, or a count", .takes = ValueType::amount, .member = "limit"}},
         .examples = {{"interlock budgets limit daily 20.00", ""}},
         .method = "PUT",
         .path = "/v1/budgets/{NAME}/limit",
         .view = view},
        {.words = {"budgets", "rm"},
         .summary = "Remove a budget; its charges stay in the ledger",
         .arguments = {budget_argument()},
         .examples = {{"interlock budgets rm daily", ""}},
         .method = "DELETE",
         .path = "/v1/budgets/{NAME}",
         .answer = CliCommand::ResponseShape::nothing,
         .done = "removed budget {NAME}"},
        {.words = {"budgets", "unfreeze"},
         .summary = "Unfreeze a budget",
         .arguments = {budget_argument()},
         .examples = {{"interlock budgets unfreeze daily", "'interlock budgets show daily' tells why it is frozen"}},
         .method = "POST",
         .path = "/v1/budgets/{NAME}/unfreeze",
         .view = view},
        {.words = {"budgets", "windows"},
         .summary = "List the windows of a budget, newest first",
         .arguments = {budget_argument()},
         .examples = {{"interlock budgets windows daily --limit 7", "the last seven days"}},
         .method = "GET",
         .path = "/v1/budgets/{NAME}/windows",
         .answer = CliCommand::ResponseShape::list,
         .view = &windows_view()},
        {.words = {"budgets", "line"},
         .summary = "Show the spending of a budget's current window and its projection",
         .arguments = {budget_argument()},
         .examples = {{"interlock budgets line daily", ""},
                      {"interlock budgets line daily --json | jq -r .used_up_at",
                       "when the budget is used up at this rate"}},
         .method = "GET",
         .path = "/v1/budgets/{NAME}/line",
         .view = &line_view(),
         .notes = "The projection uses the rate of the last quarter of the elapsed window."},
    };
}

}  // namespace interlock::cli
