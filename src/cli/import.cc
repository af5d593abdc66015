#include <fmt/format.h>

#include <array>
#include <boost/json.hpp>
#include <map>

#include "base/keyed_hash.h"
#include "base/sha256.h"
#include "base/shell.h"
#include "base/strict_json.h"
#include "cli/apply_files.h"
#include "cli/consent.h"
#include "cli/files.h"
#include "cli/text.h"
#include "cli/transfer.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

constexpr std::size_t batch_messages_max = 500;
constexpr std::size_t batch_bytes_max = 1 << 20;

std::string hash_text(Sha256 hash) { return in_hex({reinterpret_cast<const char*>(hash.data()), hash.size()}); }

class LineReader {
 public:
    explicit LineReader(std::FILE* file) : file_(file) {}
    ~LineReader() { std::free(line_); }
    LineReader(const LineReader&) = delete;
    LineReader& operator=(const LineReader&) = delete;

    // The next line with its newline; empty at the end of the file.
    std::optional<std::string_view> next() {
        const ssize_t length = getline(&line_, &capacity_, file_);
        if (length <= 0) return {};
        return std::string_view(line_, static_cast<std::size_t>(length));
    }

 private:
    std::FILE* file_;
    char* line_ = nullptr;
    std::size_t capacity_ = 0;
};

struct CheckedImport {
    // A keyed hash of each line proves that the lines sent later are those that were checked and shown.
    std::vector<std::uint64_t> lines = {};
    // Every command that the file can start on this machine. All are shown, because a hostile file could hide one, and
    // the checksum does not show who wrote the file.
    std::vector<std::string> starts = {};
};

// Members of an agent that decide what its command is, or what it can reach.
constexpr std::array confining{"env",      "pass_env", "workspace", "roots",
                               "writable", "readable", "sandbox",   "sandbox_level"};

std::string shown_command(const json::value& words) {
    std::string text;
    if (const json::array* list = words.if_array()) {
        for (const json::value& word : *list) text += (text.empty() ? "" : " ") + shell_word(text_of(word));
    }
    return text;
}

void note_starts(const json::value& record, std::vector<std::string>& starts) {
    const std::string kind = text_of(member_of(record, "kind"));
    const json::value& value = member_of(record, "value");
    const std::string name = one_line(text_of(member_of(value, "name")));
    if (kind == "agent") {
        const std::string command = shown_command(member_of(value, "command"));
        if (!command.empty()) starts.push_back(fmt::format("agent {} runs: {}", name, command));
        for (const std::string_view script : {"setup", "teardown"}) {
            const std::string text = one_line(text_of(member_of(value, script)));
            if (!text.empty()) starts.push_back(fmt::format("agent {}, {}: {}", name, script, text));
        }
        for (const char* member : confining) {
            const json::value& stated = member_of(value, member);
            if (stated.is_null() || stated == defaults_of(Kind::agent).at(member)) continue;
            starts.push_back(fmt::format("agent {}, {}: {}", name, member, one_line(json::serialize(stated))));
        }
    } else if (kind == "schedule") {
        const std::string cron = one_line(text_of(member_of(value, "cron")));
        const std::string every = one_line(text_of(member_of(value, "every_s")));
        starts.push_back(fmt::format("schedule {} starts agent {} {}", name,
                                     one_line(text_of(member_of(value, "agent"))),
                                     cron.empty() ? "every " + every + " s" : "at " + cron));
    }
}

// Invariant (2): count and checksum, before anything is sent.
Outcome<CheckedImport> check_file(std::FILE* file, const std::string& path) {
    const auto broken = [&](std::string_view why) {
        return fail(Failure{.exit = ExitCode::refused,
                            .code = "broken_export",
                            .detail = fmt::format("{} is not a complete export: {}", path, why),
                            .hint = "nothing was sent; export it again: interlock export FILE"});
    };
    LineReader lines(file);
    Sha256Hasher hasher;
    CheckedImport checked;
    std::size_t count = 0;
    while (const auto line = lines.next()) {
        const auto parsed = parse_strict_json(*line);
        if (!parsed) {
            return broken(fmt::format("line {}: {} {}", count + 1, one_line(parsed.error().pointer),
                                      one_line(parsed.error().detail)));
        }
        const json::value& record = *parsed;
        const std::string kind = text_of(member_of(record, "kind"));
        if (kind.empty()) return broken(fmt::format("line {} has no kind", count + 1));
        if (count == 0 && kind != "interlock_export") return broken("the first line is not an export header");
        if (kind != "end") {
            hasher.add(*line);
            note_starts(record, checked.starts);
            checked.lines.push_back(keyed_hash(*line));
            ++count;
            continue;
        }
        if (text_of(member_of(record, "lines")) != fmt::format("{}", count)) return broken("lines are missing");
        if (text_of(member_of(record, "sha256")) != hash_text(hasher.finish())) return broken("the checksum is wrong");
        if (lines.next()) return broken("the file continues after its last line");
        return checked;
    }
    return broken("the last line is missing");
}

json::object picked(const json::value& from, const std::vector<std::string_view>& members) {
    json::object object;
    for (const std::string_view member : members) {
        const json::value& value = member_of(from, member);
        if (!value.is_null()) object[member] = value;
    }
    return object;
}

class Import {
 public:
    Import(const Context& context, ApiClient& client, bool enables)
        : context_(context), client_(client), enables_(enables) {}

    Outcome<void> take(std::string_view line) {
        const json::value record = json::parse(line);
        const std::string kind = text_of(member_of(record, "kind"));
        const json::value& value = member_of(record, "value");
        const std::string key = "import-" + hash_text(sha256(line));
        if (kind == "message") return take_message(line, record, value);
        if (const auto sent = send_messages(); !sent) return sent;
        if (kind == "agent") return put_agent(value, key);
        if (kind == "cap") return put_cap(value, key);
        if (kind == "session") return create_session(value, key);
        if (kind == "budget") return put_budget(value, key);
        if (kind == "schedule") return put_schedule(value, key);
        return {};
    }

    // The steps that need everything else to exist.
    Outcome<void> finish() {
        if (const auto sent = send_messages(); !sent) return sent;
        for (const auto& [session, key] : to_close_) {
            const auto closed = ask("POST", "/v1/sessions/" + session + "/close", {}, key);
            if (!closed) return fail(closed.error());
        }
        for (const auto& [agent, key] : to_archive_) {
            const auto archived = ask("DELETE", "/v1/agents/" + percent_encoded(agent), {}, key);
            if (!archived) return fail(archived.error());
        }
        return {};
    }

    std::int64_t skipped() const { return skipped_; }

 private:
    Outcome<ApiResponse> ask(std::string method, std::string target, const json::object& body, std::string key) {
        const bool has_body = method != "DELETE";
        return client_.change({.method = std::move(method),
                               .target = std::move(target),
                               .body = has_body ? json::serialize(body) : "",
                               .key = std::move(key)});
    }
    Outcome<void> put(const std::string& target, const json::object& body, const std::string& key) {
        const auto answer = ask("PUT", target, body, key);
        if (!answer) return fail(answer.error());
        return {};
    }

    Outcome<void> put_agent(const json::value& agent, const std::string& key) {
        const std::string name = text_of(member_of(agent, "name"));
        const std::string target = "/v1/agents/" + percent_encoded(name);
        std::vector<std::string_view> members;
        for (const auto& [member, _] : defaults_of(Kind::agent)) members.push_back(member);
        json::object body = picked(agent, members);
        drop_hidden(name, body);
        if (const auto done = put(target, body, key); !done) return done;
        const std::string state = text_of(member_of(agent, "state"));
        if (state == "archived") to_archive_.emplace_back(name, key + "-archive");
        if (state != "paused") return {};
        // A person must resume it here, so the original cause of the pause does not matter.
        const auto paused =
            ask("POST", target + "/pause", {{"reason", "paused at the time of the export"}}, key + "-pause");
        if (!paused) return fail(paused.error());
        return {};
    }

    // An export with a read-only key has the names of environment variables, but not their values.
    void drop_hidden(const std::string& agent, json::object& body) {
        json::value* env = body.if_contains("env");
        if (env == nullptr || !env->is_object()) return;
        json::object known;
        for (const auto& [name, value] : env->get_object()) {
            if (!value.is_null()) {
                known[name] = value;
            } else {
                context_.remark(fmt::format("agent {}: the value of {} was not exported; set it again", one_line(agent),
                                            one_line(name)));
            }
        }
        *env = std::move(known);
    }

    Outcome<void> put_cap(const json::value& cap, const std::string& key) {
        const std::string kind = text_of(member_of(cap, "kind"));
        const std::string name = kind == "org" ? "" : "/" + percent_encoded(text_of(member_of(cap, "name")));
        return put("/v1/caps/" + kind + name, picked(cap, {"max_live"}), key);
    }

    Outcome<void> put_budget(const json::value& budget, const std::string& key) {
        const std::string name = text_of(member_of(budget, "name"));
        json::object body = picked(budget, {"scope", "metric", "timezone", "limit", "hard", "warn", "on_exhausted"});
        body["window"] = member_of(budget, "window.kind");
        if (json::object* scope = body.contains("scope") ? body["scope"].if_object() : nullptr) {
            // Runs and keys are not imported, so a budget for one of them would count nothing.
            if (!member_of(body["scope"], "run").is_null() || !member_of(body["scope"], "api_key").is_null()) {
                ++skipped_;
                context_.remark(
                    fmt::format("skipped budget {}: its run, key or session does not exist here", one_line(name)));
                return {};
            }
            const auto session = sessions_.find(text_of(member_of(body["scope"], "session")));
            if (session != sessions_.end()) (*scope)["session"] = session->second;
        }
        return put("/v1/budgets/" + percent_encoded(name), body, key);
    }

    Outcome<void> put_schedule(const json::value& schedule, const std::string& key) {
        const std::string name = text_of(member_of(schedule, "name"));
        json::object body =
            picked(schedule, {"agent", "every_s", "cron", "timezone", "jitter_s", "overlap", "missed", "missed_max",
                              "workspace", "resources", "mode", "isolate", "lease_s", "priority", "hold", "enabled"});
        const json::value* enabled = body.if_contains("enabled");
        const bool rests = enabled != nullptr && enabled->is_bool() && !enabled->get_bool();
        if (enables_ || rests) return put("/v1/schedules/" + percent_encoded(name), body, key);
        body["enabled"] = false;
        context_.remark(fmt::format("schedule {} is disabled; enable it: {}", one_line(name),
                                    shell_command({"interlock", "schedules", "enable", name})));
        return put("/v1/schedules/" + percent_encoded(name), body, key + "-disabled");
    }

    Outcome<void> create_session(const json::value& session, const std::string& key) {
        const auto answer = ask("POST", "/v1/sessions", picked(session, {"agent", "title", "metadata"}), key);
        if (!answer) return fail(answer.error());
        const std::string made = text_of(member_of(answer->document, "id"));
        sessions_[text_of(member_of(session, "id"))] = made;
        const json::value& closed = member_of(session, "closed");
        if (closed.is_bool() && closed.get_bool()) to_close_.emplace_back(made, key + "-close");
        return {};
    }

    // Each batch states the number of its first message, so it is stored in its place or refused.
    Outcome<void> take_message(std::string_view line, const json::value& record, const json::value& message) {
        const auto session = sessions_.find(text_of(member_of(record, "session")));
        if (session == sessions_.end()) {
            return fail(Failure{.code = "broken_export", .detail = "a message comes before its session"});
        }
        const bool full = batch_.size() >= batch_messages_max || batch_text_.size() + line.size() > batch_bytes_max;
        if (full || batch_session_ != session->second) {
            if (const auto sent = send_messages(); !sent) return sent;
            batch_session_ = session->second;
            batch_first_ = member_of(message, "seq");
        }
        batch_text_ += line;
        batch_.push_back(picked(message, {"role", "content", "metadata", "input_tokens", "output_tokens"}));
        return {};
    }

    Outcome<void> send_messages() {
        if (batch_.empty()) return {};
        const std::string key = "import-" + hash_text(sha256(batch_session_ + "\n" + batch_text_));
        const json::object body{{"messages", std::move(batch_)}, {"expected_seq", batch_first_}};
        batch_ = {};
        batch_text_.clear();
        const std::string session = std::exchange(batch_session_, "");
        const auto answer = ask("POST", "/v1/sessions/" + session + "/messages", body, key);
        if (!answer) return fail(answer.error());
        return {};
    }

    const Context& context_;
    ApiClient& client_;
    bool enables_;                                 // Schedules are enabled as they were.
    std::map<std::string, std::string> sessions_;  // Their ids there, and here.
    std::vector<std::pair<std::string, std::string>> to_close_;
    std::vector<std::pair<std::string, std::string>> to_archive_;
    json::array batch_;
    std::string batch_text_;
    std::string batch_session_;
    json::value batch_first_;
    std::int64_t skipped_ = 0;
};

// Shows the commands that the file can start, and asks.
Outcome<bool> may_start(const Context& context, const Invocation& invocation, const CheckedImport& checked,
                        const std::string& path) {
    if (checked.starts.empty()) return true;
    for (const std::string& start : checked.starts) context.remark(start);
    return agreed(
        context, invocation, fmt::format("{} adds the commands above to this server. Import it?", one_line(path)),
        bad_usage(
            fmt::format("{} adds commands to this server; cannot ask for confirmation: no terminal, or --json is set",
                        one_line(path)),
            "--yes imports it"));
}

// The number of imported lines; empty if the user declined.
Outcome<std::optional<std::int64_t>> import_from(Context& context, const Invocation& invocation, ApiClient& client,
                                                 std::FILE* file, const std::string& path) {
    // 1. Read and check the whole file, and ask.
    const auto checked = check_file(file, path);
    if (!checked) return fail(checked.error());
    const auto lines = static_cast<std::int64_t>(checked->lines.size());
    const auto yes = may_start(context, invocation, *checked, path);
    if (!yes) return fail(yes.error());
    if (!*yes) return std::optional<std::int64_t>();

    // 2. Read it again, and send.
    std::rewind(file);
    LineReader reader(file);
    Import import(context, client, invocation.has("enable-schedules"));
    for (std::int64_t number = 1; number <= lines; ++number) {
        const auto line = reader.next();
        if (!line || keyed_hash(*line) != checked->lines[static_cast<std::size_t>(number - 1)]) {
            return fail(Failure{.code = "broken_export",
                                .detail = fmt::format("line {} of {} was changed after it was checked", number, path),
                                .hint =
                                    "earlier lines are imported; copy the file to a directory that only you can write, "
                                    "and import it again"});
        }
        if (number % 100 == 0) context.output.step(fmt::format("line {} of {}", count(number), count(lines)));
        if (const auto taken = import.take(*line); !taken) {
            Failure failure = taken.error();
            failure.detail = fmt::format("line {} of {}: {}", number, path, failure.detail);
            failure.hint = "earlier lines are imported; repeat the import to continue";
            return fail(std::move(failure));
        }
    }
    if (const auto finished = import.finish(); !finished) return fail(finished.error());
    return std::optional(lines - import.skipped());
}

}  // namespace

ExitCode import_everything(Context& context, const Invocation& invocation) {
    const std::string& path = invocation.arguments[0];
    const auto file = open_regular_file(path, Links::follow);
    if (!file) {
        return context.report(
            bad_usage(fmt::format("cannot read {}: {}", path, file.error()),
                      "'interlock export FILE' writes such a file; it is read twice, so it cannot be a pipe"));
    }
    auto client = context.connect();
    using Lines = Outcome<std::optional<std::int64_t>>;
    const Lines lines = client ? import_from(context, invocation, *client, *file, path) : Lines(fail(client.error()));
    std::fclose(*file);
    context.output.step("");
    if (!lines) return context.report(lines.error());
    if (!*lines) {
        context.remark("nothing was imported");
        return ExitCode::refused;
    }
    if (context.settings.json) {
        context.output.data(json::serialize(json::object{{"lines", **lines}}) + "\n");
    } else {
        context.remark(fmt::format("imported {} from {}", count_of(**lines, "line"), path));
    }
    return ExitCode::ok;
}

}  // namespace interlock::cli
