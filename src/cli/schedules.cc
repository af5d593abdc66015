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
                   {"missed at most", "missed_max", Format::count},
                   {"workspace", "workspace", Format::free_text},
                   {"resources", "resources", Format::words},
                   {"mode", "mode"},
                   {"isolated", "isolate", Format::yes},
                   {"node", "node"},
                   {"lease", "lease_s", Format::seconds},
                   {"priority", "priority"},
                   {"hold", "hold", Format::money},
                   {"created", "created_at", Format::time}},
        .when_empty =
            "There are no schedules yet. 'interlock schedules put NAME --agent AGENT --every 15m' makes one."};
    return view;
}

const View& next_view() {
    static const View view{
        .id = "at",
        .columns = {{"DUE", "tick", Format::text}, {"STARTS", "at", Format::text}, {"IN", "at", Format::time}},
        .when_empty = "It is not due any more: it is paused. 'interlock schedules resume NAME' ends that."};
    return view;
}

const View& history_view() {
    static const View view{.id = "run",
                           .columns = {{"AT", "at", Format::text},
                                       {"OUTCOME", "outcome", Format::status},
                                       {"LATE", "late_ms", Format::milliseconds},
                                       {"RUN", "run", Format::id, Room::if_there_is},
                                       {"RUN IS", "run_status", Format::status, Room::if_there_is},
                                       {"WHY", "reason", Format::free_text}},
                           .when_empty = "It has not been due yet. 'interlock schedules next NAME' says when it is."};
    return view;
}

const View& ticks_view() {
    static const View view = [] {
        View all = history_view();
        all.columns.insert(all.columns.begin() + 1, {"SCHEDULE", "schedule", Format::id});
        all.when_empty = "No schedule was due in that time. 'interlock schedules ls' says when each is.";
        return all;
    }();
    return view;
}

const View& wake_view() {
    static const View view{.id = "run",
                           .fields = {{"status", "status", Format::status},
                                      {"run", "run", Format::id},
                                      {"run is", "run_status", Format::status},
                                      {"fence", "fence"},
                                      {"repeated", "repeated", Format::yes}}};
    return view;
}

Argument schedule_argument() { return {.name = "NAME", .help = "The schedule", .completes = "schedules"}; }

std::vector<Flag> schedule_flags() {
    Flag agent = agent_flag("Which agent it runs");
    agent.required = true;
    return {
        agent,
        {.name = "every", .value = "LENGTH", .help = "Again and again: 30s, 15m, 2h"},
        {.name = "cron", .value = "EXPRESSION", .help = "At these times: '0 9 * * mon-fri'"},
        {.name = "timezone", .value = "ZONE", .help = "Whose clock cron means: Europe/Berlin (UTC)"},
        {.name = "jitter",
         .value = "SECONDS",
         .help = "Up to so much later, so that not all begin at once",
         .takes = ValueType::number,
         .member = "jitter_s"},
        {.name = "overlap",
         .value = "WHAT",
         .help = "When the last run is still there (skip)",
         .choices = {"skip", "queue", "replace", "allow"}},
        {.name = "missed",
         .value = "WHAT",
         .help = "What was due while nothing ran (one)",
         .choices = {"skip", "one", "all"}},
        {.name = "missed-max", .value = "N", .help = "With --missed all, at most so many", .takes = ValueType::number},
        {.name = "workspace",
         .value = "DIR",
         .help = "The directory its runs work in (the agent's)",
         .takes = ValueType::path},
        {.name = "resource",
         .value = "NAME",
         .help = "A resource they need; again for more (the agent's)",
         .takes = ValueType::repeat,
         .member = "resources"},
        {.name = "mode", .value = "MODE", .help = "write or read (the agent's)", .choices = {"write", "read"}},
        {.name = "isolate", .help = "Each in a git worktree of its own (as the agent)", .takes = ValueType::on},
        {.name = "node", .value = "NAME", .help = "The server that starts them (the one that is asked)"},
        {.name = "lease",
         .value = "SECONDS",
         .help = "Their lease (60)",
         .takes = ValueType::number,
         .member = "lease_s"},
        {.name = "priority", .value = "N", .help = "Their place in line (0)", .takes = ValueType::number},
        {.name = "hold", .value = "AMOUNT", .help = "Dollars set aside for each", .takes = ValueType::amount},
        {.name = "disabled", .help = "Keep it, but let it not fire", .takes = ValueType::off, .member = "enabled"}};
}

}  // namespace

std::vector<CliCommand> schedule_commands() {
    const View* view = &schedules_view();
    return {
        {.words = {"schedules", "ls"},
         .summary = "List schedules, and when they fire next",
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
         .summary = "Make a schedule, or change it",
         .arguments = {schedule_argument()},
         .flags = schedule_flags(),
         .examples = {{"interlock schedules put nightly --agent coder --cron '0 3 * * *' --timezone Europe/Berlin", ""},
                      {"interlock schedules put watch --agent watcher --every 15m --overlap skip --jitter 30", ""}},
         .method = "PUT",
         .path = "/v1/schedules/{NAME}",
         .view = view},
        {.words = {"schedules", "next"},
         .summary = "Say when a schedule is due next",
         .arguments = {schedule_argument()},
         .flags = {{.name = "count", .value = "N", .help = "How many times (5)", .takes = ValueType::number}},
         .examples = {{"interlock schedules next nightly --count 10", ""}},
         .method = "GET",
         .path = "/v1/schedules/{NAME}/next",
         .answer = CliCommand::ResponseShape::whole,
         .view = &next_view()},
        {.words = {"schedules", "history"},
         .summary = "Show what became of a schedule's ticks, the newest first",
         .arguments = {schedule_argument()},
         .examples = {{"interlock schedules history nightly --limit 10", ""}},
         .method = "GET",
         .path = "/v1/schedules/{NAME}/history",
         .answer = CliCommand::ResponseShape::list,
         .view = &history_view()},
        {.words = {"schedules", "ticks"},
         .summary = "Show what became of the ticks of all schedules, the newest first",
         .flags =
             {{.name = "from", .value = "WHEN", .help = "From then on: 24h for a day ago", .takes = ValueType::instant},
              {.name = "to", .value = "WHEN", .help = "Up to then", .takes = ValueType::instant},
              {.name = "schedule", .value = "NAME", .help = "Only this one's", .completes = "schedules"}},
         .examples = {{"interlock schedules ticks --from 24h", "what happened tonight"}},
         .method = "GET",
         .path = "/v1/ticks",
         .answer = CliCommand::ResponseShape::list,
         .view = &ticks_view()},
        {.words = {"schedules", "pause"},
         .summary = "Let a schedule rest; its runs go on",
         .arguments = {schedule_argument()},
         .examples = {{"interlock schedules pause nightly", ""}},
         .method = "POST",
         .path = "/v1/schedules/{NAME}/pause",
         .view = view},
        {.words = {"schedules", "resume"},
         .summary = "Let a schedule fire again; what it missed stays missed",
         .arguments = {schedule_argument()},
         .examples = {{"interlock schedules resume nightly", ""}},
         .method = "POST",
         .path = "/v1/schedules/{NAME}/resume",
         .view = view},
        {.words = {"schedules", "wake"},
         .summary = "Fire a schedule now",
         .arguments = {schedule_argument()},
         .examples = {{"interlock schedules wake nightly", ""},
                      {"interlock schedules wake nightly --idempotency-key push-4711", "again: nothing more"}},
         .method = "POST",
         .path = "/v1/schedules/{NAME}/wake",
         .view = &wake_view()},
        {.words = {"schedules", "rm"},
         .summary = "Remove a schedule; its runs stay",
         .arguments = {schedule_argument()},
         .examples = {{"interlock schedules rm nightly", ""}},
         .method = "DELETE",
         .path = "/v1/schedules/{NAME}",
         .answer = CliCommand::ResponseShape::nothing,
         .done = "removed schedule {NAME}"},
    };
}

}  // namespace interlock::cli
