// `interlock run`: a command under Interlock's eye, in this terminal or behind it.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <filesystem>

#include "base/shell.h"
#include "cli/child_run.h"
#include "cli/context.h"
#include "cli/nouns.h"
#include "cli/request.h"
#include "cli/text.h"
#include "shim/adapters.h"
#include "shim/environment.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

constexpr const char* default_agent = "default";
constexpr int default_agent_runs = 100;  // It stands for whatever people type, so its cap is not what holds them back.

Outcome<json::object> asked_for(const Context& context, const CliCommand& self, const Invocation& invocation);
Outcome<ApiClient> reach(const Context& context, bool foreground);
Outcome<ApiResponse> look_at_agent(Context& context, ApiClient& client, const std::string& agent, bool by_default);
ExitCode hand_over(Context& context, ApiClient& client, const json::value& run);
ExitCode start(Context& context, const Invocation& invocation) {
    // 1. What is wanted.
    const CliCommand& self = *find_command({"run"});
    auto body = asked_for(context, self, invocation);
    if (!body) return context.report(body.error());
    const bool detach = invocation.has("detach");
    // A key that was typed is for a server that has nothing to do with this run.
    if (!context.environment.run.empty() && context.settings.key.empty()) {
        return start_child_run(context, invocation, std::move(*body));
    }

    // 2. By whom, and so where: here, unless the agent has a place of its own.
    auto client = reach(context, !detach);
    if (!client) return context.report(client.error());
    const std::string agent = text_of((*body)["agent"]);
    const auto known = look_at_agent(context, *client, agent, !invocation.has("agent"));
    if (!known) return context.report(known.error());
    if (!body->contains("workspace") && text_of(member_of(known->document, "workspace")).empty()) {
        std::error_code gone;
        (*body)["workspace"] = std::filesystem::current_path(gone).string();
        if (gone) {
            return context.report(
                bad_usage("the current directory is gone", "--workspace DIR names another, --no-workspace none"));
        }
    }

    // 3. May it?
    const auto admitted = client->change(
        {.method = "POST", .target = "/v1/runs", .body = json::serialize(*body), .key = key_of(context, invocation)});
    if (!admitted) return context.report(admitted.error());
    return detach ? leave_behind(context, *admitted) : hand_over(context, *client, admitted->document);
}

Outcome<json::object> asked_for(const Context& context, const CliCommand& self, const Invocation& invocation) {
    const auto built = build_request(self, invocation, context.world.now(), context.terminal.in);
    if (!built) return fail(built.error());
    json::object body = json::parse(built->body).as_object();
    const bool detach = invocation.has("detach");
    if (!body.contains("agent")) body["agent"] = default_agent;
    body["launch"] = true;
    body["foreground"] = !detach;
    if (invocation.has("no-workspace")) {
        if (invocation.has("workspace")) {
            return fail(bad_usage("--workspace and --no-workspace say opposite things", "give one of them"));
        }
        body["workspace"] = "";
    }
    if (invocation.has("read")) body["mode"] = "read";
    if (const auto found = invocation.flags.find("env"); found != invocation.flags.end()) {
        json::object stated;
        json::array handed_on;
        for (const std::string& text : found->second) {
            const std::size_t equals = text.find('=');
            if (text.empty() || equals == 0) {
                return fail(bad_usage(fmt::format("--env takes NAME or NAME=VALUE, not '{}'", one_line(text)),
                                      "--help shows the whole command, with examples"));
            }
            if (equals == std::string::npos) {
                handed_on.emplace_back(text);
            } else {
                stated[text.substr(0, equals)] = text.substr(equals + 1);
            }
        }
        if (!stated.empty()) body["env"] = std::move(stated);
        if (!handed_on.empty()) body["pass_env"] = std::move(handed_on);
    }
    if (const auto text = invocation.value("retries")) {
        int retries = 0;
        const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), retries);
        if (error != std::errc() || end != text->data() + text->size() || retries < 0 || retries > 1'000'000) {
            return fail(bad_usage(fmt::format("--retries takes a whole number, not '{}'", one_line(*text)),
                                  "0 tries once and no more"));
        }
        if (!detach && retries > 0) {
            return fail(bad_usage("what runs in a terminal is not started again by itself",
                                  "--retries goes with --detach; here, start it once more"));
        }
        body["retry"] = json::object{{"tries", retries + 1}};
    }
    return body;
}

// ---- the server ---------------------------------------------------------------------------------------------------

bool answers(const Context& context) {
    auto client = context.connect();
    if (!client) return client.error().exit != ExitCode::not_reachable;
    const auto found = client->fetch("/v1/status");
    return found || found.error().exit != ExitCode::not_reachable;
}

// Where nobody named a server and none is up, one is started. A run in the foreground talks with its server through
// the data directory, so that must be the one here.
Outcome<ApiClient> reach(const Context& context, bool foreground) {
    const std::string data_dir = find_data_dir(context.settings, context.environment);
    const bool named = !context.settings.url.empty() || !context.environment.url.empty();
    if (!named && !answers(context) && context.world.start_server) {
        context.remark(fmt::format("no server runs on {}; starting one ('interlock down' ends it)", data_dir));
        const auto started = context.world.start_server(data_dir);
        if (!started) return fail(started.error());
    }
    if (named && foreground) {
        const auto server = find_server(context.settings, context.environment);
        if (!server) return fail(server.error());
        const auto here = read_server_file(data_dir);
        if (!here || here->url != server->url) {
            return fail(bad_usage(
                fmt::format("{} is not the server of {}, and a run in this terminal needs its server on this machine",
                            server->url, data_dir),
                "--detach has that server start it; without --url and INTERLOCK_URL the one here is asked"));
        }
    }
    return context.connect();
}

// Makes the agent that stands for nobody in particular; any other must be there.
Outcome<ApiResponse> look_at_agent(Context& context, ApiClient& client, const std::string& agent, bool by_default) {
    const std::string target = "/v1/agents/" + percent_encoded(agent);
    auto known = client.get(target);
    if (known || !by_default || known.error().exit != ExitCode::not_found) return known;
    const json::object body{{"max_concurrent_runs", default_agent_runs}};
    return client.change(
        {.method = "PUT", .target = target, .body = json::serialize(body), .key = context.world.fresh_key()});
}

// ---- what happens then --------------------------------------------------------------------------------------------

// From the caller's environment: what every run may have, what was named, and what a known program's login needs.
std::vector<std::string> environment_for(const Context& context, const json::value& run) {
    std::vector<std::string> also;
    if (const auto* named = member_of(run, "process.pass_env").if_array()) {
        for (const json::value& name : *named) also.push_back(text_of(name));
    }
    const json::array* command = member_of(run, "command").if_array();
    const std::string program = command == nullptr || command->empty() ? "" : text_of(command->front());
    if (const auto* adapter = shim::find_adapter(text_of(member_of(run, "process.adapter")), program)) {
        also.insert(also.end(), adapter->login.begin(), adapter->login.end());
    }
    return shim::allowed_environment(context.environment.variables, also);
}

ExitCode hand_over(Context& context, ApiClient& client, const json::value& run) {
    const std::string id = text_of(member_of(run, "id"));
    Failure failure{.exit = ExitCode::refused,
                    .code = "not_available",
                    .detail = "this program cannot hold a run in a terminal",
                    .hint = "--detach has the server start it"};
    if (context.world.become_shim) {
        failure = context.world.become_shim({.data_dir = find_data_dir(context.settings, context.environment),
                                             .run = id,
                                             .secret = text_of(member_of(run, "shim_secret")),
                                             .quiet = context.settings.quiet,
                                             .environment = environment_for(context, run)});
    }
    // Nobody will start it any more, so it must not keep its place until its lease ends.
    const json::object body{{"fence", member_of(run, "fence")}, {"reason", "it could not be started"}};
    (void)client.change({.method = "POST",
                         .target = "/v1/runs/" + percent_encoded(id) + "/cancel",
                         .body = json::serialize(body),
                         .key = context.world.fresh_key()});
    return context.report(failure);
}

}  // namespace

ExitCode leave_behind(const Context& context, const ApiResponse& answer) {
    if (context.settings.json) {
        context.terminal.data(answer.response.body + "\n");
        return ExitCode::ok;
    }
    const std::string id = one_line(text_of(member_of(answer.document, "id")));
    context.terminal.data(id + "\n");
    if (text_of(member_of(answer.document, "status")) == "queued") {
        context.remark(fmt::format("it waits in line, for {}; number {} there",
                                   one_line(text_of(member_of(answer.document, "waits_for"))),
                                   text_of(member_of(answer.document, "place_in_line"))));
    }
    context.remark(fmt::format("'{}' follows it, '{}' ends it", shell_command({"interlock", "runs", "attach", id}),
                               shell_command({"interlock", "runs", "stop", id})));
    return ExitCode::ok;
}

namespace {

std::vector<Flag> run_flags() {
    return {{.name = "agent",
             .value = "NAME",
             .help = "Whose run it is (default, which is made if need be)",
             .completes = "agents"},
            {.name = "workspace",
             .value = "DIR",
             .help = "Where it works (the agent's place, or the current directory)",
             .takes = ValueType::path},
            {.name = "no-workspace", .help = "It needs no place", .takes = ValueType::on, .local = true},
            {.name = "isolate", .help = "In a git worktree of its own", .takes = ValueType::on},
            {.name = "read", .help = "Beside others that only read there", .takes = ValueType::on, .local = true},
            {.name = "resource",
             .value = "NAME",
             .help = "A named resource it needs; again for more",
             .takes = ValueType::repeat,
             .member = "resources"},
            {.name = "budget", .value = "AMOUNT", .help = "Dollars it may spend in all", .takes = ValueType::amount},
            {.name = "timeout",
             .value = "TIME",
             .help = "How long it may take: 90s, 30m, 2h",
             .takes = ValueType::length,
             .member = "timeout_s"},
            {.name = "grace",
             .value = "TIME",
             .help = "Between asking it to end and making it (10s)",
             .takes = ValueType::length,
             .member = "grace_s"},
            {.name = "on-conflict",
             .value = "WHAT",
             .help = "When the place is taken (queue)",
             .choices = {"refuse", "queue", "replace", "isolate"}},
            {.name = "queue-for",
             .value = "TIME",
             .help = "How long to wait in line (for ever)",
             .takes = ValueType::length,
             .member = "queue_s"},
            {.name = "priority", .value = "N", .help = "Higher goes first in line (0)", .takes = ValueType::number},
            {.name = "session", .value = "ID", .help = "The session it writes to", .completes = "sessions"},
            {.name = "name", .value = "NAME", .help = "What you call it"},
            tag_flag("tags"),
            {.name = "env",
             .value = "NAME[=VALUE]",
             .help = "A variable for it; without a value, the one of this name; again for more",
             .takes = ValueType::repeat,
             .local = true},
            {.name = "nice",
             .value = "N",
             .help = "How much it gives way to others, -20 to 19 (0)",
             .takes = ValueType::number},
            {.name = "limit",
             .value = "NAME=N",
             .help = "A limit as ulimit has them, such as nofile=1024; again for more",
             .takes = ValueType::counts,
             .member = "limits"},
            sandbox_flag("What it can reach; alone: files (default the agent's)"),
            {.name = "writable",
             .value = "DIR",
             .help = "Directory that a run at level files can write; repeatable",
             .takes = ValueType::paths},
            {.name = "readable",
             .value = "PATH",
             .help = "Path that a run at level files can read, such as one in the home; repeatable",
             .takes = ValueType::paths},
            allow_host_flag(),
            {.name = "adapter", .value = "NAME", .help = "Which known program it is (told by its name)"},
            {.name = "setup", .value = "TEXT", .help = "For a shell, before it, in a new worktree"},
            {.name = "teardown", .value = "TEXT", .help = "For a shell, before the worktree is removed"},
            {.name = "retries",
             .value = "N",
             .help = "How often to start it again when it fails; with --detach (0)",
             .takes = ValueType::number,
             .local = true},
            {.name = "lease",
             .value = "TIME",
             .help = "Lost when nothing is heard of it for so long (60s)",
             .takes = ValueType::length,
             .member = "lease_s"},
            {.name = "detach",
             .help = "The server starts it; its id is printed at once",
             .takes = ValueType::on,
             .local = true,
             .short_name = "d"}};
}

}  // namespace

std::vector<CliCommand> launch_commands() {
    return {
        {.words = {"run"},
         .summary = "Run a command under Interlock's eye: its place, its money and its end are looked after",
         .arguments = {{.name = "CMD",
                        .help = "What to start, with its arguments; without, the agent's own command",
                        .needed = Argument::Needed::many,
                        .member = "command"}},
         .flags = run_flags(),
         .examples = {{"interlock run -- claude -p 'fix the tests'", "here, in this terminal"},
                      {"interlock run --isolate --budget 1.00 --timeout 30m -- codex exec 'add a test'",
                       "in a worktree of its own, for at most a dollar and half an hour"},
                      {"interlock run --agent nightly --detach", "the agent's own command, behind the terminal"},
                      {"interlock run --resource deploy-prod --on-conflict refuse -- ./deploy.sh", ""}},
         .method = "POST",
         .path = "/v1/runs",
         .run = start,
         .notes = "It ends with the exit code of the command. Of the environment only what every program needs is\n"
                  "handed on, what known agents need for their login, and what --env names: from here, or with\n"
                  "--detach from the server. Without a server on this machine one is started.\n"
                  "In a run it starts a child of that run, within the run's workspace and budget. The server starts\n"
                  "the child; its output is shown here. The child ends with its parent."},
    };
}

}  // namespace interlock::cli
