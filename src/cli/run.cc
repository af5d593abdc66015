#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>

#include "cli/context.h"
#include "cli/request.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

ExitCode read_and_show(Context& context, const CliCommand& command, const Invocation& invocation, const Built& built);
ExitCode watch(Context& context, const std::string& seconds, const std::function<ExitCode()>& draw);
std::string filled(std::string sentence, const CliCommand& command, const Invocation& invocation);

}  // namespace

ExitCode run(Context& context, const CliCommand& command, const Invocation& invocation) {
    return command.run ? command.run(context, invocation) : run_request(context, command, invocation);
}

ExitCode run_request(Context& context, const CliCommand& command, const Invocation& invocation) {
    const auto built = build_request(command, invocation, context.world.now(), context.output.in);
    if (!built) return context.report(built.error());
    if (command.reads()) return read_and_show(context, command, invocation, *built);

    auto client = context.connect();
    if (!client) return context.report(client.error());
    const auto answer = client->change(
        {.method = command.method, .target = built->target, .body = built->body, .key = key_of(context, invocation)});
    if (!answer) return context.report(answer.error());
    if (command.answer != CliCommand::ResponseShape::nothing) show(context, command, invocation, *answer);
    if (!command.done.empty()) context.remark(filled(command.done, command, invocation));
    if (answer->response.header("Idempotent-Replayed") == "true") {
        context.remark("already done with this idempotency key; this is the first response");
    }
    return ExitCode::ok;
}

Outcome<ApiClient> Context::connect() const {
    const auto server = find_server(settings, environment);
    if (!server) return fail(server.error());
    return ApiClient(world.dial(server->address(), timeout()), world, {.key = server->key, .timeout = timeout()});
}

ExitCode Context::report(const Failure& failure) const {
    if (settings.json) {
        json::value document = failure.problem;
        if (document.is_null()) document = json::object{{"code", failure.code}, {"detail", failure.detail}};
        if (!failure.hint.empty()) document.get_object()["hint"] = failure.hint;
        output.talk(json::serialize(document));
    } else {
        output.error(printable(failure.detail), printable(failure.hint));
    }
    return failure.exit;
}

void Context::remark(std::string_view line) const {
    if (!settings.quiet && !settings.json) output.talk(line);
}

Outcome<std::size_t> limit_of(const Invocation& invocation) {
    const auto text = invocation.value("limit");
    if (!text) return std::size_t{0};
    std::size_t limit = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), limit);
    if (error == std::errc() && end == text->data() + text->size() && limit > 0) return limit;
    return fail(
        bad_usage(fmt::format("--limit takes a number from 1, not '{}'", one_line(*text)), "pass --all for all rows"));
}

std::string key_of(const Context& context, const Invocation& invocation) {
    const auto given = invocation.value("idempotency-key");
    return given ? *given : context.world.fresh_key();
}

void show(const Context& context, const CliCommand& command, const Invocation& invocation, const ApiResponse& answer) {
    const CliOutput& output = context.output;
    if (context.settings.json) return output.data(answer.response.body + "\n");

    const json::value& items = member_of(answer.document, "items");
    const bool list = command.answer != CliCommand::ResponseShape::one && items.is_array();
    const View& view = *command.view;
    if (context.settings.quiet) {
        const auto name = [&](const json::value& row) { return one_line(text_of(member_of(row, view.id))) + "\n"; };
        if (!list) return output.data(name(answer.document));
        for (const json::value& row : items.get_array()) output.data(name(row));
        return;
    }
    if (!list) {
        if (!answer.document.is_object()) return;
        return output.data(render(details_of(answer.document.get_object(), view, output, context.world.now()), output));
    }
    const bool more = !member_of(answer.document, "next").is_null() && member_of(answer.document, "head").is_null();
    if (items.get_array().empty()) {
        if (more) return context.remark("No matches on this page; add --all to search all pages.");
        const auto given = [&](const Flag& flag) { return invocation.has(flag.name); };
        return context.remark(std::ranges::any_of(command.flags, given) ? "No matches." : view.when_empty);
    }
    output.data(render(table_of(items.get_array(), view, output, context.world.now()), output));
    if (more) {
        context.remark("more rows exist; add --all or --limit N");
    }
}

namespace {

ExitCode read_and_show(Context& context, const CliCommand& command, const Invocation& invocation, const Built& built) {
    const auto limit = limit_of(invocation);
    if (!limit) return context.report(limit.error());
    const Pages pages{.target = built.target,
                      .items_max = *limit,
                      .all = invocation.has("all"),
                      .after = invocation.value("after").value_or("")};
    auto client = context.connect();
    if (!client) return context.report(client.error());

    const auto seconds = invocation.value("watch");
    const auto draw = [&] {
        const bool list = command.answer == CliCommand::ResponseShape::list;
        const auto answer = list ? client->list(pages) : client->get(built.target);
        // Cleared only now, so that the screen does not flicker.
        if (seconds && context.output.redraws) context.output.data("\x1b[H\x1b[J");
        if (!answer) return context.report(answer.error());
        show(context, command, invocation, *answer);
        return ExitCode::ok;
    };
    return seconds ? watch(context, *seconds, draw) : draw();
}

// Ends with Ctrl-C or a refusal. An interruption of the server is waited out once it has responded.
ExitCode watch(Context& context, const std::string& seconds, const std::function<ExitCode()>& draw) {
    const double pause_s = std::atof(seconds.c_str());
    if (pause_s < 0.1 || pause_s > 86400) {
        return context.report(
            bad_usage(fmt::format("--watch takes a number of seconds from 0.1, not '{}'", one_line(seconds)),
                      "--watch without a number refreshes every two seconds"));
    }
    for (bool drawn = false;; drawn = true) {
        const ExitCode ended = draw();
        const bool passing = drawn && (ended == ExitCode::not_reachable || ended == ExitCode::busy);
        if (ended != ExitCode::ok && !passing) return ended;
        context.world.sleep(std::chrono::milliseconds(static_cast<std::int64_t>(pause_s * 1000)));
    }
}

std::string filled(std::string sentence, const CliCommand& command, const Invocation& invocation) {
    for (std::size_t i = 0; i < command.arguments.size() && i < invocation.arguments.size(); ++i) {
        const std::string hole = '{' + command.arguments[i].name + '}';
        const std::size_t at = sentence.find(hole);
        if (at != std::string::npos) sentence.replace(at, hole.size(), one_line(invocation.arguments[i]));
    }
    return sentence;
}

}  // namespace
}  // namespace interlock::cli
