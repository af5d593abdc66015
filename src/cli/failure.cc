#include "cli/failure.h"

#include <fmt/format.h>

#include <map>

#include "base/shell.h"
#include "cli/view.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

// {member} is replaced by that member of the problem. A hint is not shown if the problem lacks the member.
const std::map<std::string_view, std::string_view>& hints() {
    static const std::map<std::string_view, std::string_view> all{
        {"unauthorized",
         "pass an API key with --key or INTERLOCK_KEY; the server's own user on its machine needs none"},
        {"forbidden", "'interlock keys show self' shows the scopes of this key; create another with an admin key"},
        {"not_found", "interlock {what}s ls"},
        {"budget_exceeded", "'interlock budgets show {budget}' shows its holds and when it resets"},
        {"budget_frozen",
         "find the reason with 'interlock budgets show {budget}', then 'interlock budgets unfreeze {budget}'"},
        {"workspace_busy", "add --on-conflict queue to wait, or --isolate for a separate worktree"},
        {"concurrency_limit",
         "'interlock runs ls --status starting,running' lists live runs, 'interlock caps ls' the caps"},
        {"agent_paused", "find the reason with 'interlock agents show NAME', then 'interlock agents resume NAME'"},
        {"stale_fence", "the run lost its lease, so this process must stop"},
        {"unexpected_seq", "read the new messages, then retry with --expected-seq {next_seq}"},
        {"has_unfinished_runs", "list them with 'interlock runs ls --agent NAME', then 'interlock runs cancel RUN…'"},
        {"shape_is_fixed",
         "only limit, warn and on-exhausted can change; for others: interlock budgets rm NAME, then put it again"},
        {"no_command", "set it with 'interlock agents put NAME -- COMMAND', or pass it: interlock run -- COMMAND"},
        {"other_node", "add --url {url}"},
        {"key_reused", "use a new --idempotency-key"},
    };
    return all;
}

std::string filled_hint(std::string_view code, const json::value& problem) {
    // Worktrees are listed with claims.
    if (code == "not_found" && text_of(member_of(problem, "what")) == "worktree") {
        return "interlock claims";
    }
    // The caller may not run the command, and the detail says who may.
    if (const auto* person = member_of(problem, "needs_person").if_bool(); person != nullptr && *person) return "";
    const auto found = hints().find(code);
    if (found == hints().end()) return "";
    std::string text(found->second);
    for (std::size_t open = 0; (open = text.find('{', open)) != std::string::npos;) {
        const std::size_t close = text.find('}', open);
        const std::string value =
            text_of(member_of(problem, std::string_view(text).substr(open + 1, close - open - 1)));
        if (value.empty()) return "";
        const std::string word = shell_word(value);  // Quoted, because the text comes from the server.
        text.replace(open, close - open + 1, word);
        open += word.size();
    }
    return text;
}

ExitCode exit_of(int status, std::string_view code, Asked asked) {
    const ExitCode open = asked == Asked::changing ? ExitCode::outcome_unknown : ExitCode::busy;
    if (code == "outcome_unknown") return open;
    switch (status) {
        case 401:
        case 403:
            return ExitCode::not_permitted;
        case 404:
            return ExitCode::not_found;
        case 402:
        case 409:
        case 422:
            return ExitCode::refused;
        case 503:
            return ExitCode::busy;
        default:
            break;
    }
    // A server that failed during a change may have committed it.
    if (status >= 500) return open;
    return ExitCode::bad_usage;
}

}  // namespace

Failure bad_usage(std::string detail, std::string hint) {
    return {.exit = ExitCode::bad_usage, .code = "bad_usage", .detail = std::move(detail), .hint = std::move(hint)};
}

Failure failure_of(const HttpResponse& response, Asked asked) {
    boost::system::error_code unreadable;
    json::value problem = json::parse(response.body, unreadable);
    if (unreadable || !problem.is_object()) problem = nullptr;

    Failure failure;
    failure.code = text_of(member_of(problem, "code"));
    failure.exit = exit_of(response.status, failure.code, asked);
    failure.detail = text_of(member_of(problem, "detail"));
    if (failure.detail.empty()) failure.detail = text_of(member_of(problem, "title"));
    if (failure.detail.empty()) {
        failure.detail = fmt::format(
            "the server responded with status {} and no problem document; it may not be Interlock", response.status);
    }
    if (const std::string pointer = text_of(member_of(problem, "pointer")); !pointer.empty()) {
        failure.detail += fmt::format(" (at {})", pointer);
    }
    failure.hint = filled_hint(failure.code, problem);
    failure.problem = std::move(problem);
    return failure;
}

}  // namespace interlock::cli
