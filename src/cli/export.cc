#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <set>

#include "base/calendar.h"
#include "base/sha256.h"
#include "cli/files.h"
#include "cli/text.h"
#include "cli/transfer.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

// Counts and hashes the lines it writes, and ends the file with both.
class ExportFile {
 public:
    explicit ExportFile(std::FILE* file) : file_(file) {}

    void add(const json::object& record) {
        const std::string line = json::serialize(record) + "\n";
        hasher_.add(line);
        write(line);
        ++lines_;
    }
    void close() {
        const Sha256 hash = hasher_.finish();
        const std::string hex = in_hex({reinterpret_cast<const char*>(hash.data()), hash.size()});
        write(json::serialize(json::object{{"kind", "end"}, {"lines", lines_}, {"sha256", hex}}) + "\n");
        good_ = std::fflush(file_) == 0 && good_;
    }
    std::int64_t lines() const { return lines_; }
    bool good() const { return good_; }

 private:
    void write(std::string_view text) {
        good_ = std::fwrite(text.data(), 1, text.size(), file_) == text.size() && good_;
    }

    std::FILE* file_;
    Sha256Hasher hasher_;
    std::int64_t lines_ = 0;
    bool good_ = true;
};

struct Source {
    const Context& context;
    ApiClient client;
    ExportFile file;
};

Outcome<json::array> all_of(Source& source, const std::string& target) {
    const auto answer = source.client.list({.target = target, .all = true});
    if (!answer) return fail(answer.error());
    const auto* items = member_of(answer->document, "items").if_array();
    return items == nullptr ? json::array() : *items;
}

// Caps have no pages.
Outcome<void> add_caps(Source& source) {
    const auto answer = source.client.get("/v1/caps");
    if (!answer) return fail(answer.error());
    const auto* caps = member_of(answer->document, "items").if_array();
    for (const json::value& cap : caps == nullptr ? json::array() : *caps) {
        source.file.add({{"kind", "cap"}, {"value", cap}});
    }
    return {};
}

Outcome<void> add_all(Source& source, std::string_view kind, const std::string& target) {
    const auto rows = all_of(source, target);
    if (!rows) return fail(rows.error());
    for (const json::value& row : *rows) source.file.add({{"kind", kind}, {"value", row}});
    return {};
}

// Includes archived agents, because sessions may belong to them.
Outcome<void> add_agents(Source& source) {
    std::set<std::string> seen;
    for (const std::string target : {"/v1/agents", "/v1/agents?archived=true"}) {
        const auto rows = all_of(source, target);
        if (!rows) return fail(rows.error());
        for (const json::value& row : *rows) {
            if (seen.insert(text_of(member_of(row, "name"))).second)
                source.file.add({{"kind", "agent"}, {"value", row}});
        }
    }
    return {};
}

// Reads one page of messages at a time, because a long session may not fit into memory.
Outcome<void> add_sessions(Source& source) {
    auto sessions = all_of(source, "/v1/sessions");
    if (!sessions) return fail(sessions.error());
    std::ranges::reverse(*sessions);  // The server lists the newest first, the file the oldest.
    std::size_t done = 0;
    for (const json::value& session : *sessions) {
        source.context.output.step(fmt::format("session {} of {}", ++done, sessions->size()));
        const std::string id = text_of(member_of(session, "id"));
        source.file.add({{"kind", "session"}, {"value", session}});
        const std::string target = fmt::format("/v1/sessions/{}/messages", percent_encoded(id));
        std::string after;
        while (true) {
            const auto page = source.client.list({.target = target, .items_max = 1000, .after = after});
            if (!page) return fail(page.error());
            const auto* messages = member_of(page->document, "items").if_array();
            if (messages == nullptr || messages->empty()) break;
            for (const json::value& message : *messages) {
                source.file.add({{"kind", "message"}, {"session", id}, {"value", message}});
            }
            const std::string next = text_of(member_of(page->document, "next"));
            if (next.empty() || next == after) break;
            after = next;
        }
    }
    return {};
}

Outcome<void> export_to(Source& source) {
    source.file.add({{"kind", "interlock_export"}, {"version", 1}, {"at", to_iso8601(source.context.world.now())}});
    if (const auto added = add_agents(source); !added) return added;
    if (const auto added = add_caps(source); !added) return added;
    if (const auto added = add_sessions(source); !added) return added;
    if (const auto added = add_all(source, "budget", "/v1/budgets"); !added) return added;
    if (const auto added = add_all(source, "schedule", "/v1/schedules"); !added) return added;
    source.file.close();
    return {};
}

}  // namespace

ExitCode export_everything(Context& context, const Invocation& invocation) {
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const std::string path = invocation.arguments.empty() ? "-" : invocation.arguments[0];
    const bool to_file = path != "-";
    const auto made = to_file ? make_file(path) : Outcome<std::FILE*>(context.output.out);
    if (!made) return context.report(made.error());
    std::FILE* file = *made;
    Source source{.context = context, .client = std::move(*client), .file = ExportFile(file)};
    const auto exported = export_to(source);
    context.output.step("");
    const bool written = source.file.good() && (!to_file || std::fclose(file) == 0);
    if (exported && written) {
        if (to_file) context.remark(fmt::format("exported {} to {}", count_of(source.file.lines(), "line"), path));
        return ExitCode::ok;
    }
    if (to_file) std::remove(path.c_str());  // Leave no half-written file.
    if (!exported) return context.report(exported.error());
    return context.report({.code = "cannot_write",
                           .detail = fmt::format("cannot write {}", path),
                           .hint = "check that the disk has room"});
}

}  // namespace interlock::cli
