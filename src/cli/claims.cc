// Claims of live runs, and the worktrees of live and ended runs.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <filesystem>

#include "cli/context.h"
#include "cli/nouns.h"
#include "cli/request.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

const View& claims_view() {
    static const View view{
        .id = "path",
        .columns = {{"CLAIM", "path", Format::id},
                    {"KIND", "kind", Format::text, Room::if_there_is},
                    {"MODE", "mode", Format::text},
                    {"AGENT", "agent", Format::id},
                    {"RUN", "run", Format::id},
                    {"STATUS", "status", Format::status},
                    {"SINCE", "since", Format::time},
                    {"HOST", "host", Format::text, Room::if_there_is}},
        .when_empty = "No claims. Live runs claim their workspace and resources: interlock run -- COMMAND"};
    return view;
}

const View& worktrees_view() {
    static const View view{.id = "path",
                           .columns = {{"WORKTREE", "path", Format::id},
                                       {"STATE", "state", Format::status},
                                       {"BRANCH", "branch", Format::id, Room::if_there_is},
                                       {"AGENT", "agent", Format::id},
                                       {"RUN", "run", Format::id},
                                       {"STATUS", "status", Format::status},
                                       {"CREATED", "created_at", Format::time},
                                       {"NODE", "node", Format::text, Room::if_there_is}},
                           .fields = {{"worktree", "path", Format::id},
                                      {"state", "state", Format::status},
                                      {"run", "run", Format::id},
                                      {"run status", "status", Format::status},
                                      {"agent", "agent", Format::id},
                                      {"node", "node"},
                                      {"repository", "repository", Format::id},
                                      {"branch", "branch", Format::id},
                                      {"base commit", "base", Format::id},
                                      {"first port", "port_base"},
                                      {"created", "created_at", Format::time},
                                      {"saved as", "saved_as", Format::id},
                                      {"size", "bytes", Format::size},
                                      {"removable", "removable", Format::yes},
                                      {"kept because", "reasons", Format::rows}}};
    return view;
}

const View& collected_view() {
    static const View view{.id = "run",
                           .columns = {{"RUN", "run", Format::id},
                                       {"ACTION", "action", Format::status},
                                       {"WORKTREE", "path", Format::id},
                                       {"REASON", "why", Format::free_text},
                                       {"SAVED AS", "saved_as", Format::id, Room::if_there_is}},
                           .when_empty = "No worktrees. Create one: interlock run --isolate -- COMMAND"};
    return view;
}

json::array items_of(const json::value& document) {
    const auto* items = member_of(document, "items").if_array();
    return items == nullptr ? json::array() : *items;
}

// ---- ls -----------------------------------------------------------------------------------------------------------

struct FoundClaims {
    ApiResponse claims;
    json::array worktrees;
};

Outcome<FoundClaims> look(ApiClient& client) {
    auto claims = client.get("/v1/claims");
    if (!claims) return fail(claims.error());
    const auto worktrees = client.get("/v1/worktrees");
    if (!worktrees) return fail(worktrees.error());
    return FoundClaims{std::move(*claims), items_of(worktrees->document)};
}

void print_table(const Context& context, const json::array& rows, const View& view) {
    context.output.data(render(table_of(rows, view, context.output, context.world.now()), context.output));
}

ExitCode list(Context& context, const Invocation&) {
    auto client = context.connect();
    if (!client) return context.report(client.error());
    auto found = look(*client);
    if (!found) return context.report(found.error());
    const json::array claims = items_of(found->claims.document);
    if (context.settings.json) {
        json::object both = found->claims.document.is_object() ? found->claims.document.get_object() : json::object();
        both["worktrees"] = found->worktrees;
        context.output.data(json::serialize(both) + "\n");
        return ExitCode::ok;
    }
    if (context.settings.quiet) {
        for (const json::array* rows : {&claims, static_cast<const json::array*>(&found->worktrees)}) {
            for (const json::value& row : *rows) {
                context.output.data(one_line(text_of(member_of(row, "path"))) + "\n");
            }
        }
        return ExitCode::ok;
    }
    if (claims.empty()) context.remark(claims_view().when_empty);
    if (!claims.empty()) print_table(context, claims, claims_view());
    if (found->worktrees.empty()) return ExitCode::ok;
    if (!claims.empty()) context.output.data("\n");
    print_table(context, found->worktrees, worktrees_view());
    return ExitCode::ok;
}

// ---- why ----------------------------------------------------------------------------------------------------------

// `inner` is `outer`, or a path below it.
bool contains(std::string_view outer, std::string_view inner) {
    return inner.starts_with(outer) && (inner.size() == outer.size() || outer == "/" || inner[outer.size()] == '/');
}

struct ClaimQuery {
    std::string run;
    std::string path;

    bool about(const json::value& row) const {
        if (!run.empty()) return text_of(member_of(row, "run")) == run;
        const std::string other = text_of(member_of(row, "path"));
        return contains(other, path) || contains(path, other);
    }
};

ExitCode why(Context& context, const Invocation& invocation) {
    const std::string& text = invocation.arguments.front();
    ClaimQuery asked;
    if (text.starts_with("run_")) {
        asked.run = text;
    } else {
        std::error_code unresolved;
        const auto absolute = std::filesystem::absolute(text);
        asked.path = std::filesystem::weakly_canonical(absolute, unresolved).string();
        if (unresolved) asked.path = absolute.lexically_normal().string();
        if (asked.path.size() > 1 && asked.path.ends_with('/')) asked.path.pop_back();
    }
    auto client = context.connect();
    if (!client) return context.report(client.error());
    auto found = look(*client);
    if (!found) return context.report(found.error());

    json::array claims;
    for (const json::value& claim : items_of(found->claims.document)) {
        if (asked.about(claim)) claims.push_back(claim);
    }
    json::array worktrees;
    for (const json::value& worktree : found->worktrees) {
        if (!asked.about(worktree)) continue;
        const auto seen = client->get("/v1/worktrees/" + percent_encoded(text_of(member_of(worktree, "run"))));
        if (!seen) return context.report(seen.error());
        worktrees.push_back(seen->document);
    }
    if (context.settings.json) {
        context.output.data(json::serialize(json::object{{"claims", claims}, {"worktrees", worktrees}}) + "\n");
        return ExitCode::ok;
    }
    if (claims.empty() && worktrees.empty()) {
        return context.report(
            {.exit = ExitCode::not_found,
             .code = "not_found",
             .detail = fmt::format("'{}' is neither claimed by a live run nor a worktree", one_line(text)),
             .hint = "interlock claims"});
    }
    if (!claims.empty()) print_table(context, claims, claims_view());
    for (const json::value& worktree : worktrees) {
        if (!worktree.is_object()) continue;
        if (!claims.empty() || &worktree != &worktrees.front()) context.output.data("\n");
        context.output.data(render(
            details_of(worktree.get_object(), worktrees_view(), context.output, context.world.now()), context.output));
    }
    return ExitCode::ok;
}

// ---- gc -----------------------------------------------------------------------------------------------------------

std::string why_of(const json::value& row) {
    std::string text = text_of(member_of(row, "detail"));
    if (const auto* reasons = member_of(row, "reasons").if_array()) {
        for (const json::value& reason : *reasons) {
            text += (text.empty() ? "" : "; ") + text_of(member_of(reason, "detail"));
        }
    }
    return text;
}

ExitCode collect(Context& context, const Invocation& invocation) {
    const bool remove = invocation.has("remove");
    const bool force = invocation.has("force");
    if (force && invocation.arguments.empty()) {
        return context.report(
            bad_usage("--force needs the runs whose worktrees to remove", "interlock claims gc --remove --force RUN…"));
    }
    const json::object body{{"remove", remove}, {"force", force}, {"runs", json::value_from(invocation.arguments)}};
    auto client = context.connect();
    if (!client) return context.report(client.error());
    auto answer = client->change({.method = "POST",
                                  .target = "/v1/worktrees/gc",
                                  .body = json::serialize(body),
                                  .key = key_of(context, invocation)});
    if (!answer) return context.report(answer.error());
    json::array rows = items_of(answer->document);
    bool failed = false;
    std::int64_t could_go = 0;
    for (json::value& row : rows) {
        if (!row.is_object()) continue;
        row.get_object()["why"] = why_of(row);
        const std::string action = text_of(member_of(row, "action"));
        failed |= action == "failed";
        could_go += action == "would_remove" ? 1 : 0;
    }
    if (context.settings.json) {
        context.output.data(answer->response.body + "\n");
    } else {
        const CliCommand& self = *find_command({"claims", "gc"});
        show(context, self, invocation, {.response = answer->response, .document = json::object{{"items", rows}}});
        if (could_go > 0)
            context.remark(fmt::format("{} removable; add --remove to remove {}", count_of(could_go, "worktree"),
                                       could_go == 1 ? "it" : "them"));
    }
    return failed ? ExitCode::refused : ExitCode::ok;
}

}  // namespace

std::vector<CliCommand> claim_commands() {
    Argument runs = run_argument();
    runs.needed = Argument::Needed::many;
    runs.help = "Runs whose worktrees to remove (default all)";
    return {
        {.words = {"claims", "ls"},
         .summary = "List the claims of live runs, and all worktrees",
         .examples = {{"interlock claims ls", "the same as 'interlock claims'"}},
         .method = "GET",
         .path = "/v1/claims",
         .answer = CliCommand::ResponseShape::whole,
         .view = &claims_view(),
         .run = list},
        {.words = {"claims", "why"},
         .summary = "Show which run claims a path, and why a worktree is kept",
         .arguments = {{.name = "WHERE", .help = "Run id or path", .completes = "runs"}},
         .examples = {{"interlock claims why $run", ""}, {"interlock claims why ~/src/app", ""}},
         .run = why},
        {.words = {"claims", "gc"},
         .summary = "Remove worktrees without unsaved work, or list them",
         .arguments = {runs},
         .flags =
             {{.name = "remove", .help = "Remove them instead of listing them", .takes = ValueType::on, .local = true},
              {.name = "force",
               .help = "Also remove worktrees with unsaved work, after saving it in their repository",
               .takes = ValueType::on,
               .local = true}},
         .examples = {{"interlock claims gc", "what is removable, and why the rest is kept"},
                      {"interlock claims gc --remove", ""},
                      {"interlock claims gc --remove --force $run", "'interlock claims restore' brings it back"}},
         .answer = CliCommand::ResponseShape::whole,
         .view = &collected_view(),
         .run = collect},
        {.words = {"claims", "restore"},
         .summary = "Restore a worktree that was removed with unsaved work",
         .arguments = {run_argument()},
         .examples = {{"interlock claims restore $run", ""}},
         .method = "POST",
         .path = "/v1/worktrees/{RUN}/restore",
         .view = &worktrees_view()},
    };
}

}  // namespace interlock::cli
