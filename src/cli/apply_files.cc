#include "cli/apply_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include "base/text.h"
#include "cli/apply_source.h"
#include "cli/files.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::size_t file_bytes_max = 1 << 20;

using Names = ApplySource::Names;

// ---- an agent -----------------------------------------------------------------------------------------------------

json::array command_of(ApplySource& source, const Yaml& node) {
    if (node.kind != Yaml::Kind::text) return source.texts(node, "command");
    const auto words = shell_words(node.text);
    if (!words) {
        source.mistake(node.at, "command has an unclosed quote", "write it as a list: [claude, -p, \"fix the tests\"]");
        return {};
    }
    json::array all;
    for (const std::string& word : *words) all.emplace_back(word);
    return all;
}

json::object retry_of(ApplySource& source, const Yaml& node) {
    json::object retry = defaults_of(Kind::agent).at("retry").get_object();
    if (!source.check_map(node, "retry", {"max_attempts", "backoff", "backoff_max", "tries"})) return retry;
    if (const Yaml* attempts = source.member(node, "max_attempts", "tries")) {
        retry["max_attempts"] = source.number(*attempts, "max_attempts", 1, 100);
    }
    if (const Yaml* first = source.member(node, "backoff")) retry["backoff_s"] = source.seconds(*first, "backoff");
    if (const Yaml* most = source.member(node, "backoff_max")) {
        retry["backoff_max_s"] = source.seconds(*most, "backoff_max");
    }
    return retry;
}

json::array paths_of(ApplySource& source, const Yaml& node, std::string_view what) {
    json::array paths;
    if (node.kind != Yaml::Kind::list) source.mistake(node.at, fmt::format("{} must be a list of directories", what));
    for (const Yaml& item : node.items) paths.emplace_back(source.path(item, fmt::format("each of {}", what)));
    return paths;
}

// Reads a level, or a map {level: L, paths: {read: […], write: […]}} for level files. true is an old name of level
// files, and writable of paths.write.
void read_sandbox(ApplySource& source, const Yaml& node, json::object& body) {
    const auto set = [&](const std::string& level) {
        body["sandbox_level"] = level;
        body["sandbox"] = level == "files";
    };
    if (node.kind != Yaml::Kind::map) {
        if (node.kind == Yaml::Kind::text && (node.text == "true" || node.text == "false")) {
            return set(node.text == "true" ? "files" : "server_default");
        }
        return set(source.choice(node, "sandbox", {"off", "guarded", "files", "sealed", "true", "false"}));
    }
    set("files");
    if (!source.check_map(node, "sandbox", {"level", "writable", "paths"})) return;
    if (const Yaml* level = source.member(node, "level")) {
        set(source.choice(*level, "level", {"off", "guarded", "files", "sealed"}));
    }
    if (const Yaml* writable = source.member(node, "writable")) {
        body["writable"] = paths_of(source, *writable, "writable");
    }
    const Yaml* paths = source.member(node, "paths");
    if (paths == nullptr || !source.check_map(*paths, "paths", {"read", "write"})) return;
    if (const Yaml* read = source.member(*paths, "read")) body["readable"] = paths_of(source, *read, "read");
    if (const Yaml* write = source.member(*paths, "write")) body["writable"] = paths_of(source, *write, "write");
}

json::object env_of(ApplySource& source, const Yaml& node) {
    json::object env = source.pairs(node, "env");
    for (const Yaml& item : node.items) {
        if (!item.name.starts_with("INTERLOCK_")) continue;
        source.mistake(item.name_at, fmt::format("env sets {}, which is reserved", one_line(item.name)));
    }
    return env;
}

json::object limits_of(ApplySource& source, const Yaml& node) {
    static const Names known{"as",     "core",   "cpu",   "cpu_percent", "data",  "fsize",
                             "memory", "nofile", "nproc", "pids",        "stack", "tmp"};
    if (!source.check_map(node, "limits", known)) return {};
    return source.counts(node, "limits", INT64_MAX);
}

json::object tags_of(ApplySource& source, const Yaml& node) {
    json::object tags = source.pairs(node, "tags");
    for (const Yaml& item : node.items) {
        source.check_name(item.name_at, item.name, "a tag");
        if (item.name.starts_with(mark_prefix)) {
            source.mistake(item.name_at, fmt::format("the tag '{}' is reserved", one_line(item.name)),
                           "apply marks what it created with tags that begin with 'interlock.'");
        }
    }
    return tags;
}

// The agent itself, without its budgets and schedules.
json::object agent_body(ApplySource& source, const Yaml& document) {
    json::object body = defaults_of(Kind::agent);
    using Read = std::function<void(const Yaml&)>;
    const std::pair<std::string_view, Read> readers[] = {
        {"command", [&](const Yaml& node) { body["command"] = command_of(source, node); }},
        {"workspace", [&](const Yaml& node) { body["workspace"] = source.path(node, "workspace"); }},
        {"roots", [&](const Yaml& node) { body["roots"] = paths_of(source, node, "roots"); }},
        {"child_agents", [&](const Yaml& node) { body["child_agents"] = source.texts(node, "child_agents"); }},
        {"max_concurrent_runs",
         [&](const Yaml& node) {
             body["max_concurrent_runs"] = source.number(node, "max_concurrent_runs", 0, 100'000);
         }},
        {"provider", [&](const Yaml& node) { body["provider"] = source.text(node, "provider"); }},
        {"capture",
         [&](const Yaml& node) { body["capture"] = source.choice(node, "capture", {"off", "usage", "full"}); }},
        {"env", [&](const Yaml& node) { body["env"] = env_of(source, node); }},
        {"pass_env", [&](const Yaml& node) { body["pass_env"] = source.texts(node, "pass_env"); }},
        {"timeout", [&](const Yaml& node) { body["timeout_s"] = source.seconds(node, "timeout"); }},
        {"grace", [&](const Yaml& node) { body["grace_s"] = source.seconds(node, "grace"); }},
        {"nice", [&](const Yaml& node) { body["nice"] = source.number(node, "nice", -20, 19); }},
        {"limits", [&](const Yaml& node) { body["limits"] = limits_of(source, node); }},
        {"sandbox", [&](const Yaml& node) { read_sandbox(source, node, body); }},
        {"network",
         [&](const Yaml& node) {
             if (!source.check_map(node, "network", {"allow"})) return;
             if (const Yaml* allow = source.member(node, "allow"))
                 body["allowed_hosts"] = source.texts(*allow, "allow");
         }},
        {"adapter", [&](const Yaml& node) { body["adapter"] = source.text(node, "adapter"); }},
        {"setup", [&](const Yaml& node) { body["setup"] = source.text(node, "setup"); }},
        {"teardown", [&](const Yaml& node) { body["teardown"] = source.text(node, "teardown"); }},
        {"isolate", [&](const Yaml& node) { body["isolate"] = source.boolean(node, "isolate"); }},
        {"mode", [&](const Yaml& node) { body["mode"] = source.choice(node, "mode", {"write", "read"}); }},
        {"on_conflict",
         [&](const Yaml& node) {
             body["on_conflict"] = source.choice(node, "on_conflict", {"queue", "refuse", "replace", "isolate"});
         }},
        {"resources", [&](const Yaml& node) { body["resources"] = source.texts(node, "resources"); }},
        {"tags", [&](const Yaml& node) { body["tags"] = tags_of(source, node); }},
        {"retry", [&](const Yaml& node) { body["retry"] = retry_of(source, node); }},
    };
    for (const auto& [name, read] : readers) {
        if (const Yaml* node = source.member(document, name)) read(*node);
    }
    return body;
}

const Names& agent_members() {
    static const Names names{"name",     "command",      "workspace", "max_concurrent_runs",
                             "provider", "env",          "pass_env",  "timeout",
                             "grace",    "nice",         "limits",    "sandbox",
                             "adapter",  "setup",        "teardown",  "isolate",
                             "mode",     "on_conflict",  "resources", "tags",
                             "retry",    "budget",       "schedule",  "capture",
                             "roots",    "child_agents", "network"};
    return names;
}

// ---- its budgets and schedules ------------------------------------------------------------------------------------

json::object budget_body(ApplySource& source, const Yaml& node, const std::string& agent) {
    json::object body = defaults_of(Kind::budget);
    body["scope"] = {{"agent", agent}};
    if (!source.check_map(node, "budget",
                          {"name", "limit", "metric", "window", "timezone", "hard", "warn", "on_exhausted"})) {
        return body;
    }
    if (const Yaml* metric = source.member(node, "metric")) {
        body["metric"] = source.choice(*metric, "metric", {"usd", "tokens", "calls", "runs"});
    }
    if (const Yaml* limit = source.member(node, "limit")) {
        body["limit"] = body["metric"] == "usd" ? source.dollars(*limit, "limit")
                                                : std::to_string(source.number(*limit, "limit", 0, INT64_MAX));
    } else {
        source.mistake(node.at, "a budget needs a limit", "limit: 5.00");
    }
    if (const Yaml* window = source.member(node, "window")) {
        body["window"] = source.choice(*window, "window", {"month", "day", "week", "total"});
    }
    if (const Yaml* zone = source.member(node, "timezone")) body["timezone"] = source.zone(*zone);
    if (const Yaml* hard = source.member(node, "hard")) body["hard"] = source.boolean(*hard, "hard");
    if (const Yaml* warn = source.member(node, "warn")) {
        json::array percents;
        if (warn->kind != Yaml::Kind::list)
            source.mistake(warn->at, "warn must be a list of percentages", "warn: [50, 80]");
        for (const Yaml& item : warn->items) percents.emplace_back(source.number(item, "each of warn", 1, 100));
        body["warn"] = std::move(percents);
    }
    if (const Yaml* then = source.member(node, "on_exhausted")) {
        body["on_exhausted"] = source.choice(*then, "on_exhausted", {"refuse", "pause_agent", "stop_runs"});
    }
    return body;
}

json::object schedule_body(ApplySource& source, const Yaml& node, const std::string& agent,
                           const json::object& agent_body) {
    json::object body = defaults_of(Kind::schedule);
    body["agent"] = agent;
    for (const char* const member : {"workspace", "resources", "mode", "isolate"}) body[member] = agent_body.at(member);
    const Names members{"name",   "every",      "cron",    "timezone", "jitter", "overlap",
                        "missed", "missed_max", "enabled", "priority", "hold",   "lease"};
    if (!source.check_map(node, "schedule", members)) return body;
    const Yaml* every = source.member(node, "every");
    const Yaml* cron = source.member(node, "cron");
    if ((every == nullptr) == (cron == nullptr)) {
        source.mistake(node.at, "a schedule needs either every or cron", "every: 30m, or cron: \"0 9 * * mon-fri\"");
    }
    if (every != nullptr) body["every_s"] = source.seconds(*every, "every", 1);
    if (cron != nullptr) body["cron"] = source.cron(*cron);
    if (const Yaml* zone = source.member(node, "timezone")) body["timezone"] = source.zone(*zone);
    if (const Yaml* jitter = source.member(node, "jitter")) body["jitter_s"] = source.seconds(*jitter, "jitter");
    if (const Yaml* overlap = source.member(node, "overlap")) {
        body["overlap"] = source.choice(*overlap, "overlap", {"skip", "queue", "replace", "allow"});
    }
    if (const Yaml* missed = source.member(node, "missed")) {
        body["missed"] = source.choice(*missed, "missed", {"one", "skip", "all"});
    }
    if (const Yaml* most = source.member(node, "missed_max")) {
        body["missed_max"] = source.number(*most, "missed_max", 1, 1000);
    }
    if (const Yaml* enabled = source.member(node, "enabled")) body["enabled"] = source.boolean(*enabled, "enabled");
    if (const Yaml* priority = source.member(node, "priority")) {
        body["priority"] = source.number(*priority, "priority", -1'000'000, 1'000'000);
    }
    if (const Yaml* hold = source.member(node, "hold")) body["hold"] = source.dollars(*hold, "hold");
    if (const Yaml* lease = source.member(node, "lease")) body["lease_s"] = source.seconds(*lease, "lease", 1);
    return body;
}

// Calls `add` with each item and its name. `node` is one map, or a list of maps with names.
template <class Add>
void for_each_of(ApplySource& source, const Yaml& node, const std::string& what, const std::string& agent, Add add) {
    std::vector<const Yaml*> all;
    if (node.kind == Yaml::Kind::list) {
        for (const Yaml& item : node.items) all.push_back(&item);
    } else {
        all.push_back(&node);
    }
    for (const Yaml* one : all) {
        const Yaml* name = source.member(*one, "name");
        if (name == nullptr && all.size() > 1) {
            source.mistake(one->at, fmt::format("an agent with several needs a name for each {}", what),
                           fmt::format("name: {}-{}", agent, what));
        }
        add(*one, name != nullptr ? source.name(*name, "name") : agent);
    }
}

void read_agent(ApplySource& source, const Yaml& document, const std::string& name_of_file,
                std::vector<Wanted>& wanted) {
    if (!source.check_map(document, "an agent", agent_members())) return;
    const Yaml* named = source.member(document, "name");
    const std::string name = named != nullptr ? source.name(*named, "name") : name_of_file;
    if (named == nullptr && name.empty()) {
        source.mistake(document.at, "a file with several agents needs a name for each", "name: coder");
    } else if (named == nullptr) {
        source.check_name(document.at, name, "the file's name, which names the agent,");
    }
    const auto add = [&](Kind kind, std::string own_name, json::object body, Spot at) {
        wanted.push_back({.kind = kind,
                          .name = std::move(own_name),
                          .body = std::move(body),
                          .agent = name,
                          .file = source.file(),
                          .at = at});
    };
    const json::object body = agent_body(source, document);
    add(Kind::agent, name, body, document.at);
    if (const Yaml* budget = source.member(document, "budget")) {
        for_each_of(source, *budget, "budget", name, [&](const Yaml& node, const std::string& own_name) {
            add(Kind::budget, own_name, budget_body(source, node, name), node.at);
        });
    }
    if (const Yaml* schedule = source.member(document, "schedule")) {
        for_each_of(source, *schedule, "schedule", name, [&](const Yaml& node, const std::string& own_name) {
            add(Kind::schedule, own_name, schedule_body(source, node, name, body), node.at);
        });
    }
}

// ---- interlock.yaml -----------------------------------------------------------------------------------------------

void read_caps(ApplySource& source, const Yaml& node, std::vector<Wanted>& wanted) {
    if (!source.check_map(node, "caps", {"org", "provider", "node"})) return;
    const auto add = [&](std::string name, const Yaml& most) {
        const std::int64_t max = source.number(most, fmt::format("the cap of {}", one_line(name)), 0, 100'000);
        wanted.push_back({.kind = Kind::cap,
                          .name = std::move(name),
                          .body = {{"max_live", max}},
                          .file = source.file(),
                          .at = most.at});
    };
    if (const Yaml* org = source.member(node, "org")) add("org", *org);
    for (const std::string kind : {"provider", "node"}) {
        const Yaml* of = source.member(node, kind);
        if (of == nullptr) continue;
        if (of->kind != Yaml::Kind::map)
            source.mistake(of->at, fmt::format("caps of a {} must be a map of names", kind));
        for (const Yaml& item : of->items) add(kind + "/" + item.name, item);
    }
}

void read_settings(ApplySource& source, const Yaml& document, ApplyFiles& files) {
    if (!source.check_map(document, "interlock.yaml", {"name", "caps"})) return;
    if (const Yaml* name = source.member(document, "name")) files.set = source.name(*name, "name");
    if (const Yaml* caps = source.member(document, "caps")) read_caps(source, *caps, files.wanted);
}

// ---- files --------------------------------------------------------------------------------------------------------

// The non-empty documents of a file.
std::vector<Yaml> documents_of(ApplySource& source, const std::string& path) {
    const auto file = open_regular_file(path, Links::refuse);
    if (!file) {
        source.mistake({}, "this file cannot be read: " + file.error(),
                       "use regular files, not links, in the directory itself");
        return {};
    }
    std::string text(file_bytes_max + 1, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), *file));
    const bool broken = std::ferror(*file) != 0;
    std::fclose(*file);
    if (broken) {
        source.mistake({}, "this file cannot be read");
        return {};
    }
    if (text.size() > file_bytes_max) {
        source.mistake({}, fmt::format("this file is larger than {}", size(file_bytes_max)));
        return {};
    }
    if (!is_utf8(text)) {
        source.mistake({}, "this file is not UTF-8");
        return {};
    }
    YamlFile parsed = parse_yaml(text);
    for (YamlMistake& found : parsed.mistakes) source.mistake(found.at, std::move(found.what));
    std::erase_if(parsed.documents, [](const Yaml& one) { return one.kind == Yaml::Kind::nothing; });
    return std::move(parsed.documents);
}

std::vector<fs::path> agent_files(const std::string& directory) {
    const fs::path agents = fs::path(directory) / "agents";
    std::vector<fs::path> found;
    std::error_code unreadable;
    for (const auto& entry :
         fs::directory_iterator(fs::is_directory(agents) ? agents : fs::path(directory), unreadable)) {
        const fs::path& path = entry.path();
        const bool hidden = path.filename().string().starts_with('.');
        if (hidden || (path.extension() != ".yaml" && path.extension() != ".yml")) continue;
        if (path.stem() != "interlock") found.push_back(path);
    }
    std::ranges::sort(found);
    return found;
}

void find_doubles(ApplyFiles& files) {
    std::map<std::pair<Kind, std::string>, const Wanted*> first;
    for (const Wanted& wanted : files.wanted) {
        const auto [found, is_new] = first.try_emplace({wanted.kind, wanted.name}, &wanted);
        if (is_new || wanted.name.empty()) continue;
        files.mistakes.push_back(
            {wanted.file, wanted.at,
             fmt::format("{} '{}' is defined twice", name_of(wanted.kind), one_line(wanted.name)),
             fmt::format("the first definition is in {}:{}", found->second->file, found->second->at.line)});
    }
}

// Tags mark what apply made, and a tag has a maximum length.
void check_marks(ApplyFiles& files) {
    for (const Wanted& wanted : files.wanted) {
        if (wanted.kind != Kind::budget && wanted.kind != Kind::schedule) continue;
        if (mark_of(wanted.kind, wanted.name).size() <= label_bytes_max) continue;
        files.mistakes.push_back({wanted.file, wanted.at,
                                  fmt::format("the name of this {} is too long", name_of(wanted.kind)),
                                  "use at most 100 bytes"});
    }
}

}  // namespace

ApplyFiles read_apply_files(const std::string& directory, const std::string& home) {
    ApplyFiles files;
    std::error_code unknown;
    fs::path absolute = fs::weakly_canonical(directory, unknown);
    if (unknown) absolute = fs::absolute(directory);
    files.set = absolute.string();
    const auto source_of = [&](const fs::path& path) {
        return ApplySource(path.string(), absolute.string(), home, files.mistakes);
    };

    for (const char* const name : {"interlock.yaml", "interlock.yml"}) {
        const fs::path path = fs::path(directory) / name;
        if (!fs::exists(fs::symlink_status(path))) continue;
        ApplySource source = source_of(path);
        for (const Yaml& document : documents_of(source, path.string())) read_settings(source, document, files);
    }
    if (files.set.size() > label_bytes_max) {
        files.mistakes.push_back({directory,
                                  {},
                                  "the path of the directory is too long for a tag",
                                  "set a name in interlock.yaml, such as name: shop"});
    }
    for (const fs::path& path : agent_files(directory)) {
        ApplySource source = source_of(path);
        const std::vector<Yaml> documents = documents_of(source, path.string());
        const std::string name_of_file = documents.size() == 1 ? path.stem().string() : "";
        for (const Yaml& document : documents) read_agent(source, document, name_of_file, files.wanted);
    }
    find_doubles(files);
    check_marks(files);
    return files;
}

const json::object& defaults_of(Kind kind) {
    static const json::value agent = json::parse(R"({
        "max_concurrent_runs": 1, "command": [], "tags": {}, "provider": "", "capture": "usage", "workspace": "",
        "roots": [], "child_agents": [], "mode": "write", "on_conflict": "queue", "isolate": false, "resources": [], "env": {},
        "pass_env": [], "timeout_s": 0, "grace_s": 10, "nice": 0, "limits": {}, "sandbox": false,
        "sandbox_level": "server_default", "writable": [], "readable": [], "allowed_hosts": [], "adapter": "", "setup": "",
        "teardown": "", "retry": {"max_attempts": 1, "backoff_s": 10, "backoff_max_s": 600}})");
    static const json::value budget = json::parse(R"({
        "scope": {}, "metric": "usd", "limit": "0.00", "window": "month", "timezone": "UTC", "hard": true, "warn": [],
        "on_exhausted": "refuse"})");
    // Without `enabled` in the file, a paused schedule stays paused.
    static const json::value schedule = json::parse(R"({
        "agent": "", "every_s": null, "cron": null, "timezone": "UTC", "jitter_s": 0, "overlap": "skip",
        "missed": "one", "missed_max": 10, "workspace": "", "resources": [], "mode": "write", "isolate": false,
        "priority": 0, "hold": "0.00", "lease_s": 60, "enabled": null})");
    static const json::object none;
    switch (kind) {
        case Kind::agent:
            return agent.get_object();
        case Kind::budget:
            return budget.get_object();
        case Kind::schedule:
            return schedule.get_object();
        case Kind::cap:
            return none;
    }
    return none;
}

std::string_view name_of(Kind kind) {
    constexpr std::string_view names[] = {"cap", "agent", "budget", "schedule"};
    return names[static_cast<std::size_t>(kind)];
}

std::string mark_of(Kind kind, std::string_view name) {
    return fmt::format("{}{}.{}", mark_prefix, name_of(kind), name);
}

std::optional<std::vector<std::string>> shell_words(std::string_view text) {
    std::vector<std::string> words;
    std::optional<std::string> word;
    char quote = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
        if (quote == 0 && blank) {
            if (word) words.push_back(*std::exchange(word, std::nullopt));
        } else if (quote == 0 && (c == '\'' || c == '"')) {
            quote = c;
            if (!word) word.emplace();
        } else if (c == quote) {
            quote = 0;
        } else if (c == '\\' && quote != '\'') {
            if (i + 1 == text.size()) return std::nullopt;
            const char next = text[++i];
            if (!word) word.emplace();
            // Inside double quotes a backslash stays, except before these characters.
            if (quote == '"' && next != '"' && next != '\\' && next != '$' && next != '`') *word += c;
            *word += next;
        } else {
            if (!word) word.emplace();
            *word += c;
        }
    }
    if (quote != 0) return std::nullopt;
    if (word) words.push_back(*word);
    return words;
}

}  // namespace interlock::cli
