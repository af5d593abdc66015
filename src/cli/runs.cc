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
                                      {"cancel requested", "cancel_requested", Format::free_text},
                                      {"reason", "reason", Format::free_text},
                                      {"queue position", "queue_position", Format::count},
                                      {"waits for", "waits_for", Format::words},
                                      {"agent", "agent", Format::id},
                                      {"workflow", "workflow"},
                                      {"provider", "provider"},
                                      {"model", "model"},
                                      {"session", "session", Format::id},
                                      {"schedule", "schedule", Format::id},
                                      {"tags", "tags", Format::pairs},
                                      {"node", "node"},
                                      {"claims", "places", Format::rows},
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
                                      {"queue timeout", "queued_until", Format::time},
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
                           .when_empty = "No runs. Start one: interlock run -- COMMAND"};
    return view;
}

std::vector<Flag> start_flags() {
    return {{.name = "workspace", .value = "DIR", .help = "Directory to claim", .takes = ValueType::path},
            {.name = "resource",
             .value = "NAME",
             .help = "Named resource to claim; repeatable",
             .takes = ValueType::repeat,
             .member = "resources"},
            {.name = "mode",
             .value = "MODE",
             .help = "Access to the workspace: write alone, or read with others (default write)",
             .choices = {"write", "read"}},
            {.name = "on-conflict",
             .value = "ACTION",
             .help = "If the workspace is in use (default refuse)",
             .choices = {"refuse", "queue", "replace", "isolate"}},
            {.name = "isolate-into",
             .value = "DIR",
             .help = "With --on-conflict isolate: directory to claim instead",
             .takes = ValueType::path},
            {.name = "queue-timeout",
             .value = "TIME",
             .help = "Longest wait in the queue (default none)",
             .takes = ValueType::length,
             .member = "queue_timeout_s",
             .old_names = {"queue"}},
            {.name = "priority",
             .value = "N",
             .help = "Higher priorities leave the queue first (default 0)",
             .takes = ValueType::number},
            {.name = "lease",
             .value = "SECONDS",
             .help = "Silence after which the run is lost (default 60)",
             .takes = ValueType::number,
             .member = "lease_s"},
            {.name = "hold", .value = "AMOUNT", .help = "Dollars to hold for the run", .takes = ValueType::amount},
            {.name = "hold-tokens", .value = "N", .help = "Tokens to hold", .takes = ValueType::number},
            {.name = "hold-calls", .value = "N", .help = "Calls to hold", .takes = ValueType::number},
            {.name = "metered", .help = "Its cost is charged call by call", .takes = ValueType::on},
            {.name = "session", .value = "ID", .help = "Session of the run", .completes = "sessions"},
            {.name = "workflow", .value = "NAME", .help = "Workflow to count it under"},
            {.name = "provider", .value = "NAME", .help = "Provider to count it under"},
            {.name = "model", .value = "NAME", .help = "Model to count it under"},
            {.name = "node", .value = "NAME", .help = "Machine that it runs on"},
            tag_flag("tags")};
}

std::vector<Flag> charge_flags() {
    return joined(
        {{.name = "cost",
          .value = "AMOUNT",
          .help = "Total cost of the run",
          .takes = ValueType::amount,
          .member = "charge.cost"},
         {.name = "provider", .value = "NAME", .help = "Provider", .member = "charge.provider"},
         {.name = "model", .value = "NAME", .help = "Model", .member = "charge.model"},
         {.name = "calls",
          .value = "N",
          .help = "Number of calls",
          .takes = ValueType::number,
          .member = "charge.calls"},
         {.name = "price", .value = "ID", .help = "Price that the cost was computed with", .member = "charge.price"}},
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
                                       {"REASON", "reason", Format::free_text}},
                           .when_empty = "No steps. The run is older than this record."};
    return view;
}

}  // namespace

Argument run_argument() { return {.name = "RUN", .help = "Run id", .completes = "runs"}; }

std::vector<CliCommand> run_commands() {
    const View* view = &runs_view();
    Flag any_fence = fence_flag();
    any_fence.required = false;
    any_fence.help = "Cancel only if the run still has this fence";
    Flag owners_fence = fence_flag();
    owners_fence.required = false;
    owners_fence.help = "Fence, if a client owns the run";
    const Flag reason{.name = "reason", .value = "TEXT", .help = "Reason"};
    return {
        {.words = {"runs", "ls"},
         .summary = "List runs, newest first",
         .flags = {{.name = "status",
                    .value = "STATUS,…",
                    .help = "Only runs with these statuses",
                    .takes = ValueType::words,
                    .choices = statuses},
                   agent_flag("Only runs of this agent"),
                   {.name = "name", .value = "NAME", .help = "Only runs with this name"},
                   {.name = "schedule",
                    .value = "NAME",
                    .help = "Only runs that this schedule started",
                    .completes = "schedules"},
                   {.name = "parent", .value = "RUN", .help = "Only child runs of this run", .completes = "runs"}},
         .examples = {{"interlock runs ls --status starting,running,paused", "live runs"},
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
         .summary = "Show the status changes of a run",
         .arguments = {run_argument()},
         .examples = {{"interlock runs steps run_01jcq3w8y5e9m8t2k4x6v0a1bc", ""}},
         .method = "GET",
         .path = "/v1/runs/{RUN}/steps",
         .answer = CliCommand::ResponseShape::list,
         .view = &steps_view()},
        {.words = {"runs", "start"},
         .summary = "Admit a run that a client starts itself",
         .arguments = {{.name = "AGENT", .help = "Agent of the run", .completes = "agents", .member = "agent"}},
         .flags = start_flags(),
         .examples = {{"interlock runs start coder --workspace ~/src/app", "refused if the workspace is in use"},
                      {"interlock runs start coder --workspace ~/src/app --on-conflict queue --queue-timeout 10m",
                       "waits at most ten minutes"},
                      {"interlock runs start deployer --resource deploy-prod --hold 1.00 --json | jq '{id,fence}'",
                       ""}},
         .method = "POST",
         .path = "/v1/runs",
         .view = view,
         .notes = "Caps, budgets and claims are decided together. The response has the run's id and its fence. Later "
                  "requests for the run must carry the fence. A run that lost its lease can no longer use its fence. "
                  "To let Interlock start the process, use 'interlock run'."},
        change("begin", "Report that the process of an admitted run has started", {fence_flag()},
               {{"interlock runs begin $run --fence 1", ""}}),
        change("heartbeat", "Renew the lease of a run; the response tells if cancel was requested", {fence_flag()},
               {{"interlock runs heartbeat $run --fence 1", ""}}),
        change("pause", "Pause a running run; it keeps its claims", {owners_fence},
               {{"interlock runs pause $run", "stops its processes with SIGSTOP"},
                {"interlock runs pause $run --fence 1", "for a run that a client owns"}}),
        change("resume", "Resume a paused run", {owners_fence}, {{"interlock runs resume $run", ""}}),
        change("retry", "Start an ended run again, as a new run", {}, {{"interlock runs retry $run", ""}}),
        change("finish", "Report the end of a run with its cost; this frees its claims",
               joined({fence_flag(),
                       {.name = "outcome",
                        .value = "OUTCOME",
                        .help = "Outcome of the run",
                        .choices = {"succeeded", "failed", "timed_out"},
                        .required = true},
                       reason},
                      {charge_flags()}),
               {{"interlock runs finish $run --fence 1 --outcome succeeded --cost 0.42 --output-tokens 9000", ""},
                {"interlock runs finish $run --fence 1 --outcome failed --reason 'tests are red'", ""}}),
        cancel_command(joined({any_fence, reason}, {charge_flags()})),
    };
}

}  // namespace interlock::cli
