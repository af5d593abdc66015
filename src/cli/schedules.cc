#include "cli/nouns.h"

namespace interlock::cli {
namespace {

const View& schedules_view() {
    static const View view{
        .id = "name",
        .columns = {{"NAME", "name", Format::id},
                    {"AGENT", "agent", Format::id},
                    {"WHEN", "", Format::schedule},
                    {"NEXT", "next_at", Format::time},
                    {"LAST", "last_fired_at", Format::time, Room::if_there_is},
                    {"FIRED", "fired", Format::count},
                    {"SKIPPED", "skipped", Format::count, Room::if_there_is},
                    {"ENABLED", "enabled", Format::yes},
                    {"WORKSPACE", "workspace", Format::free_text}},
        .fields = {{"schedule", "name", Format::id},
                   {"agent", "agent", Format::id},
                   {"enabled", "enabled", Format::yes},
                   {"when", "", Format::schedule},
                   {"timezone", "timezone"},
                   {"jitter", "jitter_s", Format::seconds},
                   {"next", "next_at", Format::time},
                   {"last", "last_fired_at", Format::time},
                   {"fired", "fired", Format::count},
                   {"skipped", "skipped", Format::count},
                   {"coalesced", "coalesced", Format::count},
                   {"overlap", "overlap"},
                   {"missed", "missed"},
                   {"max missed", "missed_max", Format::count},
                   {"workspace", "workspace", Format::free_text},
                   {"resources", "resources", Format::words},
                   {"mode", "mode"},
                   {"isolate", "isolate", Format::yes},
                   {"node", "node"},
                   {"lease", "lease_s", Format::seconds},
                   {"priority", "priority"},
                   {"hold", "hold", Format::money},
                   {"created", "created_at", Format::time}},
        .when_empty = "No schedules. Create one: interlock schedules put NAME --agent AGENT --every 15m"};
    return view;
}

const View& next_view() {
    static const View view{
        .id = "at",
        .columns = {{"DUE", "tick", Format::text}, {"STARTS", "at", Format::text}, {"IN", "at", Format::time}},
        .when_empty = "Not due, because the schedule is paused. Resume it: interlock schedules resume NAME"};
    return view;
}

const View& history_view() {
    static const View view{.id = "run",
                           .columns = {{"AT", "at", Format::text},
                                       {"OUTCOME", "outcome", Format::status},
                                       {"LATE", "late_ms", Format::milliseconds},
                                       {"RUN", "run", Format::id, Room::if_there_is},
                                       {"RUN STATUS", "run_status", Format::status, Room::if_there_is},
                                       {"REASON", "reason", Format::free_text}},
                           .when_empty = "Not due yet. Show when: interlock schedules next NAME"};
    return view;
}

const View& ticks_view() {
    static const View view = [] {
        View all = history_view();
        all.columns.insert(all.columns.begin() + 1, {"SCHEDULE", "schedule", Format::id});
        all.when_empty = "No schedule was due in that time. Show when each is due: interlock schedules ls";
        return all;
    }();
    return view;
}

const View& trigger_view() {
    static const View view{.id = "run",
                           .fields = {{"status", "status", Format::status},
                                      {"run", "run", Format::id},
                                      {"run status", "run_status", Format::status},
                                      {"fence", "fence"},
                                      {"repeated", "repeated", Format::yes}}};
    return view;
}

Argument schedule_argument() { return {.name = "NAME", .help = "The schedule", .completes = "schedules"}; }

std::vector<Flag> schedule_flags() {
    Flag agent = agent_flag("Agent to run");
    agent.required = true;
    return {
        agent,
        {.name = "every", .value = "TIME", .help = "Interval, such as 30s, 15m or 2h"},
        {.name = "cron", .value = "EXPRESSION", .help = "Cron expression, such as '0 9 * * mon-fri'"},
        {.name = "timezone",
         .value = "ZONE",
         .help = "Timezone of the cron expression, such as Europe/Berlin (default UTC)"},
        {.name = "jitter",
         .value = "SECONDS",
         .help = "Random delay of up to SECONDS, to spread starts (default 0)",
         .takes = ValueType::number,
         .member = "jitter_s"},
        {.name = "overlap",
         .value = "ACTION",
         .help = "If the previous run has not ended (default skip)",
         .choices = {"skip", "queue", "replace", "allow"}},
        {.name = "missed",
         .value = "ACTION",
         .help = "For times that were due while the server was down (default one)",
         .choices = {"skip", "one", "all"}},
        {.name = "missed-max",
         .value = "N",
         .help = "With --missed all: maximum number (default 10)",
         .takes = ValueType::number},
        {.name = "workspace",
         .value = "DIR",
         .help = "Directory that its runs claim (default the agent's)",
         .takes = ValueType::path},
        {.name = "resource",
         .value = "NAME",
         .help = "Named resource that its runs claim; repeatable (default the agent's)",
         .takes = ValueType::repeat,
         .member = "resources"},
        {.name = "mode",
         .value = "MODE",
         .help = "Access to the workspace (default the agent's)",
         .choices = {"write", "read"}},
        {.name = "isolate", .help = "Run in a separate git worktree (default as the agent)", .takes = ValueType::on},
        {.name = "node",
         .value = "NAME",
         .help = "Server that starts the runs (default the one that gets this request)"},
        {.name = "lease",
         .value = "SECONDS",
         .help = "Silence after which a run is lost (default 60)",
         .takes = ValueType::number,
         .member = "lease_s"},
        {.name = "priority",
         .value = "N",
         .help = "Higher priorities leave the queue first (default 0)",
         .takes = ValueType::number},
        {.name = "hold", .value = "AMOUNT", .help = "Dollars to hold for each run", .takes = ValueType::amount},
        {.name = "disabled", .help = "Create it disabled", .takes = ValueType::off, .member = "enabled"}};
}

}  // namespace

std::vector<CliCommand> schedule_commands() {
    const View* view = &schedules_view();
    return {
        {.words = {"schedules", "ls"},
         .summary = "List schedules with their next times",
         .examples = {{"interlock schedules ls", ""}},
         .method = "GET",
         .path = "/v1/schedules",
         .answer = CliCommand::ResponseShape::list,
         .view = view},
        {.words = {"schedules", "show"},
         .summary = "Show one schedule",
         .arguments = {schedule_argument()},
         .examples = {{"interlock schedules show nightly", ""}},
         .method = "GET",
         .path = "/v1/schedules/{NAME}",
         .view = view},
        {.words = {"schedules", "put"},
         .summary = "Create or change a schedule",
         .arguments = {schedule_argument()},
         .flags = schedule_flags(),
         .examples = {{"interlock schedules put nightly --agent coder --cron '0 3 * * *' --timezone Europe/Berlin", ""},
                      {"interlock schedules put watch --agent watcher --every 15m --overlap skip --jitter 30", ""}},
         .method = "PUT",
         .path = "/v1/schedules/{NAME}",
         .view = view},
        {.words = {"schedules", "next"},
         .summary = "Show the next times of a schedule",
         .arguments = {schedule_argument()},
         .flags = {{.name = "count", .value = "N", .help = "Number of times (default 5)", .takes = ValueType::number}},
         .examples = {{"interlock schedules next nightly --count 10", ""}},
         .method = "GET",
         .path = "/v1/schedules/{NAME}/next",
         .answer = CliCommand::ResponseShape::whole,
         .view = &next_view()},
        {.words = {"schedules", "history"},
         .summary = "List the past ticks of a schedule and their outcomes, newest first",
         .arguments = {schedule_argument()},
         .examples = {{"interlock schedules history nightly --limit 10", ""}},
         .method = "GET",
         .path = "/v1/schedules/{NAME}/history",
         .answer = CliCommand::ResponseShape::list,
         .view = &history_view()},
        {.words = {"schedules", "ticks"},
         .summary = "List the past ticks of all schedules and their outcomes, newest first",
         .flags =
             {{.name = "from",
               .value = "WHEN",
               .help = "Start of the period, such as 24h for a day ago",
               .takes = ValueType::instant},
              {.name = "to", .value = "WHEN", .help = "End of the period", .takes = ValueType::instant},
              {.name = "schedule", .value = "NAME", .help = "Only ticks of this schedule", .completes = "schedules"}},
         .examples = {{"interlock schedules ticks --from 24h", "the last day"}},
         .method = "GET",
         .path = "/v1/ticks",
         .answer = CliCommand::ResponseShape::list,
         .view = &ticks_view()},
        {.words = {"schedules", "pause"},
         .summary = "Pause a schedule; its live runs continue",
         .arguments = {schedule_argument()},
         .examples = {{"interlock schedules pause nightly", ""}},
         .method = "POST",
         .path = "/v1/schedules/{NAME}/pause",
         .view = view},
        {.words = {"schedules", "resume"},
         .summary = "Resume a paused schedule; times that it missed are skipped",
         .arguments = {schedule_argument()},
         .examples = {{"interlock schedules resume nightly", ""}},
         .method = "POST",
         .path = "/v1/schedules/{NAME}/resume",
         .view = view},
        {.words = {"schedules", "trigger"},
         .summary = "Fire a schedule now",
         .arguments = {schedule_argument()},
         .examples = {{"interlock schedules trigger nightly", ""},
                      {"interlock schedules trigger nightly --idempotency-key push-4711",
                       "a repeat with this key has no effect"}},
         .method = "POST",
         .path = "/v1/schedules/{NAME}/trigger",
         .view = &trigger_view(),
         .old_name = "wake"},
        {.words = {"schedules", "rm"},
         .summary = "Remove a schedule; its runs are kept",
         .arguments = {schedule_argument()},
         .examples = {{"interlock schedules rm nightly", ""}},
         .method = "DELETE",
         .path = "/v1/schedules/{NAME}",
         .answer = CliCommand::ResponseShape::nothing,
         .done = "removed schedule {NAME}"},
    };
}

}  // namespace interlock::cli
