#include "cli/failure.h"

#include <fmt/format.h>

#include <map>

#include "base/shell.h"
#include "cli/view.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

// {word} is taken from the problem itself; a hint that names what the problem does not have is not shown.
const std::map<std::string_view, std::string_view>& hints() {
    static const std::map<std::string_view, std::string_view> all{
        {"unauthorized", "pass a key with --key or INTERLOCK_KEY; on the server's machine its own user needs none"},
        {"forbidden",
         "'interlock keys show self' says what this key may do; a person with an admin's key makes another"},
        {"not_found", "'interlock {what}s ls' lists what there is"},
        {"budget_exceeded", "'interlock budgets show {budget}' shows who holds the rest and when the window turns"},
        {"budget_frozen", "look at 'interlock budgets show {budget}', then 'interlock budgets unfreeze {budget}'"},
        {"workspace_busy",
         "'interlock runs show {holder.run}' shows who works there; --on-conflict queue waits for it"},
        {"concurrency_limit",
         "'interlock runs ls --status starting,running' and 'interlock caps ls' show what is in use"},
        {"agent_paused", "'interlock agents show NAME' says by whom; 'interlock agents resume NAME' lets it go on"},
        {"stale_fence", "the run has moved on without this fence; it may not act for it any more"},
        {"unexpected_seq", "the next message is number {next_seq}; read what came in between first"},
        {"has_unfinished_runs", "'interlock runs ls --agent NAME' lists them; cancel them or wait"},
        {"shape_is_fixed", "only limit, warn and on-exhausted can change; remove the budget to make it anew"},
        {"no_command", "'interlock agents put NAME -- COMMAND' sets it; 'interlock run -- COMMAND' states another"},
        {"other_node", "--url {url} asks there"},
        {"key_reused", "take a new --idempotency-key: this one belongs to another request"},
    };
    return all;
}

std::string filled_hint(std::string_view code, const json::value& problem) {
    // The one thing that is not listed under its own name.
    if (code == "not_found" && text_of(member_of(problem, "what")) == "worktree") {
        return "'interlock places' lists what there is";
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
        const std::string word = shell_word(value);  // What the server says is not ours.
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
    // A server that broke down over a change may have made it.
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
        failure.detail =
            fmt::format("the server answered {} and no reason; is it an Interlock server?", response.status);
    }
    if (const std::string pointer = text_of(member_of(problem, "pointer")); !pointer.empty()) {
        failure.detail += fmt::format(" (at {})", pointer);
    }
    failure.hint = filled_hint(failure.code, problem);
    failure.problem = std::move(problem);
    return failure;
}

}  // namespace interlock::cli
