#include <fmt/format.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "cli/context.h"
#include "cli/files.h"
#include "cli/nouns.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

const View& sessions_view() {
    static const View view{
        .columns = {{"SESSION", "id", Format::id},
                    {"AGENT", "agent", Format::id},
                    {"MESSAGES", "messages", Format::count},
                    {"SPENT", "spent", Format::money},
                    {"CREATED", "created_at", Format::time},
                    {"CLOSED", "closed", Format::yes, Room::if_there_is},
                    {"TITLE", "title", Format::free_text}},
        .fields = {{"session", "id", Format::id},
                   {"title", "title", Format::free_text},
                   {"agent", "agent", Format::id},
                   {"closed", "closed", Format::yes},
                   {"forked from", "parent", Format::id},
                   {"own messages from", "first_seq"},
                   {"messages", "messages", Format::count},
                   {"input tokens", "input_tokens", Format::count},
                   {"output tokens", "output_tokens", Format::count},
                   {"spent", "spent", Format::money},
                   {"cost events", "events", Format::count},
                   {"metadata", "metadata", Format::pairs},
                   {"created", "created_at", Format::time}},
        .when_empty = "There are no sessions yet. 'interlock sessions create --agent NAME' makes one."};
    return view;
}

const View& messages_view() {
    static const View view{
        .columns = {{"SEQ", "seq", Format::count},
                    {"WHEN", "at", Format::time},
                    {"ROLE", "role", Format::text},
                    {"IN", "input_tokens", Format::count, Room::if_there_is},
                    {"OUT", "output_tokens", Format::count, Room::if_there_is},
                    {"CONTENT", "content", Format::free_text}},
        .fields = {{"message", "id", Format::id}, {"seq", "seq"}, {"repeated", "repeated", Format::yes}},
        .when_empty = "There are no messages here. 'interlock sessions append SESSION TEXT' adds one."};
    return view;
}

Argument session_argument() { return {.name = "SESSION", .help = "Its id", .completes = "sessions"}; }

void print_message(const Context& context, const std::string& text) {
    if (context.settings.json) return context.terminal.data(text + "\n");
    boost::system::error_code unreadable;
    const json::value message = json::parse(text, unreadable);
    if (unreadable) return;
    const CliOutput& terminal = context.terminal;
    const std::string head =
        fmt::format("{:>4}  {}", text_of(member_of(message, "seq")), one_line(text_of(member_of(message, "role"))));
    terminal.data(terminal.paint(Style::bold, head) + "\n" + printable(text_of(member_of(message, "content"))) + "\n");
}

ExitCode tail(Context& context, const Invocation& invocation) {
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const std::string target = fmt::format("/v1/sessions/{}/tail", percent_encoded(invocation.arguments[0]));
    const auto ended = client->follow(target, invocation.value("after").value_or(""), [&](const net::SseEvent& event) {
        print_message(context, event.data);
        return !context.terminal.full();
    });
    return ended ? ExitCode::ok : context.report(ended.error());
}

// One line for each, its forks beneath it.
void add_branch(std::string& text, const std::multimap<std::string, const json::value*>& forks,
                const json::value& session, const std::string& marked, const CliOutput& terminal, std::size_t depth) {
    const std::string id = text_of(member_of(session, "id"));
    const std::string first = text_of(member_of(session, "first_seq"));
    const std::string line =
        fmt::format("{}{}  {}  {} messages{}{}  {}", std::string(2 * depth, ' '), one_line(id),
                    one_line(text_of(member_of(session, "agent"))), text_of(member_of(session, "next_seq")),
                    first == "0" ? "" : fmt::format(", its own from {}", first),
                    member_of(session, "closed") == json::value(true) ? ", closed" : "",
                    one_line(text_of(member_of(session, "title"))));
    text += (id == marked ? terminal.paint(Style::bold, line + "  <-") : line) + "\n";
    const auto [begin, end] = forks.equal_range(id);
    for (auto fork = begin; fork != end; ++fork) add_branch(text, forks, *fork->second, marked, terminal, depth + 1);
}

ExitCode tree(Context& context, const Invocation& invocation) {
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const std::string& id = invocation.arguments[0];
    const auto answer = client->get(fmt::format("/v1/sessions/{}/tree", percent_encoded(id)));
    if (!answer) return context.report(answer.error());
    if (context.settings.json) {
        context.terminal.data(answer->response.body + "\n");
        return ExitCode::ok;
    }
    const auto* items = member_of(answer->document, "items").if_array();
    std::multimap<std::string, const json::value*> forks;  // By the session that they were forked from.
    std::set<std::string> known;
    for (const json::value& session : items == nullptr ? json::array() : *items) {
        known.insert(text_of(member_of(session, "id")));
    }
    std::string text;
    for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
        const json::value& session = (*items)[i];
        if (context.settings.quiet) text += one_line(text_of(member_of(session, "id"))) + "\n";
        forks.emplace(text_of(member_of(session, "parent")), &session);
    }
    if (!context.settings.quiet) {
        for (const auto& [parent, session] : forks) {
            // The root, and whatever has its parent outside of what is shown.
            if (!known.contains(parent)) add_branch(text, forks, *session, id, context.terminal, 0);
        }
    }
    context.terminal.data(text);
    if (member_of(answer->document, "more") == json::value(true)) {
        context.remark("the family is larger than what is shown");
    }
    return ExitCode::ok;
}

ExitCode export_session(Context& context, const Invocation& invocation) {
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const std::string id = invocation.arguments[0];
    const std::string path = invocation.arguments.size() > 1 ? invocation.arguments[1] : "-";
    const auto made = path == "-" ? Outcome<std::FILE*>(context.terminal.out) : make_file(path);
    if (!made) return context.report(made.error());
    std::FILE* file = *made;
    bool written = true;
    const auto ended =
        client->download(fmt::format("/v1/sessions/{}/export", percent_encoded(id)), [&](std::string_view piece) {
            written = std::fwrite(piece.data(), 1, piece.size(), file) == piece.size();
            return written;
        });
    if (path != "-") written = std::fclose(file) == 0 && written;
    if (path == "-") std::fflush(file);
    if (ended && written) {
        if (path != "-") context.remark(fmt::format("exported session {} to {}", id, path));
        return ExitCode::ok;
    }
    if (path != "-") std::remove(path.c_str());  // Half a file is worse than none.
    if (!ended) return context.report(ended.error());
    return context.report(
        {.detail = fmt::format("cannot write {}: {}", path, std::strerror(errno)), .hint = "is the disk full?"});
}

// What is sent, byte for byte, is what was exported: the server checks its checksum.
ExitCode import_session(Context& context, const Invocation& invocation) {
    const std::string& path = invocation.arguments[0];
    std::FILE* file = path == "-" ? context.terminal.in : std::fopen(path.c_str(), "r");
    if (file == nullptr) {
        return context.report(bad_usage(fmt::format("cannot read {}: {}", path, std::strerror(errno)),
                                        "'interlock sessions export SESSION FILE' writes such a file"));
    }
    const std::string text = read_all(file);
    if (path != "-") std::fclose(file);
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const auto answer = client->change({.method = "POST",
                                        .target = "/v1/sessions/import",
                                        .body = text,
                                        .key = key_of(context, invocation),
                                        .content_type = "application/x-ndjson"});
    if (!answer) return context.report(answer.error());
    show(context, *find_command({"sessions", "show"}), invocation, *answer);
    return ExitCode::ok;
}

CliCommand append_command() {
    return {
        .words = {"sessions", "append"},
        .summary = "Add a message",
        .arguments = {session_argument(),
                      {.name = "TEXT",
                       .help = "What it says; - reads it from standard input",
                       .takes = ValueType::content,
                       .member = "content"}},
        .flags = {{.name = "role",
                   .value = "ROLE",
                   .help = "Who says it",
                   .choices = {"user", "assistant", "system", "tool"},
                   .required = true},
                  {.name = "metadata", .value = "JSON", .help = "An object kept with it", .takes = ValueType::json},
                  {.name = "input-tokens", .value = "N", .help = "Tokens that went in", .takes = ValueType::number},
                  {.name = "output-tokens", .value = "N", .help = "Tokens that came out", .takes = ValueType::number},
                  {.name = "expected-seq",
                   .value = "N",
                   .help = "Only if it becomes this message",
                   .takes = ValueType::number},
                  {.name = "run", .value = "ID", .help = "The run that says it", .completes = "runs"},
                  {.name = "fence", .value = "N", .help = "The run's fence", .takes = ValueType::number}},
        .examples = {{"interlock sessions append $session 'What is in main.cc?' --role user", ""},
                     {"git diff | interlock sessions append $session - --role tool", ""},
                     {"interlock sessions append $session 'Done.' --role assistant --expected-seq 7",
                      "refused if somebody was faster"}},
        .method = "POST",
        .path = "/v1/sessions/{SESSION}/messages",
        .view = &messages_view()};
}

}  // namespace

std::vector<CliCommand> session_commands() {
    const View* view = &sessions_view();
    return {
        {.words = {"sessions", "ls"},
         .summary = "List sessions, the newest first",
         .flags = {agent_flag("Only this agent's"),
                   {.name = "search",
                    .value = "TEXT",
                    .help = "Only those with this in their title or agent's name, or whose id begins so",
                    .member = "q"}},
         .examples = {{"interlock sessions ls --agent coder", ""}, {"interlock sessions ls --search build", ""}},
         .method = "GET",
         .path = "/v1/sessions",
         .answer = CliCommand::ResponseShape::list,
         .view = view},
        {.words = {"sessions", "show"},
         .summary = "Show one session",
         .arguments = {session_argument()},
         .examples = {{"interlock sessions show ses_01jcq3w8y5e9m8t2k4x6v0a1bc", ""}},
         .method = "GET",
         .path = "/v1/sessions/{SESSION}",
         .view = view},
        {.words = {"sessions", "tree"},
         .summary = "Show what a session was forked from, and all forks of that",
         .arguments = {session_argument()},
         .examples = {{"interlock sessions tree $session", "its own line is marked"},
                      {"interlock sessions tree $session --json | jq .root", ""}},
         .run = tree},
        {.words = {"sessions", "create"},
         .summary = "Begin a session",
         .flags = {agent_flag("Whose it is"),
                   {.name = "title", .value = "TEXT", .help = "What it is about"},
                   {.name = "metadata", .value = "JSON", .help = "An object kept with it", .takes = ValueType::json}},
         .examples = {{"session=$(interlock sessions create --agent coder --title 'Fix the build' --quiet)",
                       "prints the id alone"}},
         .method = "POST",
         .path = "/v1/sessions",
         .view = view},
        append_command(),
        {.words = {"sessions", "messages"},
         .summary = "List a session's messages, in their order",
         .arguments = {session_argument()},
         .flags = {{.name = "after",
                    .value = "SEQ",
                    .help = "Only those behind this one",
                    .takes = ValueType::number,
                    .local = true}},
         .examples = {{"interlock sessions messages $session", ""},
                      {"interlock sessions messages $session --all --json | jq -r '.items[].content'", "in full"}},
         .method = "GET",
         .path = "/v1/sessions/{SESSION}/messages",
         .answer = CliCommand::ResponseShape::list,
         .view = &messages_view()},
        {.words = {"sessions", "tail"},
         .summary = "Follow a session: print each message as it comes",
         .arguments = {session_argument()},
         .flags = {{.name = "after",
                    .value = "SEQ",
                    .help = "Begin behind this message, not now",
                    .takes = ValueType::number,
                    .local = true}},
         .examples = {{"interlock sessions tail $session", "until Ctrl-C; lost connections are taken up again"},
                      {"interlock sessions tail $session --json", "one JSON object a line"}},
         .run = tail},
        {.words = {"sessions", "fork"},
         .summary = "Branch a session off at a message; what came before is shared",
         .arguments = {session_argument()},
         .flags = {{.name = "at",
                    .value = "SEQ",
                    .help = "Where",
                    .takes = ValueType::number,
                    .member = "at_seq",
                    .required = true},
                   {.name = "title", .value = "TEXT", .help = "What the branch is about"}},
         .examples = {{"interlock sessions fork $session --at 12 --title 'the other way'", ""}},
         .method = "POST",
         .path = "/v1/sessions/{SESSION}/fork",
         .view = view},
        {.words = {"sessions", "close"},
         .summary = "Close a session: it can be read, but not added to",
         .arguments = {session_argument()},
         .examples = {{"interlock sessions close $session", ""}},
         .method = "POST",
         .path = "/v1/sessions/{SESSION}/close",
         .view = view},
        {.words = {"sessions", "export"},
         .summary = "Write a session to a file, with its checksum",
         .arguments = {session_argument(),
                       {.name = "FILE",
                        .help = "A new file; without it, standard output",
                        .needed = Argument::Needed::no}},
         .examples = {{"interlock sessions export $session talk.jsonl", ""}},
         .run = export_session},
        {.words = {"sessions", "import"},
         .summary = "Make a session from such a file",
         .arguments = {{.name = "FILE", .help = "What export wrote; - for standard input"}},
         .flags = {{.name = "idempotency-key",
                    .value = "KEY",
                    .help = "Makes a repeat of this request harmless",
                    .local = true}},
         .examples = {{"interlock sessions import talk.jsonl", "it gets a new id"}},
         .run = import_session},
    };
}

}  // namespace interlock::cli
