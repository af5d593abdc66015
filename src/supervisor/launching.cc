#include "supervisor/launching.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/id.h"
#include "shim/adapters.h"
#include "shim/environment.h"

namespace interlock::supervisor {
namespace {

// In a worktree the setup goes first, under the same shim: its output is in the log, and it ends with the run.
std::vector<std::string> words_of(const core::ProcessSpec& process, const LaunchContext& around) {
    std::vector<std::string> command = process.command;
    const shim::Adapter* adapter = adapter_of(process);
    if (around.gateway && adapter != nullptr) {
        const auto additions = shim::gateway_additions(*adapter, around.url, around.key, around.home);
        command.insert(command.begin() + 1, additions.arguments.begin(), additions.arguments.end());
    }
    if (process.setup.empty() || !around.in_worktree) return command;
    std::vector<std::string> words{"/bin/sh", "-c", "set -e\n" + process.setup + "\nexec \"$@\"", "sh"};
    words.insert(words.end(), command.begin(), command.end());
    return words;
}

// Whether the variable is what a program proves itself with, and not where it finds its settings.
bool is_credential(std::string_view name) {
    return !name.ends_with("_DIR") && !name.ends_with("_HOME") && !name.ends_with("_CONFIG");
}

// A teardown is sealed as its run was, and has no server.
bool has_entrance(const LaunchContext& around) {
    return around.sandbox.level == core::SandboxLevel::sealed && !around.url.empty();
}

std::string_view port_of(std::string_view url) { return url.substr(url.rfind(':') + 1); }

// The server as a sealed run sees it. Outside it may have another address, and TLS.
LaunchContext seen_inside(LaunchContext around) {
    if (!has_entrance(around)) return around;
    around.url = fmt::format("http://127.0.0.1:{}", port_of(around.url));
    around.key = key_of_sealed_runs;
    return around;
}

// What programs look at to find the way out, which is the server too.
constexpr std::string_view proxy_variables[] = {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"};
constexpr std::string_view no_proxy_variables[] = {"NO_PROXY", "no_proxy"};

std::vector<std::string> environment_of(const core::Run& run, const core::ProcessSpec& process,
                                        const LaunchContext& around) {
    std::vector<std::string> env;
    const auto set = [&](std::string_view name, std::string_view value) {
        const std::string prefix = fmt::format("{}=", name);
        std::erase_if(env, [&](const std::string& each) { return each.starts_with(prefix); });
        env.push_back(prefix + std::string(value));
    };
    const shim::Adapter* adapter = adapter_of(process);
    if (!process.foreground) {  // A shim in somebody's terminal has that terminal's environment.
        std::vector<std::string> also = process.pass_env;
        if (adapter != nullptr) also.insert(also.end(), adapter->login.begin(), adapter->login.end());
        if (around.gateway) std::erase_if(also, is_credential);
        env = shim::allowed_environment(around.environment, also);
    } else if (around.gateway && adapter != nullptr) {
        // A terminal's own keys would lead around the budget.
        for (const std::string_view name : adapter->login) {
            if (is_credential(name)) set(name, "");
        }
    }
    if (around.gateway && adapter != nullptr) {
        for (const std::string& variable : shim::gateway_additions(*adapter, around.url, around.key, around.home).env) {
            const std::size_t equals = variable.find('=');
            set(variable.substr(0, equals), variable.substr(equals + 1));
        }
        if (!adapter->output_tokens.empty() && around.output_tokens > 0) {
            set(adapter->output_tokens, std::to_string(around.output_tokens));
        }
    }
    if (has_entrance(around)) {
        for (const std::string_view name : proxy_variables) set(name, around.url);
        for (const std::string_view name : no_proxy_variables) set(name, "127.0.0.1,localhost");
        set("NODE_USE_ENV_PROXY", "1");
    }
    for (const auto& [name, value] : process.env) set(name, value);
    set("TMPDIR", around.home + "/tmp");
    set("INTERLOCK_URL", around.url);
    set("INTERLOCK_KEY", around.key);
    set("INTERLOCK_RUN", to_text("run", run.id.value));
    set("INTERLOCK_FENCE", std::to_string(run.fence.value));
    set("INTERLOCK_AGENT", run.who.agent);
    set("INTERLOCK_ATTEMPT", std::to_string(run.attempt));
    set("INTERLOCK_WORKSPACE", around.directory);
    if (!run.who.session.value.empty()) set("INTERLOCK_SESSION", to_text("ses", run.who.session.value));
    if (around.port_base != 0) set("INTERLOCK_PORT_BASE", std::to_string(around.port_base));
    return env;
}

}  // namespace

const shim::Adapter* adapter_of(const core::ProcessSpec& process) {
    return shim::find_adapter(process.adapter, process.command.front());
}

shim::ShimMessage launch_message(const core::Run& run, const core::ProcessSpec& process, const LaunchContext& outside) {
    const LaunchContext around = seen_inside(outside);
    shim::ShimMessage message{"launch"};
    const auto say = [&](std::string name, std::string value) {
        message.push_back(std::move(name));
        message.push_back(std::move(value));
    };
    for (std::string& word : words_of(process, around)) say("arg", std::move(word));
    for (std::string& variable : environment_of(run, process, around)) say("env", std::move(variable));
    say("dir", around.directory);
    if (around.directory_is_held) say("dir_is_held", "1");
    say("home", around.home);
    say("timeout_ms", std::to_string(process.timeout_s * 1000));
    say("grace_ms", std::to_string(std::int64_t{process.grace_s} * 1000));
    say("nice", std::to_string(process.nice));
    for (const auto& [name, value] : process.limits) say("limit", fmt::format("{}={}", name, value));
    // A shim from before the levels knows this one only.
    if (around.sandbox.level >= core::SandboxLevel::files) say("sandbox", "1");
    say("level", std::string(name_of(around.sandbox.level)));
    if (has_entrance(around)) say("port", std::string(port_of(around.url)));
    if (!around.sandbox.note.empty()) say("note", around.sandbox.note);
    for (const std::string& path : around.hidden) {
        if (!path.empty()) say("hide", path);
    }
    for (const std::string& path : process.writable) say("write", path);
    for (const std::string& path : around.writable) say("write", path);
    for (const std::string& path : process.readable) say("read", path);
    for (const std::string& path : around.readable) say("read", path);
    say("log_max", std::to_string(around.log_bytes_max));
    if (!around.cgroup.empty()) say("cgroup", around.cgroup);
    say("beat_ms", std::to_string(around.beat_ms));
    return message;
}

}  // namespace interlock::supervisor
