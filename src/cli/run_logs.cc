// The output of runs, and their cancellation.
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
    const auto timeout_s = static_cast<std::int64_t>(context.settings.request_timeout_s);
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
            context.output.talk(
                fmt::format("… {} were given up here to keep the log in bounds …", size(piece->offset - offset)));
        }
        context.output.data(piece->bytes);
        std::fflush(context.output.out);
        if (context.output.full()) return {};
        const bool stuck = piece->bytes.empty() && piece->next <= offset;  // The rest is not to be had.
        offset = piece->next;
        const bool all = piece->next >= piece->end || stuck;
        if (all && (follow == Follow::no || piece->run_ended)) return {};
    }
}

// The offset of the last lines, as far as the last piece has them.
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
                                        "interlock runs logs --help"));
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
    interrupt_note() = fmt::format("\n{} continues; cancel it: {}\n", one_line(run),
                                   shell_command({"interlock", "runs", "cancel", run}));
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

// `runs stop`, the former name of `runs cancel`, succeeds for a run that has already ended.
enum class IfEnded { refuse, accept };

Outcome<void> cancel_one(Context& context, ApiClient& client, const Invocation& invocation, IfEnded if_ended) {
    const CliCommand& self = *find_command({"runs", "cancel"});
    const std::string& run = invocation.arguments.front();
    const auto built = build_request(self, invocation, context.world.now(), context.output.in);
    if (!built) return fail(built.error());
    const auto answer = client.change(
        {.method = self.method, .target = built->target, .body = built->body, .key = key_of(context, invocation)});
    if (!answer) {
        if (answer.error().code != "run_ended" || if_ended == IfEnded::refuse) return fail(answer.error());
        context.remark(fmt::format("{} has already ended", one_line(run)));
        return {};
    }
    if (context.settings.json || context.settings.quiet) show(context, self, invocation, *answer);
    const bool over = text_of(member_of(answer->document, "status")) == "cancelled";
    if (invocation.has("wait") && !over) return wait_for_end(context, client, run);
    context.remark(one_line(run) + (over ? " was queued and is cancelled" : " was asked to stop"));
    return {};
}

// Tries every run, also after one could not be cancelled. Returns the exit code of the last failure.
ExitCode cancel(Context& context, const Invocation& invocation, IfEnded if_ended) {
    if (invocation.arguments.empty()) {
        return context.report(bad_usage("'interlock runs cancel' needs RUN: a run id", "interlock runs cancel RUN…"));
    }
    if (invocation.arguments.size() > 1 && invocation.has("idempotency-key")) {
        return context.report(
            bad_usage("--idempotency-key is for one run, because each run is a change of its own", "name one run"));
    }
    auto client = context.connect();
    if (!client) return context.report(client.error());
    ExitCode ended = ExitCode::ok;
    for (const std::string& run : invocation.arguments) {
        const auto done = cancel_one(context, *client, {.arguments = {run}, .flags = invocation.flags}, if_ended);
        if (!done) ended = context.report(done.error());
    }
    return ended;
}

Argument run_arguments() {
    Argument runs = run_argument();
    runs.needed = Argument::Needed::many;
    return runs;
}

Flag wait_flag() {
    return {.name = "wait", .help = "Wait until the runs have ended", .takes = ValueType::on, .local = true};
}

const View& run_id_view() {
    static const View view;
    return view;
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

CliCommand cancel_command(std::vector<Flag> flags) {
    flags.insert(flags.begin(), wait_flag());
    return {.words = {"runs", "cancel"},
            .summary = "Cancel runs",
            .arguments = {run_arguments()},
            .flags = std::move(flags),
            .examples = {{"interlock runs cancel $run --reason 'wrong branch'", ""},
                         {"interlock runs cancel $one $other --wait", "returns when both have ended"}},
            .method = "POST",
            .path = "/v1/runs/{RUN}/cancel",
            .view = &run_id_view(),
            .run = [](Context& context,
                      const Invocation& invocation) { return cancel(context, invocation, IfEnded::refuse); },
            .notes = "A queued run is cancelled at once. A live run gets SIGTERM, and SIGKILL after its grace period."};
}

std::vector<CliCommand> log_commands() {
    return {
        {.words = {"runs", "logs"},
         .summary = "Print the output of a run",
         .arguments = {run_argument()},
         .flags = {{.name = "follow",
                    .help = "Print new output until the run ends",
                    .takes = ValueType::on,
                    .local = true,
                    .short_name = "f"},
                   {.name = "offset",
                    .value = "BYTES",
                    .help = "Start at this byte; negative: relative to the end",
                    .takes = ValueType::number,
                    .local = true},
                   {.name = "tail",
                    .value = "LINES",
                    .help = "Start this many lines before the end",
                    .takes = ValueType::number,
                    .local = true}},
         .examples = {{"interlock runs logs $run", ""},
                      {"interlock runs logs -f --tail 20 $run", "the last lines, then new output"}},
         .run = logs,
         .notes = "Prints the bytes of the process unchanged. Standard error tells how much of a long log was dropped. "
                  "A run in the foreground has no log, because its output went to its terminal."},
        {.words = {"runs", "attach"},
         .summary = "Print new output of a run and exit with its exit code",
         .arguments = {run_argument()},
         .examples = {{"interlock runs attach $run", "Ctrl-C does not stop the run"}},
         .run = attach},
        {.words = {"runs", "stop"},
         .summary = "Cancel runs",
         .arguments = {run_arguments()},
         .flags = {wait_flag(), {.name = "reason", .value = "TEXT", .help = "Reason"}},
         .run = [](Context& context,
                   const Invocation& invocation) { return cancel(context, invocation, IfEnded::accept); },
         .hidden = true},
    };
}

}  // namespace interlock::cli
