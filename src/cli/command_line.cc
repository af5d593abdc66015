#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>

#include "base/nearest.h"
#include "cli/context.h"
#include "cli/help.h"
#include "cli/request.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

// CLI11 splits "[a,b]" into two values where an argument is repeatable. So each word in brackets gets this mark at its
// end before CLI11 reads it. The mark is removed afterwards.
constexpr char one_word = '\x01';

std::string without_mark(std::string word) {
    if (word.ends_with(one_word)) word.pop_back();
    return word;
}

// The values that CLI11 fills in for a set of flags, by the name that was typed: an old name has values of its own.
struct FlagValues {
    std::map<std::string, std::vector<std::string>> texts = {};
    std::map<std::string, bool> switches = {};

    std::vector<std::string> of(const std::string& name) const {
        std::vector<std::string> values;
        if (const auto found = texts.find(name); found != texts.end())
            std::ranges::transform(found->second, std::back_inserter(values), without_mark);
        if (const auto found = switches.find(name); found != switches.end() && found->second) values.push_back("true");
        return values;
    }
};

// Values by the flag's present name. The error names a flag that was given by two names with different values.
Outcome<std::map<std::string, std::vector<std::string>>> values_of(const std::vector<Flag>& flags,
                                                                   const FlagValues& typed) {
    std::map<std::string, std::vector<std::string>> made;
    for (const Flag& flag : flags) {
        std::vector<std::string> values = typed.of(flag.name);
        for (const std::string& old_name : flag.old_names) {
            const std::vector<std::string> others = typed.of(old_name);
            if (!others.empty() && !values.empty() && others != values) {
                return fail(bad_usage(
                    fmt::format("--{} is the old name of --{}, and they have different values", old_name, flag.name),
                    fmt::format("pass only --{}", flag.name)));
            }
            if (values.empty()) values = others;
        }
        if (!values.empty()) made[flag.name] = std::move(values);
    }
    return made;
}

// One command as CLI11 sees it.
struct Typed {
    const CliCommand* command;
    CLI::App* app;
    std::vector<std::vector<std::string>> arguments = {};  // The values of each argument.
    FlagValues flags = {};

    Outcome<Invocation> invocation() const {
        auto values = values_of(all_flags(*command), flags);
        if (!values) return fail(values.error());
        Invocation made{.arguments = {}, .flags = std::move(*values)};
        for (const auto& texts : arguments)
            std::ranges::transform(texts, std::back_inserter(made.arguments), without_mark);
        return made;
    }
};

std::string names_of(const Flag& flag) {
    return (flag.short_name.empty() ? "" : '-' + flag.short_name + ',') + "--" + flag.name;
}

void add_flags(CLI::App& app, const std::vector<Flag>& flags, FlagValues& values) {
    const auto add = [&](const Flag& flag, const std::string& name, const std::string& names) {
        if (is_switch(flag.takes)) {
            app.add_flag(names, values.switches[name]);
        } else if (flag.name == "watch") {
            app.add_flag(names, values.texts[name])->expected(0, 1);
        } else {
            app.add_option(names, values.texts[name])->allow_extra_args(false);
        }
    };
    for (const Flag& flag : flags) {
        add(flag, flag.name, names_of(flag));
        for (const std::string& old_name : flag.old_names) add(flag, old_name, "--" + old_name);
    }
}

constexpr const char* watch_seconds = "2";
constexpr const char* sandbox_alone = "files";

// A word that is no level stays where it is, so that the flag's own check names the levels there are.
bool is_sandbox_level(const std::string& word) {
    return word == "off" || word == "guarded" || word == "files" || word == "sealed";
}

// Nouns that list what there is when no verb follows.
bool lists_by_itself(const std::string& word) { return word == "nodes" || word == "claims" || word == "places"; }

// Rewrites the shorthand that CLI11 cannot read:
//   --watch [SECONDS] and --sandbox [LEVEL]: an optional value is joined to its flag, or the default is;
//   help runs start → runs start --help;
//   nodes, claims → nodes ls, claims ls.
std::vector<std::string> normalized(std::vector<std::string> words) {
    for (std::string& word : words) {
        if (word.starts_with('[') && word.ends_with(']')) word += one_word;
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == "--") break;
        const bool is_watch = words[i] == "--watch";
        if (!is_watch && words[i] != "--sandbox") continue;
        const std::string next = i + 1 < words.size() ? words[i + 1] : "";
        const bool is_number = !next.empty() && next.find_first_not_of("0123456789.") == std::string::npos;
        const bool joins = is_watch ? is_number : is_sandbox_level(next);
        words[i] += '=' + (joins ? next : is_watch ? watch_seconds : sandbox_alone);
        if (joins) words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
    if (words.size() == 1 && words[0] == "--version") return {"version"};
    if (!words.empty() && lists_by_itself(words[0]) &&
        (words.size() == 1 || (words[1].starts_with("-") && words[1] != "--help"))) {
        words.insert(words.begin() + 1, "ls");
    }
    if (words.size() >= 2 && words[0] == "help" && words[1] != "exit-codes" && words[1] != "--help") {
        words.erase(words.begin());
        words.emplace_back("--help");
    } else if (words.size() == 1 && words[0] == "help") {
        words = {"--help"};
    }
    return words;
}

std::vector<std::string> names_below(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* below : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); })) {
        names.push_back(below->get_name());
    }
    return names;
}

}  // namespace

struct CommandLine::Parts {
    Parts(std::vector<CliCommand> local, std::string own_version)
        : local_commands(std::move(local)), version(std::move(own_version)) {}

    void add(const CliCommand& command);
    Outcome<void> read_settings();
    std::string help(const CLI::App* of, const std::string& name, CLI::AppFormatMode mode) const;
    Failure explained(const CLI::ParseError& error) const;
    const Typed* chosen() const;

    CLI::App app{"Interlock", "interlock"};
    const std::vector<CliCommand> local_commands;
    std::string version;
    FlagValues global_values;
    Settings settings;
    std::map<std::string, CLI::App*> noun_apps;
    std::vector<std::unique_ptr<Typed>> typed;
};

CommandLine::CommandLine(std::vector<CliCommand> local_commands, std::string version)
    : parts_(std::make_unique<Parts>(std::move(local_commands), std::move(version))) {
    Parts* parts = parts_.get();
    CLI::App& app = parts->app;
    // Exactly one, so that a name that is also a command ("agents show status") is not taken for a command.
    app.require_subcommand(1);
    app.fallthrough();
    app.formatter_fn(
        [parts](const CLI::App* of, std::string name, CLI::AppFormatMode mode) { return parts->help(of, name, mode); });
    add_flags(app, global_flags(), parts->global_values);
    for (const Noun& noun : nouns()) {
        CLI::App* noun_app = app.add_subcommand(noun.name, noun.summary);
        if (!noun.old_name.empty()) noun_app->alias(noun.old_name);
        noun_app->require_subcommand(1);
        parts->noun_apps[noun.name] = noun_app;
    }
    for (const CliCommand& command : parts->local_commands) parts->add(command);
    for (const CliCommand& command : commands()) parts->add(command);
}

CommandLine::~CommandLine() = default;

const Settings& CommandLine::settings() const { return parts_->settings; }

std::optional<int> CommandLine::parse(int argc, const char* const* argv, const CliOutput& output) {
    std::vector<std::string> words = normalized({argv + 1, argv + argc});
    std::ranges::reverse(words);  // CLI11 expects the words in reverse.
    const auto end = [&](const Failure& failure) {
        output.error(failure.detail, failure.hint);
        return static_cast<int>(failure.exit);
    };
    try {
        parts_->app.parse(words);
    } catch (const CLI::Success& asked) {
        std::ostringstream text;
        const int code = parts_->app.exit(asked, text, text);
        output.data(text.str());
        return code;
    } catch (const CLI::ParseError& error) {
        if (argc < 2) {
            output.talk(overview(parts_->local_commands));
            return static_cast<int>(ExitCode::bad_usage);
        }
        return end(parts_->explained(error));
    }
    if (const auto read = parts_->read_settings(); !read) return end(read.error());
    const Typed* typed = parts_->chosen();
    if (typed == nullptr) return std::nullopt;
    const auto invocation = typed->invocation();
    if (!invocation) return end(invocation.error());
    const std::string complaint = complaint_about(*typed->command, *invocation);
    if (!complaint.empty()) return end(bad_usage(complaint, fmt::format("interlock {}", usage_of(*typed->command))));
    if (const auto good = check_values(typed->command->flags, *invocation,
                                       fmt::format("interlock {} --help", typed->command->name()));
        !good)
        return end(good.error());
    return std::nullopt;
}

int CommandLine::run(const Environment& environment, CliOutput output, Platform world) {
    const auto typed = chosen();
    if (!typed) return static_cast<int>(ExitCode::bad_usage);
    if (parts_->settings.no_color) output.styled = output.err_styled = false;
    Context context{.output = output,
                    .environment = environment,
                    .settings = parts_->settings,
                    .world = std::move(world),
                    .version = parts_->version,
                    .local_commands = parts_->local_commands};
    const ExitCode ended = cli::run(context, typed->command, typed->invocation);
    if (!output.full() || output.reader_left()) return static_cast<int>(ended);
    output.error("the output could not be written", "check that the disk has room");
    return static_cast<int>(ended == ExitCode::ok ? ExitCode::refused : ended);
}

std::optional<CommandLine::Chosen> CommandLine::chosen() const {
    const Typed* typed = parts_->chosen();
    if (typed == nullptr) return std::nullopt;
    const auto invocation = typed->invocation();
    return invocation ? std::optional(Chosen{*typed->command, *invocation}) : std::nullopt;
}

const Typed* CommandLine::Parts::chosen() const {
    const auto found = std::ranges::find_if(typed, [](const auto& one) { return one->app->parsed(); });
    return found == typed.end() ? nullptr : found->get();
}

void CommandLine::Parts::add(const CliCommand& command) {
    CLI::App* parent = command.words.size() == 2 ? noun_apps.at(command.words[0]) : &app;
    CLI::App* made = parent->add_subcommand(command.words.back(), command.summary);
    if (!command.old_name.empty()) made->alias(command.old_name);
    if (command.hidden) made->group("");
    Typed& into = *typed.emplace_back(std::make_unique<Typed>(Typed{.command = &command, .app = made}));
    // complaint_about() checks which arguments are required. Each is an option of its own, because CLI11 reads on
    // behind "--" only while one of them has no value.
    into.arguments.resize(command.arguments.size());
    for (std::size_t i = 0; i < command.arguments.size(); ++i) {
        const bool many = command.arguments[i].needed == Argument::Needed::many;
        CLI::Option* option = made->add_option(command.arguments[i].name, into.arguments[i]);
        many ? option->expected(1, CLI::detail::expected_max_vector_size)
             : option->expected(1)->allow_extra_args(false);
    }
    add_flags(*made, all_flags(command), into.flags);
}

Outcome<void> CommandLine::Parts::read_settings() {
    auto values = values_of(global_flags(), global_values);
    if (!values) return fail(values.error());
    const Invocation given{.arguments = {}, .flags = std::move(*values)};
    if (const auto good = check_values(global_flags(), given, "interlock --help"); !good) return good;
    settings = {.url = given.text("url"),
                .key = given.text("key"),
                .data_dir = given.text("data-dir"),
                .request_timeout_s = given.number("request-timeout", Settings().request_timeout_s),
                .json = given.has("json"),
                .quiet = given.has("quiet"),
                .no_color = given.has("no-color")};
    return {};
}

std::string CommandLine::Parts::help(const CLI::App* of, const std::string& name, CLI::AppFormatMode mode) const {
    if (of == &app) return overview(local_commands);
    for (const Noun& noun : nouns()) {
        if (noun_apps.at(noun.name) == of) return help_of(noun);
    }
    for (const auto& one : typed) {
        if (one->app == of) return help_of(*one->command);
    }
    return CLI::Formatter().make_help(of, name, mode);
}

// The failure to report for words that CLI11 could not read.
Failure CommandLine::Parts::explained(const CLI::ParseError& error) const {
    // 1. The command as far as it was recognised.
    const CLI::App* reached = &app;
    std::string path = "interlock";
    while (!reached->get_subcommands().empty()) {
        reached = reached->get_subcommands().front();
        path += ' ' + reached->get_name();
    }
    std::vector<std::string> left = app.remaining(true);
    std::erase(left, "--");
    std::ranges::transform(left, left.begin(), without_mark);
    const std::vector<std::string> below = names_below(*reached);

    // 2. An unknown flag.
    const auto flag = std::ranges::find_if(left, [](const std::string& word) { return word.starts_with('-'); });
    if (flag != left.end()) {
        std::vector<std::string> known;
        for (const CLI::App* one : {reached, static_cast<const CLI::App*>(&app)}) {
            for (const CLI::Option* option : one->get_options()) {
                for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
            }
        }
        const std::string name = flag->substr(0, flag->find('='));
        const auto meant = nearest(name, known);
        return bad_usage(fmt::format("'{}' has no flag {}", path, one_line(name)),
                         meant ? fmt::format("did you mean {}?", *meant) : fmt::format("'{} --help' lists them", path));
    }

    // 3. An unknown or missing command.
    if (!below.empty() && left.empty()) {
        return bad_usage(fmt::format("'{}' needs a command: {}", path, either(below)), path + " --help");
    }
    if (!below.empty()) {
        const auto meant = nearest(left.front(), below);
        return bad_usage(fmt::format("'{}' has no command '{}'", path, one_line(left.front())),
                         meant ? fmt::format("did you mean '{} {}'?", path, *meant)
                               : fmt::format("the commands are {}", either(below)));
    }
    if (!left.empty()) {
        return bad_usage(fmt::format("'{}' does not take the argument '{}'", path, one_line(left.front())),
                         path + " --help");
    }
    return bad_usage(error.what(), path + " --help");
}

}  // namespace interlock::cli
