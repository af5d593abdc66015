#include <fmt/format.h>

#include <boost/json.hpp>

#include "cli/apply.h"
#include "cli/bench.h"
#include "cli/completion.h"
#include "cli/context.h"
#include "cli/doctor.h"
#include "cli/help.h"
#include "cli/nouns.h"
#include "cli/text.h"
#include "cli/transfer.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

const View& status_view() {
    static const View view{.id = "version",
                           .fields = {{"version", "version"},
                                      {"address", "address"},
                                      {"data directory", "data_dir"},
                                      {"store", "store"},
                                      {"started", "started_at", Format::time},
                                      {"agents", "agents", Format::count},
                                      {"budgets", "budgets", Format::count},
                                      {"live runs", "live_runs", Format::count},
                                      {"queued runs", "queued_runs", Format::count},
                                      {"open holds", "open_holds", Format::count},
                                      {"events", "head_seq", Format::count},
                                      {"head", "head", Format::id},
                                      {"store size", "store_bytes", Format::size},
                                      {"commands", "engine.commands", Format::count},
                                      {"batches", "engine.batches", Format::count},
                                      {"largest batch", "engine.batch_max", Format::count},
                                      {"waiting now", "engine.queue_depth", Format::count},
                                      {"failed commits", "engine.failed_commits", Format::count}}};
    return view;
}

const View& incidents_view() {
    static const View view{.id = "subject",
                           .columns = {{"LEVEL", "level", Format::status},
                                       {"SINCE", "since", Format::time, Room::if_there_is},
                                       {"TITLE", "title", Format::text},
                                       {"DETAIL", "detail", Format::free_text},
                                       {"COMMAND", "command", Format::id}},
                           .when_empty = "No incidents."};
    return view;
}

const View& backup_view() {
    static const View view{.id = "to",
                           .fields = {{"file", "to", Format::id},
                                      {"size", "bytes", Format::size},
                                      {"sha256", "sha256", Format::id},
                                      {"head", "head", Format::id},
                                      {"milliseconds", "milliseconds", Format::count}}};
    return view;
}

const View& login_view() {
    static const View view{.id = "link", .fields = {{"link", "link", Format::id}}};
    return view;
}

std::string promise_table(const json::value& report, const CliOutput& output) {
    TextTable table{.columns = {{""},
                                {"GUARANTEE"},
                                {"CHECKED", Align::right},
                                {"OF", Align::left, Room::if_there_is},
                                {"VIOLATIONS", Align::right}},
                    .rows = {}};
    std::string findings;
    const auto* promises = member_of(report, "promises").if_array();
    for (const json::value& promise : promises == nullptr ? json::array() : *promises) {
        const std::string violations = text_of(member_of(promise, "violations"));
        const bool holds = violations == "0";
        const std::string id = one_line(text_of(member_of(promise, "id")));
        table.rows.push_back({{.text = holds ? "ok" : "FAILED", .style = holds ? Style::green : Style::red},
                              {.text = fmt::format("{} {}", id, one_line(text_of(member_of(promise, "title"))))},
                              {.text = grouped(text_of(member_of(promise, "checked")))},
                              {.text = one_line(text_of(member_of(promise, "checked_what")))},
                              {.text = grouped(violations)}});
        if (const auto* examples = member_of(promise, "examples").if_array()) {
            for (const json::value& example : *examples) {
                findings += fmt::format("{} {}\n    {}\n", id, one_line(text_of(member_of(example, "row"))),
                                        one_line(text_of(member_of(example, "what"))));
            }
        }
        if (const auto* notes = member_of(promise, "notes").if_array()) {
            for (const json::value& note : *notes)
                findings += fmt::format("{} note: {}\n", id, one_line(text_of(note)));
        }
    }
    return render(table, output) + (findings.empty() ? "" : "\n" + findings);
}

ExitCode verify_store(Context& context, const Invocation& invocation) {
    if (!context.world.verify_store) {
        return context.report({.exit = ExitCode::refused,
                               .code = "not_available",
                               .detail = "this program cannot verify a store",
                               .hint = "interlock verify"});
    }
    return context.world.verify_store({.data_dir = find_data_dir(context.settings, context.environment),
                                       .store = invocation.text("store"),
                                       .repair = invocation.has("repair"),
                                       .examples_max = static_cast<std::size_t>(invocation.number("examples", 5)),
                                       .heads = invocation.texts("head"),
                                       .json = context.settings.json},
                                      context.output);
}

ExitCode verify(Context& context, const Invocation& invocation) {
    const bool last = invocation.has("last");
    const bool of_store = !context.settings.data_dir.empty() || invocation.has("store") || invocation.has("head");
    if (of_store && !last) return verify_store(context, invocation);
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const auto answer = client->get(last ? "/v1/verify/last" : "/v1/verify");
    if (!answer) return context.report(answer.error());
    const json::value& report = last ? member_of(answer->document, "report") : answer->document;
    const json::value& ok = member_of(report, "ok");
    const bool holds = ok.is_bool() && ok.get_bool();
    if (context.settings.json) {
        context.output.data(answer->response.body + "\n");
    } else if (report.is_null()) {
        context.remark("not verified since the server started; verify now: interlock verify");
    } else if (!context.settings.quiet || !holds) {
        context.output.data(promise_table(report, context.output));
        if (const auto* heads = member_of(report, "heads").if_array()) {
            for (const json::value& head : *heads) context.output.data("head  " + one_line(text_of(head)) + "\n");
        }
        const std::string how = last ? "at " + one_line(text_of(member_of(answer->document, "at")))
                                     : fmt::format("{} ms", text_of(member_of(report, "milliseconds")));
        const std::string_view hold = last ? "held" : "holds";
        context.remark(holds ? fmt::format("every guarantee {} ({})", hold, how)
                             : fmt::format("{} violations ({})", text_of(member_of(report, "violations")), how));
    }
    return holds || report.is_null() ? ExitCode::ok : ExitCode::refused;
}

ExitCode version(Context& context, const Invocation&) {
    context.output.data(context.settings.json ? json::serialize(json::object{{"version", context.version}}) + "\n"
                                              : fmt::format("interlock {}\n", context.version));
    return ExitCode::ok;
}

ExitCode completion(Context& context, const Invocation& invocation) {
    const auto script = completion_script(invocation.arguments[0], context.local_commands);
    if (!script) {
        return context.report(bad_usage(fmt::format("no completions for '{}'; supported shells are bash, zsh and fish",
                                                    one_line(invocation.arguments[0])),
                                        "interlock completion bash"));
    }
    context.output.data(*script);
    return ExitCode::ok;
}

ExitCode help(Context& context, const Invocation&) {
    context.output.data(exit_codes_help());
    return ExitCode::ok;
}

}  // namespace

std::vector<CliCommand> system_commands() {
    return {
        {.words = {"status"},
         .summary = "Show the state of the server",
         .examples = {{"interlock status", ""}, {"interlock status --watch 1", "refreshed every second"}},
         .method = "GET",
         .path = "/v1/status",
         .view = &status_view()},
        {.words = {"incidents"},
         .summary = "List problems that need attention, most severe first",
         .examples = {{"interlock incidents", ""},
                      {"interlock incidents --watch 5", "refreshed every five seconds"},
                      {"interlock incidents --json | jq -r '.items[] | select(.level == \"stop\").command'", ""}},
         .method = "GET",
         .path = "/v1/incidents",
         .answer = CliCommand::ResponseShape::whole,
         .view = &incidents_view(),
         .notes = "Violated guarantees (of the last verification), budgets that are frozen, exhausted or nearly so, "
                  "paused agents, runs that failed within a day or are queued for more than ten minutes, failing "
                  "upstreams, models without a price."},
        {.words = {"verify"},
         .summary = "Verify every guarantee against the stored rows",
         .flags = {{.name = "last",
                    .help = "Show the result of the server's last check",
                    .takes = ValueType::on,
                    .local = true},
                   {.name = "store",
                    .value = "URI",
                    .help = "Verify the store of several nodes: postgres://…",
                    .local = true},
                   {.name = "repair",
                    .help = "With a store: rebuild wrong counters from the ledger and print each change",
                    .takes = ValueType::on,
                    .local = true},
                   {.name = "examples",
                    .value = "N",
                    .help = "With a store: violations to name per guarantee (default 5)",
                    .takes = ValueType::number,
                    .local = true,
                    .range = Range{0, 1'000'000}},
                   {.name = "head",
                    .value = "N:HASH",
                    .help = "With a store: head that the store must still have, from an earlier verify, backup or "
                            "status; repeatable",
                    .takes = ValueType::repeat,
                    .local = true}},
         .examples = {{"interlock verify", "the running server verifies itself"},
                      {"interlock verify --json | jq .ok", ""},
                      {"interlock verify --last", "the result of the last check"},
                      {"interlock verify --data-dir /var/lib/interlock", "the store, with or without its server"},
                      {"interlock verify --data-dir /var/lib/interlock --repair", "stop the server first"},
                      {"interlock verify --data-dir /var/lib/interlock --head 1523:9af3…",
                       "fails if that commit is gone or differs"},
                      {"interlock verify --store postgres://interlock@db.internal/interlock", "all nodes' store"}},
         .run = verify,
         .notes =
             "Recomputes counters, limits, message order, claims, caps, fences, schedule ticks and the feed's hash "
             "chain. With --data-dir, --store or --head it reads the store itself. --repair never touches the ledger, "
             "messages, claims or the feed.\nExit codes: 0 every guarantee holds, 1 violations, 2 could not verify."},
        {.words = {"login"},
         .summary = "Print a link that logs a browser into the dashboard once",
         .examples = {{"interlock login", "valid for ten minutes"}, {"xdg-open \"$(interlock login --quiet)\"", ""}},
         .method = "POST",
         .path = "/v1/login",
         .view = &login_view()},
        {.words = {"doctor"},
         .summary = "Check this machine and the server, and suggest fixes",
         .examples = {{"interlock doctor", ""},
                      {"interlock doctor --json | jq '.checks[] | select(.level != \"ok\")'", ""}},
         .run = doctor,
         .notes = "Exit codes: 0 no check fails, 1 a check fails."},
        {.words = {"apply"},
         .summary = "Apply the agents, budgets, schedules and caps of a directory",
         .arguments = {{.name = "DIR", .help = "Directory with agents/*.yaml or *.yaml"}},
         .flags = {{.name = "dry-run", .help = "Only show the changes", .takes = ValueType::on, .local = true},
                   {.name = "prune",
                    .help = "Remove what an earlier apply created and the files no longer have",
                    .takes = ValueType::on,
                    .local = true},
                   {.name = "yes",
                    .help = "Do not ask for confirmation",
                    .takes = ValueType::on,
                    .local = true,
                    .short_name = "y"}},
         .examples = {{"interlock apply .", "shows the changes and asks"},
                      {"interlock apply . --dry-run", ""},
                      {"interlock apply . --prune --yes", "in a script"}},
         .run = apply,
         .notes = "docs/agents.md describes the files. If a file has an error, nothing is applied. Applying the same "
                  "files again changes nothing. Without a terminal, --yes is required."},
        {.words = {"backup"},
         .summary = "Copy the store of a running server to a file",
         .arguments =
             {{.name = "FILE", .help = "New file on the server's machine", .takes = ValueType::path, .member = "to"}},
         .examples = {{"interlock backup /var/backups/interlock.db", "existing files are not overwritten"}},
         .method = "POST",
         .path = "/v1/backup",
         .view = &backup_view()},
        {.words = {"export"},
         .summary = "Export agents, caps, sessions, budgets and schedules as JSON lines",
         .arguments = {{.name = "FILE", .help = "New file (default standard output)", .needed = Argument::Needed::no}},
         .examples = {{"interlock export interlock.jsonl", ""},
                      {"interlock export | jq -r 'select(.kind == \"budget\").value.name'", ""}},
         .run = export_everything,
         .notes = "An export has settings and messages, but no charges. For everything, use 'interlock backup'."},
        {.words = {"import"},
         .summary = "Import a file that export wrote",
         .arguments = {{.name = "FILE", .help = "Exported file"}},
         .flags = {{.name = "enable-schedules",
                    .help = "Keep schedules enabled that were enabled (default: import them disabled)",
                    .takes = ValueType::on,
                    .local = true},
                   {.name = "yes",
                    .help = "Do not ask for confirmation",
                    .takes = ValueType::on,
                    .local = true,
                    .short_name = "y"}},
         .examples = {{"interlock import interlock.jsonl", "a repeat changes nothing"},
                      {"interlock import interlock.jsonl --yes", "in a script"}},
         .run = import_everything,
         .notes = "The checksum of the file is verified first. Sessions get new ids. A fork becomes a separate session "
                  "with all its messages. Agents stay paused or archived. The commands in the file are shown before "
                  "the import; without a terminal, --yes is required."},
        {.words = {"bench"},
         .summary = "Measure the charge rate of the server",
         .flags = {{.name = "connections",
                    .value = "N",
                    .help = "Connections (default 8)",
                    .takes = ValueType::number,
                    .local = true,
                    .range = Range{1, 1000}},
                   {.name = "seconds",
                    .value = "S",
                    .help = "Duration of each load (default 5)",
                    .takes = ValueType::decimal,
                    .local = true,
                    .range = Range{0.01, 3600}},
                   {.name = "batch",
                    .value = "N",
                    .help = "Charges per batch (default 100; 1: no batches)",
                    .takes = ValueType::number,
                    .local = true,
                    .range = Range{1, 10'000}}},
         .examples = {{"interlock bench", ""}, {"interlock bench --connections 64 --seconds 10 --json", ""}},
         .run = bench,
         .notes =
             "Creates an agent and charges it one nano-dollar at a time. Budgets without a scope count these charges."},
        {.words = {"completion"},
         .summary = "Print a completion script for a shell",
         .arguments = {{.name = "SHELL", .help = "Shell", .choices = {"bash", "zsh", "fish"}}},
         .examples = {{"source <(interlock completion bash)", "in ~/.bashrc"},
                      {"interlock completion zsh > ~/.zfunc/_interlock", "a directory in fpath"},
                      {"interlock completion fish > ~/.config/fish/completions/interlock.fish", ""}},
         .run = completion},
        {.words = {"version"},
         .summary = "Print the version of this command",
         .examples = {{"interlock version", ""}},
         .run = version},
        {.words = {"help"},
         .summary = "Show the help of a command, or the exit codes",
         .arguments = {{.name = "COMMAND", .help = "Command, or exit-codes", .needed = Argument::Needed::many}},
         .examples = {{"interlock help runs start", ""}, {"interlock help exit-codes", ""}},
         .run = help},
        {.words = {"__complete"},
         .summary = "Print names for the completion scripts",
         .arguments = {{.name = "NOUN"}},
         .run = complete_names,
         .hidden = true},
    };
}

}  // namespace interlock::cli
