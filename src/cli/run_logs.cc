// What runs write, read and followed; and how they are ended.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>

#include "base/shell.h"
#include "cli/context.h"
#include "cli/nouns.h"
#include "cli/request.h"
#include "cli/run_logs.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr std::int64_t piece_bytes_max = 1 << 20;  // What the server gives at most.
constexpr std::int64_t wait_s_max = 25;
constexpr milliseconds wait_first{100};
constexpr milliseconds wait_max{2000};
constexpr milliseconds look_again{500};

std::string target_of(const std::string& run) { return "/v1/runs/" + percent_encoded(run); }

std::int64_t number_from(const std::string& text) {
    std::int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

// ---- reading ------------------------------------------------------------------------------------------------------

struct Piece {
    std::string bytes;
    std::int64_t offset = 0;
    std::int64_t next = 0;
    std::int64_t end = 0;
    bool run_ended = false;
};

struct Wanted {
    std::string run;
    std::int64_t offset = 0;  // Negative: so many from the end.
    std::int64_t bytes_max = piece_bytes_max;
    std::int64_t wait_s = 0;
};

Outcome<Piece> read_piece(ApiClient& client, const Wanted& wanted) {
    std::string target = with_query(target_of(wanted.run) + "/log", "offset", fmt::format("{}", wanted.offset));
    target = with_query(target, "limit", fmt::format("{}", wanted.bytes_max));
    if (wanted.wait_s > 0) target = with_query(target, "wait", fmt::format("{}", wanted.wait_s));
    auto response = client.fetch(target);
    if (!response) return fail(response.error());
    return Piece{.bytes = std::move(response->body),
                 .offset = number_from(response->header("x-interlock-log-offset")),
                 .next = number_from(response->header("x-interlock-log-next")),
                 .end = number_from(response->header("x-interlock-log-end")),
                 .run_ended = response->header("x-interlock-run-ended") == "true"};
}

enum class Follow { no, yes };

// Prints from `offset` on: up to what there is, or until the run has ended and all of it was printed.
Outcome<void> print_log(Context& context, ApiClient& client, const std::string& run, std::int64_t offset,
                        Follow follow) {
    const auto timeout_s = static_cast<std::int64_t>(context.settings.timeout_s);
    const std::int64_t wait_s = follow == Follow::no ? 0 : std::clamp<std::int64_t>(timeout_s / 2, 1, wait_s_max);
    bool heard = false;
    milliseconds pause = wait_first;
    while (true) {
        // The first time it only looks: from then on it is known that there is a server.
        auto piece = read_piece(client, {.run = run, .offset = offset, .wait_s = heard ? wait_s : 0});
        if (!piece) {
            // A server that restarts is worth waiting for; one that never was there is not.
            const ExitCode exit = piece.error().exit;
            const bool passing = exit == ExitCode::not_reachable || exit == ExitCode::busy;
            if (follow == Follow::no || !heard || !passing) return fail(piece.error());
            context.world.sleep(pause);
            pause = std::min(pause * 2, wait_max);
            if (auto again = context.connect()) client = std::move(*again);  // It may listen elsewhere now.
            continue;
        }
        heard = true;
        pause = wait_first;
        if (offset >= 0 && piece->offset > offset) {
            context.terminal.talk(
                fmt::format("… {} were given up here to keep the log in bounds …", size(piece->offset - offset)));
        }
        context.terminal.data(piece->bytes);
        std::fflush(context.terminal.out);
        if (context.terminal.full()) return {};
        const bool stuck = piece->bytes.empty() && piece->next <= offset;  // The rest is not to be had.
        offset = piece->next;
        const bool all = piece->next >= piece->end || stuck;
        if (all && (follow == Follow::no || piece->run_ended)) return {};
    }
}

// Where the last lines begin, as far as they are in the last piece.
Outcome<std::int64_t> tail_offset(ApiClient& client, const std::string& run, std::int64_t lines) {
    const auto piece = read_piece(client, {.run = run, .offset = -piece_bytes_max});
    if (!piece) return fail(piece.error());
    std::size_t at = piece->bytes.size();
    if (lines == 0) return piece->next;
    if (at > 0 && piece->bytes[at - 1] == '\n') --at;  // It ends the last line, and begins none.
    for (std::int64_t left = lines; left > 0; --left) {
        if (at == 0) return piece->offset;
        at = piece->bytes.rfind('\n', at - 1);
        if (at == std::string::npos) return piece->offset;
    }
    return piece->offset + static_cast<std::int64_t>(at) + 1;
}

ExitCode logs(Context& context, const Invocation& invocation) {
    const std::string& run = invocation.arguments.front();
    for (const char* flag : {"offset", "tail"}) {
        const auto text = invocation.value(flag);
        const bool negative = text && text->starts_with('-');
        if (!text || (text->find_first_not_of("0123456789", negative ? 1 : 0) == std::string::npos &&
                      !(negative && flag == std::string_view("tail")) && text->size() < 18)) {
            continue;
        }
        return context.report(bad_usage(fmt::format("--{} takes a whole number, not '{}'", flag, one_line(*text)),
                                        "--help shows the whole command, with examples"));
    }
    auto client = context.connect();
    if (!client) return context.report(client.error());
    std::int64_t offset = number_from(invocation.value("offset").value_or("0"));
    if (const auto lines = invocation.value("tail")) {
        const auto found = tail_offset(*client, run, number_from(*lines));
        if (!found) return context.report(found.error());
        offset = *found;
    }
    const auto done = print_log(context, *client, run, offset, invocation.has("follow") ? Follow::yes : Follow::no);
    return done ? ExitCode::ok : context.report(done.error());
}

// ---- attaching ----------------------------------------------------------------------------------------------------

// Ctrl-C ends the looking and not the run, which people should know. Prepared beforehand: a signal may only write.
std::string& interrupt_note() {
    static std::string note;
    return note;
}

void on_interrupt(int) {
    const std::string& note = interrupt_note();
    (void)!::write(STDERR_FILENO, note.data(), note.size());
    ::_exit(130);
}

void explain_interrupts(const std::string& run) {
    interrupt_note() =
        fmt::format("\n{} goes on; '{}' ends it\n", one_line(run), shell_command({"interlock", "runs", "stop", run}));
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    ::sigaction(SIGINT, &action, nullptr);
}

// "run_… succeeded after 3 min; $0.42 spent"
std::string receipt(const json::value& run) {
    const std::string reason = text_of(member_of(run, "reason"));
    View view{.fields = {{"took", "", Format::took}}};
    const auto took = details_of(run.get_object(), view, CliOutput{}, far_past);
    return fmt::format(
        "{} {}{}{}; {} spent", one_line(text_of(member_of(run, "id"))), one_line(text_of(member_of(run, "status"))),
        took.empty() ? "" : fmt::format(" after {}", took.front().value.text),
        reason.empty() ? "" : fmt::format(" ({})", one_line(reason)), money(text_of(member_of(run, "spent"))));
}

// The run's own, as far as there is one.
ExitCode exit_of(const json::value& run) {
    if (const auto* code = member_of(run, "exit_code").if_int64()) return static_cast<ExitCode>(*code);
    return text_of(member_of(run, "status")) == "succeeded" ? ExitCode::ok : ExitCode::refused;
}

ExitCode attach(Context& context, const Invocation& invocation) {
    const std::string& run = invocation.arguments.front();
    auto client = context.connect();
    if (!client) return context.report(client.error());
    explain_interrupts(run);
    const auto now = read_piece(*client, {.run = run, .offset = -1, .bytes_max = 1});
    if (!now) return context.report(now.error());
    return follow_to_end(context, *client, run, now->end);
}

// ---- stopping -----------------------------------------------------------------------------------------------------

Outcome<void> wait_for_end(Context& context, ApiClient& client, const std::string& run) {
    while (true) {
        const auto answer = client.get(target_of(run));
        if (!answer) return fail(answer.error());
        if (!member_of(answer->document, "ended_at").is_null()) {
            context.remark(receipt(answer->document));
            return {};
        }
        context.world.sleep(look_again);
    }
}

Outcome<void> stop_one(Context& context, ApiClient& client, const std::string& run, const Invocation& invocation) {
    json::object body;
    if (const auto reason = invocation.value("reason")) body["reason"] = *reason;
    const auto answer = client.change({.method = "POST",
                                       .target = target_of(run) + "/cancel",
                                       .body = json::serialize(body),
                                       .key = context.world.fresh_key()});
    if (!answer) {
        if (answer.error().code != "run_ended") return fail(answer.error());
        context.remark(fmt::format("{} has ended already", one_line(run)));
        return {};
    }
    const bool over = text_of(member_of(answer->document, "status")) == "cancelled";
    if (over) context.remark(fmt::format("{} waited in line, and does not any more", one_line(run)));
    if (over) return {};
    if (invocation.has("wait")) return wait_for_end(context, client, run);
    context.remark(fmt::format("{} was asked to stop", one_line(run)));
    return {};
}

// All of them, though one cannot be: what is first in the list is not the reason to let the rest go on.
ExitCode stop(Context& context, const Invocation& invocation) {
    if (invocation.arguments.empty()) {
        return context.report(bad_usage("'interlock runs stop' needs RUN: which to stop", "interlock runs stop RUN…"));
    }
    auto client = context.connect();
    if (!client) return context.report(client.error());
    ExitCode worst = ExitCode::ok;
    for (const std::string& run : invocation.arguments) {
        const auto stopped = stop_one(context, *client, run, invocation);
        if (!stopped) worst = context.report(stopped.error());
    }
    return worst;
}

}  // namespace

ExitCode follow_to_end(Context& context, ApiClient& client, const std::string& run, std::int64_t offset) {
    const auto followed = print_log(context, client, run, offset, Follow::yes);
    // A run that ended in the queue has written nothing.
    if (!followed && followed.error().code != "log_not_kept") return context.report(followed.error());
    const auto ended = client.get(target_of(run));
    if (!ended) return context.report(ended.error());
    if (!ended->document.is_object()) return ExitCode::refused;
    context.remark(receipt(ended->document));
    return exit_of(ended->document);
}

std::vector<CliCommand> log_commands() {
    Argument runs = run_argument();
    runs.needed = Argument::Needed::many;
    runs.help = "Which, one or more";
    return {
        {.words = {"runs", "logs"},
         .summary = "Print what a run's process wrote",
         .arguments = {run_argument()},
         .flags = {{.name = "follow",
                    .help = "And what it writes from now on, until it ends",
                    .takes = ValueType::on,
                    .local = true,
                    .short_name = "f"},
                   {.name = "offset",
                    .value = "BYTES",
                    .help = "Begin here; negative: so far before the end",
                    .takes = ValueType::number,
                    .local = true},
                   {.name = "tail",
                    .value = "LINES",
                    .help = "Begin so many lines before the end",
                    .takes = ValueType::number,
                    .local = true}},
         .examples = {{"interlock runs logs $run", ""},
                      {"interlock runs logs -f --tail 20 $run", "the last lines, and what comes"}},
         .run = logs,
         .notes = "The bytes are the process's own, untouched. What was given up of a long log is said on standard\n"
                  "error. Of a run in the foreground there is no log: its terminal had it."},
        {.words = {"runs", "attach"},
         .summary = "Follow a run from now on, and end as it ends",
         .arguments = {run_argument()},
         .examples = {{"interlock runs attach $run", "Ctrl-C leaves the run going"}},
         .run = attach,
         .notes = "It ends with the run's own exit code."},
        {.words = {"runs", "stop"},
         .summary = "Ask runs to stop",
         .arguments = {runs},
         .flags = {{.name = "wait", .help = "Until they have", .takes = ValueType::on, .local = true},
                   {.name = "reason", .value = "TEXT", .help = "Why", .local = true}},
         .examples = {{"interlock runs stop $run --wait", ""},
                      {"interlock runs stop $one $other --reason 'wrong branch'", ""}},
         .run = stop},
    };
}

}  // namespace interlock::cli
