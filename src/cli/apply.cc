#include "cli/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <set>
#include <tuple>

#include "cli/apply_files.h"
#include "cli/apply_plan.h"
#include "cli/consent.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

ExitCode report_mistakes(const Context& context, std::vector<Mistake> mistakes) {
    std::ranges::sort(mistakes, {}, [](const Mistake& one) { return std::tie(one.file, one.at, one.what); });
    std::set<std::string> files;
    json::array all;
    for (const Mistake& mistake : mistakes) {
        files.insert(mistake.file);
        all.push_back({{"file", mistake.file},
                       {"line", mistake.at.line},
                       {"column", mistake.at.column},
                       {"detail", mistake.what},
                       {"hint", mistake.hint}});
        if (context.settings.json) continue;
        context.output.talk(fmt::format("{}:{}:{}: {}", one_line(mistake.file), mistake.at.line, mistake.at.column,
                                        printable(mistake.what)));
        if (!mistake.hint.empty()) context.output.talk("    " + printable(mistake.hint));
    }
    const std::string detail =
        fmt::format("{} in {}; nothing was applied", count_of(static_cast<std::int64_t>(mistakes.size()), "mistake"),
                    count_of(static_cast<std::int64_t>(files.size()), "file"));
    return context.report(
        {.exit = ExitCode::bad_usage,
         .code = "wrong_files",
         .detail = detail,
         .problem = json::object{{"code", "wrong_files"}, {"detail", detail}, {"mistakes", std::move(all)}}});
}

Outcome<ServerLists> read_state(ApiClient& client) {
    ServerLists state;
    const auto read = [&](const std::string& target, json::array& into) -> Outcome<void> {
        auto answer = client.list({.target = target, .all = true});
        if (!answer) return fail(answer.error());
        if (const json::array* items = member_of(answer->document, "items").if_array()) into = *items;
        return {};
    };
    for (const auto& [target, into] : {std::pair{"/v1/agents", &state.agents}, std::pair{"/v1/budgets", &state.budgets},
                                       std::pair{"/v1/schedules", &state.schedules}}) {
        if (const auto done = read(target, *into); !done) return fail(done.error());
    }
    auto caps = client.get("/v1/caps");
    if (!caps) return fail(caps.error());
    if (const json::array* items = member_of(caps->document, "items").if_array()) state.caps = *items;
    return state;
}

// ---- the plan for people ------------------------------------------------------------------------------------------

std::string value_text(const json::value& value) {
    if (value.is_null()) return "nothing";
    if (const json::array* words = value.if_array()) {
        std::string text;
        for (const json::value& word : *words) text += (text.empty() ? "" : " ") + text_of(word);
        return one_line(text.empty() ? "nothing" : text);
    }
    if (const json::object* object = value.if_object()) {
        std::string text;
        for (const auto& [name, member] : *object) {
            text += fmt::format("{}{}={}", text.empty() ? "" : " ", std::string_view(name), text_of(member));
        }
        return one_line(text.empty() ? "nothing" : text);
    }
    const std::string text = text_of(value);
    return one_line(text.empty() ? "nothing" : text);
}

std::string field_line(const FieldChange& change, PlanAction action) {
    if (change.secret) {
        return fmt::format("    {}: {}\n", one_line(change.field),
                           change.to.is_null()     ? "removed"
                           : change.from.is_null() ? "new"
                                                   : "changed");
    }
    if (action == PlanAction::create) return fmt::format("    {}: {}\n", one_line(change.field), value_text(change.to));
    return fmt::format("    {}: {} -> {}\n", one_line(change.field), value_text(change.from), value_text(change.to));
}

std::string step_text(const PlanStep& step, const CliOutput& output) {
    struct Look {
        std::string_view sign;
        Style style;
    };
    constexpr Look looks[] = {
        {"+", Style::green}, {"~", Style::yellow}, {"=", Style::dim}, {"-", Style::red}, {"-", Style::dim}};
    const Look& look = looks[static_cast<std::size_t>(step.action)];
    std::string line = fmt::format("{} {} {}", look.sign, name_of(step.kind), one_line(step.name));
    if (step.action == PlanAction::leave) line += "  (add --prune to remove it)";
    std::string text = output.paint(look.style, line) + "\n";
    for (const FieldChange& change : step.fields) text += field_line(change, step.action);
    return text;
}

void show_plan(const Context& context, const Plan& plan, bool applied) {
    if (context.settings.json) {
        json::object document = to_json(plan);
        document["applied"] = applied;
        return context.output.data(json::serialize(document) + "\n");
    }
    for (const PlanStep& step : plan.steps) {
        const bool changes = step.action != PlanAction::unchanged && step.action != PlanAction::leave;
        if (!context.settings.quiet) {
            context.output.data(step_text(step, context.output));
        } else if (changes) {
            context.output.data(fmt::format("{} {}\n", name_of(step.kind), one_line(step.name)));
        }
    }
}

std::string summary(const Plan& plan) {
    std::string text;
    for (const auto& [action, what] :
         {std::pair{PlanAction::create, "to create"}, std::pair{PlanAction::change, "to change"},
          std::pair{PlanAction::remove, "to remove"}, std::pair{PlanAction::unchanged, "unchanged"},
          std::pair{PlanAction::leave, "kept"}}) {
        if (plan.count(action) > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", plan.count(action), what);
    }
    return text.empty() ? "no objects" : text;
}

// ---- carrying it out ----------------------------------------------------------------------------------------------

Outcome<void> carry_out(const Context& context, ApiClient& client, const Plan& plan) {
    std::size_t done = 0;
    for (const PlannedRequest& request : plan.requests) {
        const auto answer = client.change({.method = request.method,
                                           .target = request.target,
                                           .body = request.body,
                                           .key = context.world.fresh_key()});
        if (!answer) {
            Failure failure = answer.error();
            failure.detail = fmt::format("{}: {}", request.what, failure.detail);
            const std::string so_far =
                fmt::format("{} of {} requests succeeded; apply again to continue", done, plan.requests.size());
            failure.hint = failure.hint.empty() ? so_far : failure.hint + "; " + so_far;
            return fail(std::move(failure));
        }
        ++done;
        context.output.step(fmt::format("{} of {}", done, plan.requests.size()));
    }
    return {};
}

}  // namespace

ExitCode apply(Context& context, const Invocation& invocation) {
    // 1. Read the files.
    const std::string& directory = invocation.arguments[0];
    if (!std::filesystem::is_directory(directory)) {
        return context.report(bad_usage(fmt::format("{} is not a directory", one_line(directory)),
                                        "put agents in DIR/agents/*.yaml or DIR/*.yaml"));
    }
    const ApplyFiles files = read_apply_files(directory, context.environment.home);
    if (!files.mistakes.empty()) return report_mistakes(context, files.mistakes);
    const bool prune = invocation.has("prune");
    if (files.wanted.empty() && !prune) {
        return context.report(bad_usage(fmt::format("no agents in {}", one_line(directory)),
                                        "put agents in DIR/agents/*.yaml or DIR/*.yaml"));
    }

    // 2. Plan the changes.
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const auto state = read_state(*client);
    if (!state) return context.report(state.error());
    const Plan plan = make_plan(files, *state, prune ? Prune::yes : Prune::no);
    if (!plan.mistakes.empty()) return report_mistakes(context, plan.mistakes);
    const bool dry = invocation.has("dry-run");
    if (plan.requests.empty() || dry) {
        show_plan(context, plan, false);
        context.remark(plan.requests.empty() ? fmt::format("nothing to change ({})", summary(plan))
                                             : fmt::format("{}; nothing was applied (--dry-run)", summary(plan)));
        return ExitCode::ok;
    }

    // 3. Ask for confirmation.
    if (!context.settings.json) show_plan(context, plan, false);
    const auto yes = agreed(context, invocation, summary(plan) + ". Apply it?",
                            bad_usage("cannot ask for confirmation: no terminal, or --json is set",
                                      "pass --yes, or --dry-run to only show the changes"));
    if (!yes) return context.report(yes.error());
    if (!*yes) {
        context.remark("nothing was applied");
        return ExitCode::refused;
    }

    // 4. Carry out the plan, one request after the other.
    const auto done = carry_out(context, *client, plan);
    context.output.step("");
    if (!done) return context.report(done.error());
    if (context.settings.json) show_plan(context, plan, true);
    context.remark(fmt::format("applied: {} created, {} changed, {} removed", plan.count(PlanAction::create),
                               plan.count(PlanAction::change), plan.count(PlanAction::remove)));
    return ExitCode::ok;
}

}  // namespace interlock::cli
