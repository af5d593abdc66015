#include "cli/nouns.h"

namespace interlock::cli {
namespace {

const std::vector<std::string> statuses{"queued", "starting",  "running",   "paused", "succeeded",
                                        "failed", "cancelled", "timed_out", "lost"};

const View& runs_view() {
    static const View view{.columns = {{"RUN", "id", Format::id},
                                       {"NAME", "name", Format::id, Room::if_there_is},
                                       {"STATUS", "status", Format::status},
                                       {"AGENT", "agent", Format::id},
                                       {"TOOK", "", Format::took, Room::if_there_is},
                                       {"SPENT", "spent", Format::money},
                                       {"CREATED", "created_at", Format::time},
                                       {"LEASE", "lease_until", Format::time, Room::if_there_is},
                                       {"FENCE", "fence", Format::count, Room::if_there_is},
                                       {"WORKSPACE", "workspace", Format::free_text},
                                       {"REASON", "reason", Format::free_text}},
                           .fields = {{"run", "id", Format::id},
                                      {"name", "name"},
                                      {"status", "status", Format::status},
                                      {"exit code", "exit_code"},
                                      {"command", "command", Format::words},
                                      {"asked to stop", "stop_requested", Format::free_text},
                                      {"reason", "reason", Format::free_text},
                                      {"place in line", "place_in_line", Format::count},
                                      {"waits for", "waits_for", Format::words},
                                      {"agent", "agent", Format::id},
                                      {"workflow", "workflow"},
                                      {"provider", "provider"},
                                      {"model", "model"},
                                      {"session", "session", Format::id},
                                      {"schedule", "schedule", Format::id},
                                      {"tags", "tags", Format::pairs},
                                      {"node", "node"},
                                      {"places", "places", Format::rows},
                                      {"sandbox", "sandbox"},
                                      {"isolated", "isolated", Format::yes},
                                      {"fence", "fence"},
                                      {"priority", "priority"},
                                      {"lease", "lease_s", Format::seconds},
                                      {"lease ends", "lease_until", Format::time},
                                      {"created", "created_at", Format::time},
                                      {"admitted", "admitted_at", Format::time},
                                      {"started", "started_at", Format::time},
                                      {"ended", "ended_at", Format::time},
                                      {"took", "", Format::took},
                                      {"waits until", "queued_until", Format::time},
                                      {"not before", "not_before", Format::time},
                                      {"attempt", "attempt"},
                                      {"retry of", "retry_of", Format::id},
                                      {"parent", "parent", Format::id},
                                      {"budget", "budget", Format::money},
                                      {"hold", "hold", Format::id},
                                      {"spent", "spent", Format::money},
                                      {"with children", "spent_total", Format::money},
                                      {"estimated", "estimated", Format::money},
                                      {"tokens", "tokens", Format::count},
                                      {"cost events", "events", Format::count},
                                      {"repeated", "repeated", Format::yes}},
                           .when_empty = "There are no runs here. 'interlock run -- COMMAND' starts one."};
    return view;
}

std::vector<Flag> start_flags() {
    return {{.name = "workspace", .value = "DIR", .help = "The directory it works in", .takes = ValueType::path},
            {.name = "resource",
             .value = "NAME",
             .help = "A named resource it needs; again for more",
             .takes = ValueType::repeat,
             .member = "resources"},
            {.name = "mode",
             .value = "MODE",
             .help = "write alone, or read beside others (write)",
             .choices = {"write", "read"}},
            {.name = "on-conflict",
             .value = "WHAT",
             .help = "When the place is taken (refuse)",
             .choices = {"refuse", "queue", "replace", "isolate"}},
            {.name = "isolate-into",
             .value = "DIR",
             .help = "Where to work instead, with --on-conflict isolate",
             .takes = ValueType::path},
            {.name = "queue",
             .value = "SECONDS",
             .help = "How long to wait in line (for ever)",
             .takes = ValueType::number,
             .member = "queue_s"},
            {.name = "priority", .value = "N", .help = "Higher goes first in line (0)", .takes = ValueType::number},
            {.name = "lease",
             .value = "SECONDS",
             .help = "Lost when no heartbeat comes for so long (60)",
             .takes = ValueType::number,
             .member = "lease_s"},
            {.name = "hold", .value = "AMOUNT", .help = "Dollars to set aside for it", .takes = ValueType::amount},
            {.name = "hold-tokens", .value = "N", .help = "Tokens to set aside", .takes = ValueType::number},
            {.name = "hold-calls", .value = "N", .help = "Calls to set aside", .takes = ValueType::number},
            {.name = "metered", .help = "Its spending is charged call by call", .takes = ValueType::on},
            {.name = "session", .value = "ID", .help = "The session it writes to", .completes = "sessions"},
            {.name = "workflow", .value = "NAME", .help = "Counted under this workflow"},
            {.name = "provider", .value = "NAME", .help = "Counted under this provider"},
            {.name = "model", .value = "NAME", .help = "Counted under this model"},
            {.name = "node", .value = "NAME", .help = "The machine it runs on"},
            tag_flag("tags")};
}

std::vector<Flag> charge_flags() {
    return joined({{.name = "cost",
                    .value = "AMOUNT",
                    .help = "What it cost in the end",
                    .takes = ValueType::amount,
                    .member = "charge.cost"},
                   {.name = "provider", .value = "NAME", .help = "Where", .member = "charge.provider"},
                   {.name = "model", .value = "NAME", .help = "With which model", .member = "charge.model"},
                   {.name = "calls",
                    .value = "N",
                    .help = "In how many calls",
                    .takes = ValueType::number,
                    .member = "charge.calls"},
                   {.name = "price", .value = "ID", .help = "By which price", .member = "charge.price"}},
                  {usage_flags("charge.usage.")});
}

CliCommand change(std::string verb, std::string summary, std::vector<Flag> flags, std::vector<Example> examples) {
    const std::string path = verb == "begin" ? "start" : verb;
    return {.words = {"runs", std::move(verb)},
            .summary = std::move(summary),
            .arguments = {run_argument()},
            .flags = std::move(flags),
            .examples = std::move(examples),
            .method = "POST",
            .path = "/v1/runs/{RUN}/" + path,
            .view = &runs_view()};
}

const View& steps_view() {
    static const View view{.id = "status",
                           .columns = {{"AT", "at", Format::text},
                                       {"STATUS", "status", Format::status},
                                       {"WAITS FOR", "waits_for", Format::text, Room::if_there_is},
                                       {"WHY", "reason", Format::free_text}},
                           .when_empty = "It is from before steps were written down."};
    return view;
}

}  // namespace

Argument run_argument() { return {.name = "RUN", .help = "Its id", .completes = "runs"}; }

std::vector<CliCommand> run_commands() {
    const View* view = &runs_view();
    Flag any_fence = fence_flag();
    any_fence.required = false;
    any_fence.help = "Only if the run still has this fence";
    Flag owners_fence = fence_flag();
    owners_fence.required = false;
    owners_fence.help = "Its fence, if the run is a client's own";
    const Flag reason{.name = "reason", .value = "TEXT", .help = "Why"};
    return {
        {.words = {"runs", "ls"},
         .summary = "List runs, the newest first",
         .flags = {{.name = "status",
                    .value = "STATUS,…",
                    .help = "Only these",
                    .takes = ValueType::words,
                    .choices = statuses},
                   agent_flag("Only this agent's"),
                   {.name = "name", .value = "NAME", .help = "Only those of this name"},
                   {.name = "schedule",
                    .value = "NAME",
                    .help = "Only those that this schedule started",
                    .completes = "schedules"},
                   {.name = "parent",
                    .value = "RUN",
                    .help = "Only those that a program of this run started",
                    .completes = "runs"}},
         .examples = {{"interlock runs ls --status starting,running,paused", "the live ones"},
                      {"interlock runs ls --agent coder --limit 20 --watch", ""}},
         .method = "GET",
         .path = "/v1/runs",
         .answer = CliCommand::ResponseShape::list,
         .view = view},
        {.words = {"runs", "show"},
         .summary = "Show one run",
         .arguments = {run_argument()},
         .examples = {{"interlock runs show run_01jcq3w8y5e9m8t2k4x6v0a1bc --watch", ""}},
         .method = "GET",
         .path = "/v1/runs/{RUN}",
         .view = view},
        {.words = {"runs", "steps"},
         .summary = "Show what became of a run, step by step",
         .arguments = {run_argument()},
         .examples = {{"interlock runs steps run_01jcq3w8y5e9m8t2k4x6v0a1bc", ""}},
         .method = "GET",
         .path = "/v1/runs/{RUN}/steps",
         .answer = CliCommand::ResponseShape::list,
         .view = &steps_view()},
        {.words = {"runs", "start"},
         .summary = "Ask to run an agent: its caps, budgets and place are decided together",
         .arguments = {{.name = "AGENT", .help = "Which", .completes = "agents", .member = "agent"}},
         .flags = start_flags(),
         .examples = {{"interlock runs start coder --workspace ~/src/app", "refused if somebody works there"},
                      {"interlock runs start coder --workspace ~/src/app --on-conflict queue --queue 600",
                       "waits in line"},
                      {"interlock runs start deployer --resource deploy-prod --hold 1.00 --json | jq '{id,fence}'",
                       ""}},
         .method = "POST",
         .path = "/v1/runs",
         .view = view,
         .notes =
             "The answer has the run's id and its fence. Whoever acts for the run shows the fence; a run that lost\n"
             "its lease has a fence that is worth nothing any more."},
        change("begin", "Say that the process of an admitted run is up", {fence_flag()},
               {{"interlock runs begin $run --fence 1", ""}}),
        change("heartbeat", "Say that a run is alive, and hear whether it should stop", {fence_flag()},
               {{"interlock runs heartbeat $run --fence 1", "prolongs its lease"}}),
        change("pause", "Pause a running run; it keeps its place", {owners_fence},
               {{"interlock runs pause $run", "its processes stand still"},
                {"interlock runs pause $run --fence 1", "by the client that owns it"}}),
        change("resume", "Let a paused run go on", {owners_fence}, {{"interlock runs resume $run", ""}}),
        change("retry", "Start again what an ended run was", {}, {{"interlock runs retry $run", "as a new run"}}),
        change("finish", "End a run, with what it cost; its place goes to the next in line",
               joined({fence_flag(),
                       {.name = "outcome",
                        .value = "OUTCOME",
                        .help = "How it ended",
                        .choices = {"succeeded", "failed", "timed_out"},
                        .required = true},
                       reason},
                      {charge_flags()}),
               {{"interlock runs finish $run --fence 1 --outcome succeeded --cost 0.42 --output-tokens 9000", ""},
                {"interlock runs finish $run --fence 1 --outcome failed --reason 'tests are red'", ""}}),
        change("cancel", "Stop a run, whoever has it", joined({any_fence, reason}, {charge_flags()}),
               {{"interlock runs cancel $run --reason 'wrong branch'", ""}}),
    };
}

}  // namespace interlock::cli
