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
    if (context.settings.json) return context.output.data(text + "\n");
    boost::system::error_code unreadable;
    const json::value message = json::parse(text, unreadable);
    if (unreadable) return;
    const CliOutput& output = context.output;
    const std::string head =
        fmt::format("{:>4}  {}", text_of(member_of(message, "seq")), one_line(text_of(member_of(message, "role"))));
    output.data(output.paint(Style::bold, head) + "\n" + printable(text_of(member_of(message, "content"))) + "\n");
}

ExitCode tail(Context& context, const Invocation& invocation) {
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const std::string target = fmt::format("/v1/sessions/{}/tail", percent_encoded(invocation.arguments[0]));
    const auto ended = client->follow(target, invocation.value("after").value_or(""), [&](const net::SseEvent& event) {
        print_message(context, event.data);
        return !context.output.full();
    });
    return ended ? ExitCode::ok : context.report(ended.error());
}

// One line for each, its forks beneath it.
void add_branch(std::string& text, const std::multimap<std::string, const json::value*>& forks,
                const json::value& session, const std::string& marked, const CliOutput& output, std::size_t depth) {
    const std::string id = text_of(member_of(session, "id"));
    const std::string first = text_of(member_of(session, "first_seq"));
    const std::string line =
        fmt::format("{}{}  {}  {} messages{}{}  {}", std::string(2 * depth, ' '), one_line(id),
                    one_line(text_of(member_of(session, "agent"))), text_of(member_of(session, "next_seq")),
                    first == "0" ? "" : fmt::format(", its own from {}", first),
                    member_of(session, "closed") == json::value(true) ? ", closed" : "",
                    one_line(text_of(member_of(session, "title"))));
    text += (id == marked ? output.paint(Style::bold, line + "  <-") : line) + "\n";
    const auto [begin, end] = forks.equal_range(id);
    for (auto fork = begin; fork != end; ++fork) add_branch(text, forks, *fork->second, marked, output, depth + 1);
}

ExitCode tree(Context& context, const Invocation& invocation) {
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const std::string& id = invocation.arguments[0];
    const auto answer = client->get(fmt::format("/v1/sessions/{}/tree", percent_encoded(id)));
    if (!answer) return context.report(answer.error());
    if (context.settings.json) {
        context.output.data(answer->response.body + "\n");
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
            // Start at the root, and at each session whose parent is not shown.
            if (!known.contains(parent)) add_branch(text, forks, *session, id, context.output, 0);
        }
    }
    context.output.data(text);
    if (member_of(answer->document, "more") == json::value(true)) {
        context.remark("the tree is larger than what is shown");
    }
    return ExitCode::ok;
}

ExitCode export_session(Context& context, const Invocation& invocation) {
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const std::string id = invocation.arguments[0];
    const std::string path = invocation.arguments.size() > 1 ? invocation.arguments[1] : "-";
    const auto made = path == "-" ? Outcome<std::FILE*>(context.output.out) : make_file(path);
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
    if (path != "-") std::remove(path.c_str());  // Leave no half-written file.
    if (!ended) return context.report(ended.error());
    return context.report({.detail = fmt::format("cannot write {}: {}", path, std::strerror(errno)),
                           .hint = "check that the disk has room"});
}

// Sends the file unchanged, because the server verifies its checksum.
ExitCode import_session(Context& context, const Invocation& invocation) {
    const std::string& path = invocation.arguments[0];
    std::FILE* file = path == "-" ? context.output.in : std::fopen(path.c_str(), "r");
    if (file == nullptr) {
        return context.report(bad_usage(fmt::format("cannot read {}: {}", path, std::strerror(errno)),
                                        "create a file with: interlock sessions export SESSION FILE"));
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
    return {.words = {"sessions", "append"},
            .summary = "Append a message",
            .arguments = {session_argument(),
                          {.name = "TEXT",
                           .help = "Content of the message; - reads standard input",
                           .takes = ValueType::content,
                           .member = "content"}},
            .flags = {{.name = "role",
                       .value = "ROLE",
                       .help = "Author of the message",
                       .choices = {"user", "assistant", "system", "tool"},
                       .required = true},
                      {.name = "metadata",
                       .value = "JSON",
                       .help = "JSON object to store with it",
                       .takes = ValueType::json},
                      {.name = "input-tokens", .value = "N", .help = "Input tokens", .takes = ValueType::number},
                      {.name = "output-tokens", .value = "N", .help = "Output tokens", .takes = ValueType::number},
                      {.name = "expected-seq",
                       .value = "N",
                       .help = "Refuse unless the message gets this number",
                       .takes = ValueType::number},
                      {.name = "run", .value = "ID", .help = "Run that appends it", .completes = "runs"},
                      {.name = "fence", .value = "N", .help = "Fence of the run", .takes = ValueType::number}},
            .examples = {{"interlock sessions append $session 'What is in main.cc?' --role user", ""},
                         {"git diff | interlock sessions append $session - --role tool", ""},
                         {"interlock sessions append $session 'Done.' --role assistant --expected-seq 7",
                          "refused if another message has number 7"}},
            .method = "POST",
            .path = "/v1/sessions/{SESSION}/messages",
            .view = &messages_view()};
}

}  // namespace

std::vector<CliCommand> session_commands() {
    const View* view = &sessions_view();
    return {
        {.words = {"sessions", "ls"},
         .summary = "List sessions, newest first",
         .flags = {agent_flag("Only sessions of this agent"),
                   {.name = "search",
                    .value = "TEXT",
                    .help = "Only sessions with TEXT in the title or agent name, or at the start of the id",
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
         .summary = "Show the fork tree of a session",
         .arguments = {session_argument()},
         .examples = {{"interlock sessions tree $session", "the session itself is marked"},
                      {"interlock sessions tree $session --json | jq .root", ""}},
         .run = tree},
        {.words = {"sessions", "create"},
         .summary = "Create a session",
         .flags =
             {agent_flag("Agent of the session"),
              {.name = "title", .value = "TEXT", .help = "Title"},
              {.name = "metadata", .value = "JSON", .help = "JSON object to store with it", .takes = ValueType::json}},
         .examples = {{"session=$(interlock sessions create --agent coder --title 'Fix the build' --quiet)",
                       "prints only the id"}},
         .method = "POST",
         .path = "/v1/sessions",
         .view = view},
        append_command(),
        {.words = {"sessions", "messages"},
         .summary = "List the messages of a session in order",
         .arguments = {session_argument()},
         .flags = {{.name = "after",
                    .value = "SEQ",
                    .help = "Only messages after this one",
                    .takes = ValueType::number,
                    .local = true}},
         .examples = {{"interlock sessions messages $session", ""},
                      {"interlock sessions messages $session --all --json | jq -r '.items[].content'", "in full"}},
         .method = "GET",
         .path = "/v1/sessions/{SESSION}/messages",
         .answer = CliCommand::ResponseShape::list,
         .view = &messages_view()},
        {.words = {"sessions", "tail"},
         .summary = "Print each message of a session as it arrives",
         .arguments = {session_argument()},
         .flags = {{.name = "after",
                    .value = "SEQ",
                    .help = "Start after this message instead of now",
                    .takes = ValueType::number,
                    .local = true}},
         .examples = {{"interlock sessions tail $session", "until Ctrl-C; reconnects by itself"},
                      {"interlock sessions tail $session --json", "one JSON object per line"}},
         .run = tail},
        {.words = {"sessions", "fork"},
         .summary = "Fork a session at a message; earlier messages are shared",
         .arguments = {session_argument()},
         .flags = {{.name = "at",
                    .value = "SEQ",
                    .help = "Message to fork at",
                    .takes = ValueType::number,
                    .member = "at_seq",
                    .required = true},
                   {.name = "title", .value = "TEXT", .help = "Title of the fork"}},
         .examples = {{"interlock sessions fork $session --at 12 --title 'the other way'", ""}},
         .method = "POST",
         .path = "/v1/sessions/{SESSION}/fork",
         .view = view},
        {.words = {"sessions", "close"},
         .summary = "Close a session, so that it accepts no more messages",
         .arguments = {session_argument()},
         .examples = {{"interlock sessions close $session", ""}},
         .method = "POST",
         .path = "/v1/sessions/{SESSION}/close",
         .view = view},
        {.words = {"sessions", "export"},
         .summary = "Export a session to a file with a checksum",
         .arguments = {session_argument(),
                       {.name = "FILE", .help = "New file (default standard output)", .needed = Argument::Needed::no}},
         .examples = {{"interlock sessions export $session talk.jsonl", ""}},
         .run = export_session},
        {.words = {"sessions", "import"},
         .summary = "Create a session from an exported file",
         .arguments = {{.name = "FILE", .help = "Exported file; - reads standard input"}},
         .flags = {{.name = "idempotency-key",
                    .value = "KEY",
                    .help = "Key of this change: repeats with the same key have no further effect",
                    .local = true}},
         .examples = {{"interlock sessions import talk.jsonl", "the session gets a new id"}},
         .run = import_session},
    };
}

}  // namespace interlock::cli
