#include <algorithm>

#include "cli/command.h"
#include "cli/nouns.h"

namespace interlock::cli {

const std::vector<CliCommand>& commands() {
    static const std::vector<CliCommand> all = [] {
        std::vector<CliCommand> made;
        for (const auto& part :
             {agent_commands(),  budget_commands(), charge_commands(), hold_commands(),    session_commands(),
              launch_commands(), run_commands(),    log_commands(),    place_commands(),   schedule_commands(),
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
    static const std::vector<Noun> all{{"agents", "Named workers, with their caps"},
                                       {"budgets", "Limits on what is spent, and how much is left"},
                                       {"charges", "What was spent, event by event"},
                                       {"holds", "Money set aside before it is spent"},
                                       {"sessions", "Conversations whose messages have one order"},
                                       {"runs", "Agents at work, one per place"},
                                       {"places", "Directories, resources and worktrees that runs hold"},
                                       {"schedules", "When agents run by themselves"},
                                       {"caps", "How many runs may be live at a time"},
                                       {"keys", "Who may ask the server, and for what"},
                                       {"users", "What other users of this machine may ask for without a key"},
                                       {"orgs", "Those who share the server and see nothing of each other"},
                                       {"upstreams", "Where calls to models go"},
                                       {"prices", "What models cost"},
                                       {"limits", "How much may go to models in a minute"},
                                       {"secrets", "Keys of providers, encrypted"},
                                       {"gateway", "How calls to models are decided on"},
                                       {"sandbox", "How runs are confined"},
                                       {"calls", "Calls to models, one by one"},
                                       {"nodes", "The servers on one store"}};
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
        {.name = "json", .help = "What the server said, as JSON", .takes = ValueType::on},
        {.name = "quiet", .help = "Only names and ids; no talk", .takes = ValueType::on, .short_name = "q"},
        {.name = "url", .value = "URL", .help = "The server (INTERLOCK_URL)"},
        {.name = "key", .value = "KEY", .help = "The API key (INTERLOCK_KEY)"},
        {.name = "data-dir", .value = "DIR", .help = "Where a server of this machine keeps its data (INTERLOCK_DATA)"},
        {.name = "timeout", .value = "SECONDS", .help = "How long to try (30)"},
        {.name = "no-color", .help = "No colours (NO_COLOR)", .takes = ValueType::on}};
    return all;
}

std::vector<Flag> all_flags(const CliCommand& command) {
    std::vector<Flag> flags = command.flags;
    if (command.answer == CliCommand::ResponseShape::list) {
        flags.push_back(
            {.name = "limit", .value = "N", .help = "At most so many", .takes = ValueType::number, .local = true});
        flags.push_back({.name = "all", .help = "All of them, page after page", .takes = ValueType::on, .local = true});
    }
    if (command.reads() && !command.run) {
        flags.push_back(
            {.name = "watch", .value = "SECONDS", .help = "Draw it again and again (every 2)", .local = true});
    }
    if (command.changes()) {
        flags.push_back({.name = "idempotency-key",
                         .value = "KEY",
                         .help = "Makes a repeat harmless: the same key has one effect",
                         .local = true});
    }
    return flags;
}

std::vector<Flag> attribution_flags() {
    return {{.name = "run", .value = "ID", .help = "The run it belongs to", .completes = "runs"},
            {.name = "fence", .value = "N", .help = "The run's fence", .takes = ValueType::number},
            {.name = "session", .value = "ID", .help = "The session it belongs to", .completes = "sessions"},
            {.name = "workflow", .value = "NAME", .help = "Counted under this workflow"},
            {.name = "provider", .value = "NAME", .help = "Counted under this provider"},
            {.name = "model", .value = "NAME", .help = "Counted under this model"},
            tag_flag("tags")};
}

std::vector<Flag> usage_flags(const std::string& prefix) {
    std::vector<Flag> flags;
    for (const auto& [name, help] : {std::pair{"input-tokens", "Tokens that went in"},
                                     {"output-tokens", "Tokens that came out"},
                                     {"cache-read-tokens", "Tokens read from the cache"},
                                     {"cache-write-5m-tokens", "Tokens cached for five minutes"},
                                     {"cache-write-1h-tokens", "Tokens cached for an hour"},
                                     {"reasoning-tokens", "Tokens spent on reasoning"}}) {
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
            .help = "The fence the run was given",
            .takes = ValueType::number,
            .required = true};
}

Flag tag_flag(std::string member) {
    return {.name = "tag",
            .value = "NAME=VALUE",
            .help = "A tag; again for more",
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
            .help = "Host that runs at level sealed can connect to; repeatable",
            .takes = ValueType::repeat,
            .member = "allowed_hosts"};
}

std::vector<Flag> joined(std::vector<Flag> first, const std::vector<std::vector<Flag>>& others) {
    for (const auto& flags : others) first.insert(first.end(), flags.begin(), flags.end());
    return first;
}

}  // namespace interlock::cli
