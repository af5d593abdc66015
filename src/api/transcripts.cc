// The messages of a session: read, followed, taken out as a file and brought back.
#include <memory>

#include <fmt/format.h>

#include "api/follow.h"
#include "api/route.h"
#include "api/session_view.h"
#include "api/sessions.h"
#include "base/sha256.h"
#include "base/strict_json.h"
#include "core/limits.h"
#include "net/body_reads.h"
#include "net/sse.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

constexpr std::string_view ndjson = "application/x-ndjson";
constexpr std::int64_t messages_at_a_time = 256;

ResponseTask list_messages(Call& call) {
    const auto session = co_await find_session(call);
    if (!session) co_return respond(call, session.error());
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const auto after = read_count(call, "after", -1, -1, INT64_MAX);
    if (!after) co_return respond(call, after.error());
    const core::OrgId org = call.caller.org;
    auto text = co_await read(call,
                              [org, session = *session, after = *after,
                               limit = *limit](store::Snapshot& snapshot) -> Result<std::string, store::ReadError> {
                                  auto messages = read_messages(snapshot, org, session, after, limit);
                                  if (!messages) return fail(messages.error());
                                  Page<MessageView> page{std::move(*messages), {}};
                                  if (!page.items.empty() && page.items.back().seq + 1 < session.next_seq) {
                                      page.next = std::to_string(page.items.back().seq);
                                  }
                                  return text_of(page);
                              });
    if (!text) co_return respond(call, text.error());
    co_return respond(200, std::move(*text));
}

// ---- following ----------------------------------------------------------------------------------------------------

// The messages after `after` as events, and where the session ends now.
struct NewMessages {
    std::int64_t next_seq = 0;
    std::int64_t last_seq = -1;  // Of the last message in `events`.
    std::string events;
};

net::Task<Result<NewMessages, store::ReadError>> read_news(ApiDependencies& parts, core::OrgId org, core::SessionId id,
                                                           std::int64_t after) {
    co_return co_await net::run_on(parts.workers, [&parts, org, id, after] {
        return parts.reads.with([&](store::Snapshot& snapshot) -> Result<NewMessages, store::ReadError> {
            const auto session = store::read_row<core::Session>(snapshot, org, id.value);
            if (!session) return fail(session.error());
            if (!*session) return fail(store::ReadError{"the session is gone"});
            const auto messages = read_messages(snapshot, org, **session, after, messages_at_a_time);
            if (!messages) return fail(messages.error());
            NewMessages news{.next_seq = (*session)->next_seq, .last_seq = after, .events = {}};
            for (const MessageView& message : *messages) {
                news.events += net::to_text(
                    net::SseEvent{.id = std::to_string(message.seq), .event = "message", .data = to_json(message)});
                news.last_seq = message.seq;
            }
            return news;
        });
    });
}

net::Task<void> follow(ApiDependencies& parts, Principal caller, core::SessionId id, std::int64_t after,
                       net::StreamWriter& writer) {
    const core::OrgId org = caller.org;
    FeedTail& tail = parts.feeds.of(org);
    const FeedTail::Follower follower(tail);
    const auto head = co_await current_head(parts, org);
    if (!head) co_return;
    core::Seq feed_seen = *head;
    if (!co_await writer.write(": following\n\n")) co_return;
    while (!writer.closed()) {
        // 1. Everything there is.
        for (bool more = true; more;) {
            const auto news = co_await read_news(parts, org, id, after);
            if (!news) co_return;
            if (!news->events.empty() && !co_await writer.write(news->events)) co_return;
            more = news->last_seq > after && news->last_seq + 1 < news->next_seq;
            after = news->last_seq;
        }
        // 2. Sleep until the feed tells of this session.
        for (bool news = false; !news;) {
            const std::uint64_t generation = tail.notifier().generation();
            const auto items = tail.after(feed_seen, FeedTail::items_max);
            if (!items) {
                const auto now_head = co_await current_head(parts, org);
                if (!now_head) co_return;
                news = *now_head != feed_seen;
                feed_seen = *now_head;
            } else {
                for (const auto& item : *items) {
                    news |= item->session == id;
                    feed_seen = item->seq;
                }
            }
            if (!news && !co_await wait_for_news(writer, parts, caller, generation)) co_return;
        }
    }
}

ResponseTask tail_session(Call& call) {
    const auto session = co_await find_session(call);
    if (!session) co_return respond(call, session.error());
    const auto cursor = read_cursor(call);
    if (!cursor) co_return respond(call, cursor.error());
    ApiDependencies& parts = call.parts;
    const std::int64_t after = cursor->value_or(session->next_seq - 1);
    co_return event_stream([&parts, caller = call.caller, id = session->id, after](net::StreamWriter& writer) {
        return follow(parts, caller, id, after, writer);
    });
}

// ---- out and in ---------------------------------------------------------------------------------------------------

// Lines of an export, and the hash over them. Shared with the worker that writes them.
struct ExportText {
    Sha256Hasher hash;
    std::string lines;
    std::int64_t after = -1;
    std::int64_t count = 0;
};

// False: there are no more messages.
Result<bool, store::ReadError> write_lines(store::Snapshot& snapshot, core::OrgId org, const core::Session& session,
                                           ExportText& text) {
    const auto messages = read_messages(snapshot, org, session, text.after, messages_at_a_time);
    if (!messages) return fail(messages.error());
    if (messages->empty()) return false;
    text.lines.clear();
    for (const MessageView& message : *messages) {
        put_json(text.lines, message);
        text.lines += '\n';
        text.after = message.seq;
        ++text.count;
    }
    text.hash.add(text.lines);
    return true;
}

net::Task<void> write_export(ApiDependencies& parts, core::OrgId org, core::Session session,
                             net::StreamWriter& writer) {
    const auto text = std::make_shared<ExportText>();
    text->lines = to_json(session_view_of(session));
    text->lines.insert(1, "\"interlock_session\":1,");
    text->lines += '\n';
    text->hash.add(text->lines);
    while (true) {
        if (!co_await writer.write(text->lines)) co_return;
        if (text->after + 1 >= session.next_seq) break;
        const auto more = co_await net::run_on(parts.workers, [&parts, org, session, text] {
            return parts.reads.with(
                [&](store::Snapshot& snapshot) { return write_lines(snapshot, org, session, *text); });
        });
        if (!more || !*more) co_return;  // Without its last line an export is known to be torn.
    }
    const std::string end =
        fmt::format("{{\"messages\":{},\"sha256\":\"{}\"}}\n", text->count, to_hex(text->hash.finish()));
    co_await writer.write(end);
}

ResponseTask export_session(Call& call) {
    const auto session = co_await find_session(call);
    if (!session) co_return respond(call, session.error());
    net::Response response;
    response.content_type = ndjson;
    ApiDependencies& parts = call.parts;
    const core::OrgId org = call.caller.org;
    response.stream = [&parts, org, session = *session](net::StreamWriter& writer) {
        return write_export(parts, org, session, writer);
    };
    co_return response;
}

struct Imported {
    core::CreateSession session;
    std::vector<core::NewMessage> messages;
};

// What an import takes of a line. A line may have more, as an export has.
struct ImportedLine {
    std::int64_t interlock_session = 0;
    std::string agent;
    std::string title;
    std::string role;
    std::string content;
    JsonText metadata;
    std::int64_t input_tokens = 0;
    std::int64_t output_tokens = 0;
    std::int64_t messages = 0;
    std::optional<std::string> sha256;
};
BOOST_DESCRIBE_STRUCT(ImportedLine, (),
                      (interlock_session, agent, title, role, content, metadata, input_tokens, output_tokens, messages,
                       sha256))

Result<ImportedLine, Problem> parse_line(std::string_view line, std::size_t number) {
    const auto refuse = [number](std::string_view pointer, std::string_view detail) {
        return fail(invalid(fmt::format("line {}{}{} {}", number, pointer.empty() ? "" : ": ", pointer, detail)));
    };
    auto parsed = parse_strict_json(line);
    if (!parsed) return refuse(parsed.error().pointer, parsed.error().detail);
    if (!parsed->is_object()) return refuse("", "is not a JSON object");
    json::object known;
    for (const WireMember& member : wire_type<ImportedLine>.members) {
        json::value* found = parsed->get_object().if_contains(member.name);
        if (found != nullptr) known.emplace(member.name, std::move(*found));
    }
    auto read = from_json<ImportedLine>(std::move(known));
    if (!read) return refuse(read.error().pointer, read.error().detail);
    return std::move(*read);
}

Result<Imported, Problem> parse_export(const ApiDependencies& parts, const std::string& key_id, std::string_view rest) {
    Sha256Hasher hash;
    Imported imported;
    for (std::size_t number = 1;; ++number) {
        const std::size_t end = rest.find('\n');
        if (end == std::string_view::npos) {
            return fail(invalid("the file is incomplete: its last line, with the count and SHA-256, is missing"));
        }
        const std::string_view line = rest.substr(0, end);
        auto parsed = parse_line(line, number);
        if (!parsed) return fail(parsed.error());
        if (number == 1) {
            if (parsed->interlock_session != 1) {
                return fail(invalid("line 1 is not the header of an exported session (interlock_session 1)"));
            }
            imported.session = {core::SessionId(parts.commands.fresh_id()), parsed->agent, parsed->title,
                                parsed->metadata.text, key_id};
        } else if (parsed->sha256) {
            if (parsed->messages != static_cast<std::int64_t>(imported.messages.size()) ||
                *parsed->sha256 != to_hex(hash.finish())) {
                return fail(
                    invalid("the count or SHA-256 of the last line does not match the lines before it: the file was "
                            "changed"));
            }
            if (rest.size() > end + 1)
                return fail(invalid("the file continues after its last line: the file was changed"));
            return imported;
        } else {
            imported.messages.push_back({.id = core::MessageId(parts.commands.fresh_id()),
                                         .role = parsed->role,
                                         .content = parsed->content,
                                         .metadata = parsed->metadata.text,
                                         .input_tokens = parsed->input_tokens,
                                         .output_tokens = parsed->output_tokens});
        }
        hash.add(rest.substr(0, end + 1));
        rest.remove_prefix(end + 1);
    }
}

// A session of any length comes in as several turns; the keys of all of them follow from the request's own, so a
// repeat after a cut goes on where the first try ended.
ResponseTask import_session(Call& call) {
    if (!has_media_type(call, ndjson)) {
        co_return respond(call, Problem{.status = 415,
                                        .code = "unsupported_media_type",
                                        .detail = fmt::format("send an export with Content-Type: {}", ndjson)});
    }
    // Not in this frame: the request may be gone before the work is done.
    const auto text = std::make_shared<std::string>(std::move(call.request.body));
    auto imported = co_await net::read_off_io(
        call.parts.bodies, call.parts.metrics.body_reads, text->size(),
        [&parts = call.parts, key_id = call.caller.key_id, text] { return parse_export(parts, key_id, *text); });
    call.request.body = std::move(*text);
    if (!imported) co_return respond(call, imported.error());
    if (!call.caller.may_see_agent(imported->session.agent)) {
        co_return respond(call, not_found("agent", imported->session.agent));
    }
    const auto key = read_key(call, std::nullopt);
    if (!key) co_return respond(call, key.error());
    const auto made = co_await ask(call, std::move(imported->session), key->text);
    if (!made) co_return respond(call, made.error());

    std::size_t next = 0;
    std::int64_t seq = 0;
    while (next < imported->messages.size()) {
        core::Append turn{.session = made->as<core::SessionReply>().session,
                          .messages = {},
                          .expected_seq = seq,
                          .run = {},
                          .fence = {}};
        std::size_t bytes = 0;
        while (next < imported->messages.size() && turn.messages.size() < core::limits::messages_per_turn_max) {
            bytes += imported->messages[next].content.size() + imported->messages[next].metadata.size();
            if (!turn.messages.empty() && bytes > core::limits::turn_bytes_max) break;
            turn.messages.push_back(std::move(imported->messages[next++]));
        }
        seq += static_cast<std::int64_t>(turn.messages.size());
        const Key turn_key = key_of(call.caller, fmt::format("{} from {}", key->text, next));
        engine::SubmitResult answer = co_await submit(call, turn_key, std::move(turn));
        if (!answer) co_return respond(call, problem_of(answer.error()));
        if (const auto refusal = refusal_of(answer->reply)) co_return respond(call, *refusal);
    }
    co_return co_await show_session(call, made->as<core::SessionReply>().session, 201, made->repeated);
}

json::value lines() { return {{"type", "string"}, {"description", "One JSON object per line."}}; }
json::value stream() { return {{"type", "string"}, {"description", "Server-sent events."}}; }

}  // namespace

std::vector<ApiRoute> transcript_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::get,
         .path = "/v1/sessions/{id}/messages",
         .needs = read,
         .summary = "Read messages in order",
         .handler = list_messages,
         .narrowest = Bound::run,
         .query = {"after", "limit"},
         .answer = page_schema<MessageView>},
        {.method = Method::get,
         .path = "/v1/sessions/{id}/tail",
         .needs = read,
         .summary = "Follow the messages as server-sent events",
         .handler = tail_session,
         .narrowest = Bound::run,
         .query = {"after"},
         .answer = stream},
        {.method = Method::get,
         .path = "/v1/sessions/{id}/export",
         .needs = read,
         .summary = "Export a session as JSON lines with a SHA-256",
         .handler = export_session,
         .narrowest = Bound::run,
         .answer = lines},
        {.method = Method::post,
         .path = "/v1/sessions/import",
         .needs = act,
         .summary = "Import an exported session as a new one",
         .handler = import_session,
         .narrowest = Bound::agent,
         .body = lines,
         .answer = schema_of<SessionView>,
         .status = 201},
    };
}

}  // namespace interlock::api
