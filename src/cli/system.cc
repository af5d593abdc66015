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
                                       {"WHAT", "title", Format::text},
                                       {"DETAIL", "detail", Format::free_text},
                                       {"WHAT HELPS", "command", Format::id}},
                           .when_empty = "There is nothing to look at."};
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

std::string promise_table(const json::value& report, const CliOutput& terminal) {
    TextTable table{.columns = {{""},
                                {"PROMISE"},
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
        table.rows.push_back({{.text = holds ? "ok" : "BROKEN", .style = holds ? Style::green : Style::red},
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
    return render(table, terminal) + (findings.empty() ? "" : "\n" + findings);
}

ExitCode verify(Context& context, const Invocation& invocation) {
    const bool last = invocation.has("last");
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const auto answer = client->get(last ? "/v1/verify/last" : "/v1/verify");
    if (!answer) return context.report(answer.error());
    const json::value& report = last ? member_of(answer->document, "report") : answer->document;
    const json::value& ok = member_of(report, "ok");
    const bool holds = ok.is_bool() && ok.get_bool();
    if (context.settings.json) {
        context.terminal.data(answer->response.body + "\n");
    } else if (report.is_null()) {
        context.remark("nothing was checked since the server was started; 'interlock verify' checks now");
    } else if (!context.settings.quiet || !holds) {
        context.terminal.data(promise_table(report, context.terminal));
        if (const auto* heads = member_of(report, "heads").if_array()) {
            for (const json::value& head : *heads) context.terminal.data("head  " + one_line(text_of(head)) + "\n");
        }
        const std::string how = last ? "at " + one_line(text_of(member_of(answer->document, "at")))
                                     : fmt::format("{} ms", text_of(member_of(report, "milliseconds")));
        const std::string_view hold = last ? "held" : "holds";
        context.remark(holds ? fmt::format("every promise {} ({})", hold, how)
                             : fmt::format("{} violations ({})", text_of(member_of(report, "violations")), how));
    }
    return holds || report.is_null() ? ExitCode::ok : ExitCode::refused;
}

ExitCode version(Context& context, const Invocation&) {
    context.terminal.data(context.settings.json ? json::serialize(json::object{{"version", context.version}}) + "\n"
                                                : fmt::format("interlock {}\n", context.version));
    return ExitCode::ok;
}

ExitCode completion(Context& context, const Invocation& invocation) {
    const auto script = completion_script(invocation.arguments[0], context.others);
    if (!script) {
        return context.report(bad_usage(fmt::format("there are completions for bash, zsh and fish, not for '{}'",
                                                    one_line(invocation.arguments[0])),
                                        "interlock completion bash"));
    }
    context.terminal.data(*script);
    return ExitCode::ok;
}

ExitCode help(Context& context, const Invocation&) {
    context.terminal.data(exit_codes_help());
    return ExitCode::ok;
}

}  // namespace

std::vector<CliCommand> system_commands() {
    return {
        {.words = {"status"},
         .summary = "Show how the server is doing",
         .examples = {{"interlock status", ""}, {"interlock status --watch 1", "drawn again every second"}},
         .method = "GET",
         .path = "/v1/status",
         .view = &status_view()},
        {.words = {"incidents"},
         .summary = "List what somebody should look at, the worst first",
         .examples = {{"interlock incidents", ""},
                      {"interlock incidents --watch 5", "drawn again every five seconds"},
                      {"interlock incidents --json | jq -r '.items[] | select(.level == \"stop\").command'", ""}},
         .method = "GET",
         .path = "/v1/incidents",
         .answer = CliCommand::ResponseShape::whole,
         .view = &incidents_view(),
         .notes =
             "Broken promises (of the last check), budgets that are frozen, used up or near it, paused agents, runs\n"
             "that failed within a day or wait for more than ten minutes, failing upstreams, models without a price."},
        {.words = {"verify"},
         .summary = "Check every promise against the stored rows",
         .flags = {{.name = "last",
                    .help = "Only show what the server's last check found",
                    .takes = ValueType::on,
                    .local = true}},
         .examples = {{"interlock verify", "the running server checks itself"},
                      {"interlock verify --json | jq .ok", ""},
                      {"interlock verify --last", "what it found the last time"},
                      {"interlock verify --data-dir /var/lib/interlock", "checks a store, with or without a server"}},
         .run = verify,
         .notes = "Ends with 0 when every promise holds and with 1 when one is broken."},
        {.words = {"login"},
         .summary = "Print a link that logs a browser into the page, once",
         .examples = {{"interlock login", "good for ten minutes"}, {"xdg-open \"$(interlock login --quiet)\"", ""}},
         .method = "POST",
         .path = "/v1/login",
         .view = &login_view()},
        {.words = {"doctor"},
         .summary = "Look for what is wrong here, and say what to do",
         .examples = {{"interlock doctor", ""},
                      {"interlock doctor --json | jq '.checks[] | select(.level != \"ok\")'", ""}},
         .run = doctor,
         .notes = "Ends with 1 when something has to be done."},
        {.words = {"apply"},
         .summary = "Make the server have the agents, budgets and schedules of a directory",
         .arguments = {{.name = "DIR", .help = "With agents/*.yaml, or *.yaml"}},
         .flags = {{.name = "dry-run", .help = "Only show what would change", .takes = ValueType::on, .local = true},
                   {.name = "prune",
                    .help = "Remove what an earlier apply made and the files have no more",
                    .takes = ValueType::on,
                    .local = true},
                   {.name = "yes", .help = "Do not ask", .takes = ValueType::on, .local = true, .short_name = "y"}},
         .examples = {{"interlock apply .", "shows what would change, and asks"},
                      {"interlock apply . --dry-run", ""},
                      {"interlock apply . --prune --yes", "in a pipeline, where nobody is asked"}},
         .run = apply,
         .notes = "docs/agents.md has the format of the files. A mistake in any of them, and nothing is applied. The\n"
                  "same files again change nothing. Without a terminal to ask on, --yes is needed."},
        {.words = {"backup"},
         .summary = "Copy the server's store to a file, while it runs",
         .arguments = {{.name = "FILE",
                        .help = "A new file, on the server's machine",
                        .takes = ValueType::path,
                        .member = "to"}},
         .examples = {{"interlock backup /var/backups/interlock.db", "never written over"}},
         .method = "POST",
         .path = "/v1/backup",
         .view = &backup_view()},
        {.words = {"export"},
         .summary = "Write agents, caps, sessions, budgets and schedules as lines of JSON",
         .arguments = {{.name = "FILE",
                        .help = "A new file; without it, standard output",
                        .needed = Argument::Needed::no}},
         .examples = {{"interlock export interlock.jsonl", ""},
                      {"interlock export | jq -r 'select(.kind == \"budget\").value.name'", ""}},
         .run = export_everything,
         .notes = "What was spent is not in it: a backup has everything, an export what was set up and said."},
        {.words = {"import"},
         .summary = "Bring what export wrote to this server",
         .arguments = {{.name = "FILE", .help = "What export wrote"}},
         .flags = {{.name = "enable-schedules",
                    .help = "Enable the schedules that were enabled; without it, they are imported as disabled",
                    .takes = ValueType::on,
                    .local = true},
                   {.name = "yes", .help = "Do not ask", .takes = ValueType::on, .local = true, .short_name = "y"}},
         .examples = {{"interlock import interlock.jsonl", "again: nothing changes"},
                      {"interlock import interlock.jsonl --yes", "in a script"}},
         .run = import_everything,
         .notes = "Nothing is sent before the file's checksum was found right. Sessions get new ids; a fork becomes a\n"
                  "session of its own, with all its messages. Agents that were paused or archived are so here. The\n"
                  "commands that the file brings are shown first; without a terminal to ask on, --yes is needed."},
        {.words = {"bench"},
         .summary = "Measure how many charges the server takes",
         .flags = {{.name = "connections", .value = "N", .help = "How many at a time (8)", .local = true},
                   {.name = "seconds", .value = "S", .help = "How long each load lasts (5)", .local = true},
                   {.name = "batch",
                    .value = "N",
                    .help = "Charges in a batch (100); 1 leaves the batches out",
                    .local = true}},
         .examples = {{"interlock bench", ""}, {"interlock bench --connections 64 --seconds 10 --json", ""}},
         .run = bench,
         .notes = "Charges an agent made for it a nano-dollar at a time. Budgets without a scope count them too."},
        {.words = {"completion"},
         .summary = "Print a completion script for a shell",
         .arguments = {{.name = "SHELL", .help = "bash, zsh or fish", .choices = {"bash", "zsh", "fish"}}},
         .examples = {{"source <(interlock completion bash)", "in ~/.bashrc"},
                      {"interlock completion zsh > ~/.zfunc/_interlock", "a directory in fpath"},
                      {"interlock completion fish > ~/.config/fish/completions/interlock.fish", ""}},
         .run = completion},
        {.words = {"version"},
         .summary = "Print the version of this command",
         .examples = {{"interlock version", ""}},
         .run = version},
        {.words = {"help"},
         .summary = "Explain a command, or 'exit-codes'",
         .arguments = {{.name = "COMMAND", .help = "Which; or exit-codes", .needed = Argument::Needed::many}},
         .examples = {{"interlock help runs start", ""}, {"interlock help exit-codes", ""}},
         .run = help},
        {.words = {"__complete"},
         .summary = "Names for the completion scripts",
         .arguments = {{.name = "NOUN"}},
         .run = complete_names,
         .hidden = true},
    };
}

}  // namespace interlock::cli
