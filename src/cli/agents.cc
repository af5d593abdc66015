#include "cli/nouns.h"

namespace interlock::cli {
namespace {

const View& agents_view() {
    static const View view{.id = "name",
                           .columns = {{"NAME", "name", Format::id},
                                       {"STATE", "state", Format::status},
                                       {"LIVE", "live_runs", Format::count},
                                       {"QUEUED", "queued_runs", Format::count},
                                       {"MAX", "max_concurrent_runs", Format::count},
                                       {"SPENT", "spent", Format::money},
                                       {"TOKENS", "tokens", Format::count, Room::if_there_is},
                                       {"LAST SPENT", "last_event_at", Format::time, Room::if_there_is},
                                       {"TAGS", "tags", Format::pairs}},
                           .fields = {{"agent", "name", Format::id},
                                      {"state", "state", Format::status},
                                      {"paused by", "pauses", Format::rows},
                                      {"live runs", "live_runs", Format::count},
                                      {"queued runs", "queued_runs", Format::count},
                                      {"runs at most", "max_concurrent_runs", Format::count},
                                      {"command", "command", Format::words},
                                      {"tags", "tags", Format::pairs},
                                      {"spent", "spent", Format::money},
                                      {"tokens", "tokens", Format::count},
                                      {"cost events", "events", Format::count},
                                      {"last spent", "last_event_at", Format::time},
                                      {"created", "created_at", Format::time}},
                           .when_empty = "There are no agents yet. 'interlock agents put NAME' makes one."};
    return view;
}

Argument name_argument() { return {.name = "NAME", .help = "The agent", .completes = "agents"}; }

}  // namespace

std::vector<Command> agent_commands() {
    const View* view = &agents_view();
    return {
        {.words = {"agents", "ls"},
         .summary = "List agents, with their runs and what they spent",
         .flags = {{.name = "archived", .help = "Archived ones too", .takes = Takes::on}},
         .examples = {{"interlock agents ls", "a table"},
                      {"interlock agents ls --all --quiet", "every name, one a line"}},
         .method = "GET",
         .path = "/v1/agents",
         .answer = Command::Answer::list,
         .view = view},
        {.words = {"agents", "show"},
         .summary = "Show one agent",
         .arguments = {name_argument()},
         .examples = {{"interlock agents show coder", ""},
                      {"interlock agents show coder --watch", "drawn again every two seconds"}},
         .method = "GET",
         .path = "/v1/agents/{NAME}",
         .view = view},
        {.words = {"agents", "put"},
         .summary = "Make an agent, or change it",
         .arguments = {name_argument(),
                       {.name = "COMMAND",
                        .help = "What it runs, behind --",
                        .needed = Argument::Needed::many,
                        .member = "command"}},
         .flags = {{.name = "max-concurrent-runs",
                    .value = "N",
                    .help = "How many runs at a time (1)",
                    .takes = Takes::number},
                   tag_flag("tags")},
         .examples = {{"interlock agents put coder", "one run at a time"},
                      {"interlock agents put coder --max-concurrent-runs 3 --tag team=web -- claude -p", ""}},
         .method = "PUT",
         .path = "/v1/agents/{NAME}",
         .view = view,
         .notes = "The agent becomes exactly what is given here: what is left out gets its default."},
        {.words = {"agents", "pause"},
         .summary = "Let an agent begin nothing new; what runs goes on until it is resumed",
         .arguments = {name_argument()},
         .flags = {{.name = "reason", .value = "TEXT", .help = "Shown to whoever is refused"}},
         .examples = {{"interlock agents pause coder --reason 'looking at the last run'", ""}},
         .method = "POST",
         .path = "/v1/agents/{NAME}/pause",
         .view = view},
        {.words = {"agents", "resume"},
         .summary = "Let a paused agent go on",
         .arguments = {name_argument()},
         .examples = {{"interlock agents resume coder", ""}},
         .method = "POST",
         .path = "/v1/agents/{NAME}/resume",
         .view = view},
        {.words = {"agents", "rm"},
         .summary = "Archive an agent; its ledger stays",
         .arguments = {name_argument()},
         .examples = {{"interlock agents rm coder", "refused while it has unfinished runs"}},
         .method = "DELETE",
         .path = "/v1/agents/{NAME}",
         .answer = Command::Answer::nothing,
         .done = "archived agent {NAME}"},
    };
}

}  // namespace interlock::cli
