// `interlock run`: runs a command with claims, a budget and a timeout, in this terminal or detached.
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
constexpr int default_agent_runs = 100;  // High, because unrelated commands share the default agent.

Outcome<json::object> asked_for(const Context& context, const CliCommand& self, const Invocation& invocation);
Outcome<ApiClient> reach(const Context& context, bool foreground);
Outcome<ApiResponse> look_at_agent(Context& context, ApiClient& client, const std::string& agent, bool by_default);
ExitCode hand_over(Context& context, ApiClient& client, const json::value& run);
ExitCode start(Context& context, const Invocation& invocation) {
    // 1. Build the request.
    const CliCommand& self = *find_command({"run"});
    auto body = asked_for(context, self, invocation);
    if (!body) return context.report(body.error());
    const bool detach = invocation.has("detach");
    // With --key the command may address a server that does not know this run.
    if (!context.environment.run.empty() && context.settings.key.empty()) {
        return start_child_run(context, invocation, std::move(*body));
    }

    // 2. Find the agent. If it has no workspace, the run claims the current directory.
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
                bad_usage("the current directory no longer exists", "pass --workspace DIR or --no-workspace"));
        }
    }

    // 3. Ask for admission.
    const auto admitted = client->change(
        {.method = "POST", .target = "/v1/runs", .body = json::serialize(*body), .key = key_of(context, invocation)});
    if (!admitted) return context.report(admitted.error());
    return detach ? leave_behind(context, *admitted) : hand_over(context, *client, admitted->document);
}

// --max-attempts, or one more than the former --retries.
Outcome<std::optional<int>> max_attempts(const Invocation& invocation) {
    const bool has_attempts = invocation.has("max-attempts");
    const int attempts = static_cast<int>(invocation.number("max-attempts", 1));
    if (!invocation.has("retries")) return has_attempts ? std::optional(attempts) : std::nullopt;
    const int of_retries = static_cast<int>(invocation.number("retries", 0)) + 1;
    if (has_attempts && attempts != of_retries) {
        return fail(bad_usage(fmt::format("--max-attempts {} and --retries {} differ; N retries are N + 1 attempts",
                                          attempts, of_retries - 1),
                              "pass only --max-attempts"));
    }
    return std::optional(of_retries);
}

Outcome<json::object> asked_for(const Context& context, const CliCommand& self, const Invocation& invocation) {
    const auto built = build_request(self, invocation, context.world.now(), context.output.in);
    if (!built) return fail(built.error());
    json::object body = json::parse(built->body).as_object();
    const bool detach = invocation.has("detach");
    if (!body.contains("agent")) body["agent"] = default_agent;
    body["launch"] = true;
    body["foreground"] = !detach;
    if (invocation.has("no-workspace")) {
        if (invocation.has("workspace")) {
            return fail(bad_usage("--workspace and --no-workspace exclude each other", "pass one of them"));
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
                                      "interlock run --help"));
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
    const auto attempts = max_attempts(invocation);
    if (!attempts) return fail(attempts.error());
    if (*attempts && !detach && **attempts > 1) {
        return fail(bad_usage("a run in a terminal has one attempt", "add --detach to use --max-attempts"));
    }
    if (*attempts) body["retry"] = json::object{{"max_attempts", **attempts}};
    return body;
}

// ---- the server ---------------------------------------------------------------------------------------------------

bool answers(const Context& context) {
    auto client = context.connect();
    if (!client) return client.error().exit != ExitCode::not_reachable;
    const auto found = client->fetch("/v1/status");
    return found || found.error().exit != ExitCode::not_reachable;
}

// Starts a server if no server was named and none runs on this machine. A foreground run reaches its server through
// the data directory, so it cannot use a server elsewhere.
Outcome<ApiClient> reach(const Context& context, bool foreground) {
    const std::string data_dir = find_data_dir(context.settings, context.environment);
    const bool named = !context.settings.url.empty() || !context.environment.url.empty();
    if (!named && !answers(context) && context.world.start_server) {
        context.remark(fmt::format("no server runs on {}; starting one ('interlock down' stops it)", data_dir));
        const auto started = context.world.start_server(data_dir, context.output);
        if (!started) return fail(started.error());
    }
    if (named && foreground) {
        const auto server = find_server(context.settings, context.environment);
        if (!server) return fail(server.error());
        const auto here = read_server_file(data_dir);
        if (!here || here->url != server->url) {
            return fail(bad_usage(fmt::format("a run in this terminal needs the server of {}, and {} is another server",
                                              data_dir, server->url),
                                  "add --detach, or omit --url and INTERLOCK_URL"));
        }
    }
    return context.connect();
}

// Creates the default agent if it is missing. A named agent must exist.
Outcome<ApiResponse> look_at_agent(Context& context, ApiClient& client, const std::string& agent, bool by_default) {
    const std::string target = "/v1/agents/" + percent_encoded(agent);
    auto known = client.get(target);
    if (known || !by_default || known.error().exit != ExitCode::not_found) return known;
    const json::object body{{"max_concurrent_runs", default_agent_runs}};
    return client.change(
        {.method = "PUT", .target = target, .body = json::serialize(body), .key = context.world.fresh_key()});
}

// ---- starting --------------------------------------------------------------------------------------------

// The caller's variables that every run gets, those that were named, and those that a known program needs to log in.
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
                    .detail = "this program cannot run a command in a terminal",
                    .hint = "add --detach, so that the server starts it"};
    if (context.world.become_shim) {
        failure = context.world.become_shim({.data_dir = find_data_dir(context.settings, context.environment),
                                             .run = id,
                                             .secret = text_of(member_of(run, "shim_secret")),
                                             .quiet = context.settings.quiet,
                                             .environment = environment_for(context, run)});
    }
    // Nothing will start this run, so free its claims now instead of when its lease ends.
    const json::object body{{"fence", member_of(run, "fence")}, {"reason", "the command could not be started"}};
    (void)client.change({.method = "POST",
                         .target = "/v1/runs/" + percent_encoded(id) + "/cancel",
                         .body = json::serialize(body),
                         .key = context.world.fresh_key()});
    return context.report(failure);
}

}  // namespace

ExitCode leave_behind(const Context& context, const ApiResponse& answer) {
    if (context.settings.json) {
        context.output.data(answer.response.body + "\n");
        return ExitCode::ok;
    }
    const std::string id = one_line(text_of(member_of(answer.document, "id")));
    context.output.data(id + "\n");
    if (text_of(member_of(answer.document, "status")) == "queued") {
        context.remark(fmt::format("queued at position {}, waits for {}",
                                   text_of(member_of(answer.document, "queue_position")),
                                   one_line(text_of(member_of(answer.document, "waits_for")))));
    }
    context.remark("follow it: " + shell_command({"interlock", "runs", "attach", id}));
    context.remark("cancel it: " + shell_command({"interlock", "runs", "cancel", id}));
    return ExitCode::ok;
}

namespace {

std::vector<Flag> run_flags() {
    return {{.name = "agent",
             .value = "NAME",
             .help = "Agent that owns the run (default \"default\", created if missing)",
             .completes = "agents"},
            {.name = "workspace",
             .value = "DIR",
             .help = "Directory to claim and run in (default the agent's, else the current directory)",
             .takes = ValueType::path},
            {.name = "no-workspace", .help = "Claim no directory", .takes = ValueType::on, .local = true},
            {.name = "isolate", .help = "Run in a separate git worktree", .takes = ValueType::on},
            {.name = "read",
             .help = "Share the workspace with other runs that only read",
             .takes = ValueType::on,
             .local = true},
            {.name = "resource",
             .value = "NAME",
             .help = "Named resource to claim; repeatable",
             .takes = ValueType::repeat,
             .member = "resources"},
            {.name = "budget", .value = "AMOUNT", .help = "Maximum total cost in dollars", .takes = ValueType::amount},
            {.name = "timeout",
             .value = "TIME",
             .help = "Stop the run after TIME, such as 90s, 30m or 2h (default none)",
             .takes = ValueType::length,
             .member = "timeout_s",
             .old_names = {"run-timeout"}},
            {.name = "grace",
             .value = "TIME",
             .help = "Delay between SIGTERM and SIGKILL (default 10s)",
             .takes = ValueType::length,
             .member = "grace_s"},
            {.name = "on-conflict",
             .value = "ACTION",
             .help = "If the workspace is in use (default queue)",
             .choices = {"refuse", "queue", "replace", "isolate"}},
            {.name = "queue-timeout",
             .value = "TIME",
             .help = "Longest wait in the queue (default none)",
             .takes = ValueType::length,
             .member = "queue_timeout_s",
             .old_names = {"queue-for"}},
            {.name = "priority",
             .value = "N",
             .help = "Higher priorities leave the queue first (default 0)",
             .takes = ValueType::number},
            {.name = "session", .value = "ID", .help = "Session of the run", .completes = "sessions"},
            {.name = "name", .value = "NAME", .help = "Name of the run"},
            tag_flag("tags"),
            {.name = "env",
             .value = "NAME[=VALUE]",
             .help = "Environment variable; without VALUE it is passed on; repeatable",
             .takes = ValueType::repeat,
             .local = true},
            {.name = "nice", .value = "N", .help = "CPU niceness, -20 to 19 (default 0)", .takes = ValueType::number},
            {.name = "limit",
             .value = "NAME=N",
             .help = "Resource limit as in ulimit, such as nofile=1024; repeatable",
             .takes = ValueType::counts,
             .member = "limits"},
            sandbox_flag("Sandbox level; files if LEVEL is omitted (default the agent's)"),
            {.name = "writable",
             .value = "DIR",
             .help = "Directory that a run at level files can write; repeatable",
             .takes = ValueType::paths},
            {.name = "readable",
             .value = "PATH",
             .help = "Path that a run at level files can read; repeatable",
             .takes = ValueType::paths},
            allow_host_flag(),
            {.name = "adapter", .value = "NAME", .help = "Agent program (default detected from the command)"},
            {.name = "setup", .value = "TEXT", .help = "Shell command to run in a new worktree"},
            {.name = "teardown", .value = "TEXT", .help = "Shell command to run before the worktree is removed"},
            {.name = "max-attempts",
             .value = "N",
             .help = "With --detach: maximum attempts if the run fails (default 1)",
             .takes = ValueType::number,
             .local = true,
             .old_names = {"tries"},
             .range = Range{1, 1'000'000}},
            {.name = "retries",
             .value = "N",
             .takes = ValueType::number,
             .local = true,
             .range = Range{0, 1'000'000},
             .hidden = true},
            {.name = "lease",
             .value = "TIME",
             .help = "Silence after which the run is lost (default 60s)",
             .takes = ValueType::length,
             .member = "lease_s"},
            {.name = "detach",
             .help = "Let the server start it, print its id and return",
             .takes = ValueType::on,
             .local = true,
             .short_name = "d"}};
}

}  // namespace

std::vector<CliCommand> launch_commands() {
    return {
        {.words = {"run"},
         .summary = "Run a command with a workspace claim, a budget and a timeout",
         .arguments = {{.name = "CMD",
                        .help = "Command line (default the agent's command)",
                        .needed = Argument::Needed::many,
                        .member = "command"}},
         .flags = run_flags(),
         .examples = {{"interlock run -- claude -p 'fix the tests'", "in this terminal"},
                      {"interlock run --isolate --budget 1.00 --timeout 30m -- codex exec 'add a test'",
                       "in a separate worktree, for at most one dollar and 30 minutes"},
                      {"interlock run --agent nightly --detach", "the agent's command, started by the server"},
                      {"interlock run --resource deploy-prod --on-conflict refuse -- ./deploy.sh", ""}},
         .method = "POST",
         .path = "/v1/runs",
         .run = start,
         .notes = "The exit code is that of the command. The command gets basic environment variables, those that a "
                  "known agent program needs to log in, and those that --env names. If no server runs on this machine, "
                  "one is started.\nInside a run, it starts a child run with the parent's workspace and budget. The "
                  "server starts the child and its output is shown here. The child ends when its parent ends."},
    };
}

}  // namespace interlock::cli
