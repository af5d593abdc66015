#include <algorithm>

#include "cli/command.h"
#include "cli/nouns.h"

namespace interlock::cli {

const std::vector<CliCommand>& commands() {
    static const std::vector<CliCommand> all = [] {
        std::vector<CliCommand> made;
        for (const auto& part :
             {agent_commands(),  budget_commands(), charge_commands(), hold_commands(),    session_commands(),
              launch_commands(), run_commands(),    log_commands(),    claim_commands(),   schedule_commands(),
              cap_commands(),    key_commands(),    user_commands(),   org_commands(),     upstream_commands(),
              price_commands(),  limit_commands(),  secret_commands(), gateway_commands(), sandbox_commands(),
              call_commands(),   node_commands(),   feed_commands(),   system_commands()}) {
            made.insert(made.end(), part.begin(), part.end());
        }
        return made;
    }();
    return all;
}

const std::vector<Noun>& nouns() {
    static const std::vector<Noun> all{{"agents", "Named workers with settings and caps"},
                                       {"budgets", "Spending limits"},
                                       {"charges", "Cost events of the ledger"},
                                       {"holds", "Reserved amounts"},
                                       {"sessions", "Conversations with numbered messages"},
                                       {"runs", "Executions of agents"},
                                       {"claims", "Workspaces and resources of live runs, and worktrees", "places"},
                                       {"schedules", "Times at which agents run"},
                                       {"caps", "Maximum numbers of live runs"},
                                       {"keys", "API keys and their scopes"},
                                       {"users", "Rights of other users of this machine, who need no API key"},
                                       {"orgs", "Separate tenants of the server"},
                                       {"upstreams", "Servers that receive model calls"},
                                       {"prices", "Prices of models"},
                                       {"limits", "Rate limits of model calls per minute"},
                                       {"secrets", "Provider keys, stored encrypted"},
                                       {"gateway", "Settings of the gateway for model calls"},
                                       {"sandbox", "Sandboxes of runs"},
                                       {"calls", "Recorded model calls"},
                                       {"nodes", "Servers that share the store"}};
    return all;
}

std::string CliCommand::name() const {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    return text;
}

const CliCommand* find_command(const std::vector<std::string>& words) {
    const auto found = std::ranges::find(commands(), words, &CliCommand::words);
    return found == commands().end() ? nullptr : &*found;
}

const std::vector<Flag>& global_flags() {
    static const std::vector<Flag> all{
        {.name = "json", .help = "Print the server's response as JSON", .takes = ValueType::on},
        {.name = "quiet", .help = "Print only names and ids", .takes = ValueType::on, .short_name = "q"},
        {.name = "url", .value = "URL", .help = "Server address (INTERLOCK_URL)"},
        {.name = "key", .value = "KEY", .help = "API key (INTERLOCK_KEY)"},
        {.name = "data-dir", .value = "DIR", .help = "Data directory of a server on this machine (INTERLOCK_DATA)"},
        {.name = "request-timeout",
         .value = "SECONDS",
         .help = "Limit for a request with its retries (default 30)",
         .takes = ValueType::decimal,
         .old_names = {"timeout"},
         .range = Range{0.1, 86400}},
        {.name = "no-color", .help = "Print without colours (NO_COLOR)", .takes = ValueType::on}};
    return all;
}

std::vector<Flag> all_flags(const CliCommand& command) {
    std::vector<Flag> flags = command.flags;
    if (command.answer == CliCommand::ResponseShape::list) {
        flags.push_back({.name = "limit",
                         .value = "N",
                         .help = "Maximum number of rows",
                         .takes = ValueType::number,
                         .local = true});
        flags.push_back({.name = "all", .help = "Print all rows, page by page", .takes = ValueType::on, .local = true});
    }
    if (command.reads() && !command.run) {
        flags.push_back(
            {.name = "watch", .value = "SECONDS", .help = "Refresh every SECONDS (default 2)", .local = true});
    }
    if (command.changes()) {
        flags.push_back({.name = "idempotency-key",
                         .value = "KEY",
                         .help = "Key of this change: repeats with the same key have no further effect",
                         .local = true});
    }
    return flags;
}

std::vector<Flag> attribution_flags() {
    return {{.name = "run", .value = "ID", .help = "Run that it belongs to", .completes = "runs"},
            {.name = "fence", .value = "N", .help = "Fence of the run", .takes = ValueType::number},
            {.name = "session", .value = "ID", .help = "Session that it belongs to", .completes = "sessions"},
            {.name = "workflow", .value = "NAME", .help = "Workflow to count it under"},
            {.name = "provider", .value = "NAME", .help = "Provider to count it under"},
            {.name = "model", .value = "NAME", .help = "Model to count it under"},
            tag_flag("tags")};
}

std::vector<Flag> usage_flags(const std::string& prefix) {
    std::vector<Flag> flags;
    for (const auto& [name, help] : {std::pair{"input-tokens", "Input tokens"},
                                     {"output-tokens", "Output tokens"},
                                     {"cache-read-tokens", "Tokens read from the cache"},
                                     {"cache-write-5m-tokens", "Tokens written to the five-minute cache"},
                                     {"cache-write-1h-tokens", "Tokens written to the one-hour cache"},
                                     {"reasoning-tokens", "Reasoning tokens"}}) {
        std::string member = prefix + name;
        std::ranges::replace(member, '-', '_');
        flags.push_back({.name = name, .value = "N", .help = help, .takes = ValueType::number, .member = member});
    }
    return flags;
}

Flag agent_flag(std::string help) {
    return {.name = "agent", .value = "NAME", .help = std::move(help), .completes = "agents"};
}

Flag fence_flag() {
    return {.name = "fence",
            .value = "N",
            .help = "Fence from the run's admission",
            .takes = ValueType::number,
            .required = true};
}

Flag tag_flag(std::string member) {
    return {.name = "tag",
            .value = "NAME=VALUE",
            .help = "Tag; repeatable",
            .takes = ValueType::pairs,
            .member = std::move(member)};
}

Flag sandbox_flag(std::string help) {
    return {.name = "sandbox",
            .value = "LEVEL",
            .help = std::move(help),
            .member = "sandbox_level",
            .choices = {"off", "guarded", "files", "sealed"}};
}

Flag allow_host_flag() {
    return {.name = "allow-host",
            .value = "NAME[:PORT]",
            .help = "Host that runs at level sealed can reach; repeatable",
            .takes = ValueType::repeat,
            .member = "allowed_hosts"};
}

std::vector<Flag> joined(std::vector<Flag> first, const std::vector<std::vector<Flag>>& others) {
    for (const auto& flags : others) first.insert(first.end(), flags.begin(), flags.end());
    return first;
}

}  // namespace interlock::cli
