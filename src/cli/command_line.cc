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
#include "cli/text.h"

namespace interlock::cli {
namespace {

// CLI11 takes "[a,b]" for a list of two values where an argument is repeatable. So a word in brackets gets this at its
// end before CLI11 reads it, and loses it afterwards.
constexpr char one_word = '\x01';

std::string without_mark(std::string word) {
    if (word.ends_with(one_word)) word.pop_back();
    return word;
}

// What CLI11 fills in for one command.
struct Typed {
    const CliCommand* command;
    CLI::App* app;
    std::vector<std::vector<std::string>> arguments;  // Of each argument, what was given for it.
    std::map<std::string, std::vector<std::string>> values;
    std::map<std::string, bool> switches;

    Invocation invocation() const {
        Invocation made;
        for (const auto& texts : arguments)
            std::ranges::transform(texts, std::back_inserter(made.arguments), without_mark);
        for (const auto& [name, texts] : values) {
            if (!texts.empty()) std::ranges::transform(texts, std::back_inserter(made.flags[name]), without_mark);
        }
        for (const auto& [name, on] : switches) {
            if (on) made.flags[name] = {"true"};
        }
        return made;
    }
};

std::string names_of(const Flag& flag) {
    return (flag.short_name.empty() ? "" : '-' + flag.short_name + ',') + "--" + flag.name;
}

constexpr const char* watch_seconds = "2";
constexpr const char* sandbox_alone = "files";

// Of levels that this version does not have, the choices of the flag are told.
bool is_sandbox_level(const std::string& word) {
    return word == "off" || word == "guarded" || word == "files" || word == "sealed";
}

// "--watch" may be followed by its seconds or by something else, so they are joined before the parser guesses, and so
// are "--sandbox" and its level; "help runs start" is another way to say "runs start --help"; and who only names nodes
// or places wants to see them.
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
    if (!words.empty() && (words[0] == "nodes" || words[0] == "places") &&
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

// The command with the flags that main gave it besides its own.
CliCommand with_added_flags(const Typed& typed) {
    CliCommand made = *typed.command;
    for (const CLI::Option* option : typed.app->get_options()) {
        for (const std::string& name : option->get_lnames()) {
            const bool known = typed.values.contains(name) || typed.switches.contains(name) || name == "help";
            if (known) continue;
            const bool takes_value = option->get_expected_max() > 0;
            made.flags.push_back({.name = name,
                                  .value = takes_value ? "VALUE" : "",
                                  .help = option->get_description(),
                                  .takes = takes_value ? ValueType::text : ValueType::on,
                                  .local = true});
        }
    }
    return made;
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
    Parts(CLI::App& root, std::string own_version) : app(root), version(std::move(own_version)) {}

    void add(const CliCommand& command);
    void add_global_flags();
    std::vector<CliCommand> others() const;
    std::string help(const CLI::App* of, const std::string& name, CLI::AppFormatMode mode) const;
    Failure explained(const CLI::ParseError& error) const;

    CLI::App& app;
    std::string version;
    Settings settings;
    std::map<std::string, CLI::App*> noun_apps;
    std::vector<std::unique_ptr<Typed>> typed;
};

CommandLine::CommandLine(CLI::App& app, std::string version)
    : parts_(std::make_unique<Parts>(app, std::move(version))) {
    // One and no more: else a name that is also a command ("agents show status") would be taken for it.
    app.require_subcommand(1);
    app.fallthrough();
    Parts* parts = parts_.get();
    app.formatter_fn(
        [parts](const CLI::App* of, std::string name, CLI::AppFormatMode mode) { return parts->help(of, name, mode); });
    parts_->add_global_flags();
    for (const Noun& noun : nouns()) {
        CLI::App* noun_app = app.add_subcommand(noun.name, noun.summary);
        noun_app->require_subcommand(1);
        parts_->noun_apps[noun.name] = noun_app;
    }
    for (const CliCommand& command : commands()) parts_->add(command);
}

CommandLine::~CommandLine() = default;

const Settings& CommandLine::settings() const { return parts_->settings; }

std::optional<int> CommandLine::parse(int argc, const char* const* argv, const CliOutput& terminal) {
    std::vector<std::string> words = normalized({argv + 1, argv + argc});
    std::ranges::reverse(words);  // As CLI11 wants them.
    const auto end = [&](const Failure& failure) {
        terminal.error(failure.detail, failure.hint);
        return static_cast<int>(failure.exit);
    };
    try {
        parts_->app.parse(words);
    } catch (const CLI::Success& asked) {
        std::ostringstream text;
        const int code = parts_->app.exit(asked, text, text);
        terminal.data(text.str());
        return code;
    } catch (const CLI::ParseError& error) {
        if (argc < 2) {
            terminal.talk(overview(parts_->others()));
            return static_cast<int>(ExitCode::bad_usage);
        }
        return end(parts_->explained(error));
    }
    const auto typed = chosen();
    if (!typed) return std::nullopt;
    const std::string complaint = complaint_about(typed->command, typed->invocation);
    if (complaint.empty()) return std::nullopt;
    return end(bad_usage(complaint, fmt::format("interlock {}", usage_of(typed->command))));
}

int CommandLine::run(const Environment& environment, CliOutput terminal, Platform world) {
    const auto typed = chosen();
    if (!typed) return static_cast<int>(ExitCode::bad_usage);
    if (parts_->settings.no_color) terminal.styled = terminal.err_styled = false;
    Context context{.terminal = terminal,
                    .environment = environment,
                    .settings = parts_->settings,
                    .world = std::move(world),
                    .version = parts_->version,
                    .others = parts_->others()};
    const ExitCode ended = cli::run(context, typed->command, typed->invocation);
    if (!terminal.full()) return static_cast<int>(ended);
    terminal.error("the output could not be written", "is the disk full?");
    return static_cast<int>(ended == ExitCode::ok ? ExitCode::refused : ended);
}

std::optional<CommandLine::Chosen> CommandLine::chosen() const {
    const auto found = std::ranges::find_if(parts_->typed, [](const auto& one) { return one->app->parsed(); });
    if (found == parts_->typed.end()) return std::nullopt;
    return Chosen{*(*found)->command, (*found)->invocation()};
}

void CommandLine::Parts::add(const CliCommand& command) {
    CLI::App* parent = command.words.size() == 2 ? noun_apps.at(command.words[0]) : &app;
    CLI::App* made = parent->add_subcommand(command.words.back(), command.summary);
    if (command.hidden) made->group("");
    typed.push_back(std::make_unique<Typed>(
        Typed{.command = &command, .app = made, .arguments = {}, .values = {}, .switches = {}}));
    Typed& into = *typed.back();
    // Which of them are needed is checked afterwards, with words of our own. Each is an option by itself: CLI11 goes on
    // behind "--" only while one of them is still without a value.
    into.arguments.resize(command.arguments.size());
    for (std::size_t i = 0; i < command.arguments.size(); ++i) {
        const bool many = command.arguments[i].needed == Argument::Needed::many;
        CLI::Option* option = made->add_option(command.arguments[i].name, into.arguments[i]);
        many ? option->expected(1, CLI::detail::expected_max_vector_size)
             : option->expected(1)->allow_extra_args(false);
    }
    for (const Flag& flag : all_flags(command)) {
        if (is_switch(flag.takes)) {
            made->add_flag(names_of(flag), into.switches[flag.name]);
        } else if (flag.name == "watch") {
            made->add_flag(names_of(flag), into.values[flag.name])->expected(0, 1);
        } else {
            made->add_option(names_of(flag), into.values[flag.name])->allow_extra_args(false);
        }
    }
}

void CommandLine::Parts::add_global_flags() {
    const std::map<std::string, bool*> switches{
        {"json", &settings.json}, {"quiet", &settings.quiet}, {"no-color", &settings.no_color}};
    const std::map<std::string, std::string*> texts{
        {"url", &settings.url}, {"key", &settings.key}, {"data-dir", &settings.data_dir}};
    for (const Flag& flag : global_flags()) {
        if (const auto found = switches.find(flag.name); found != switches.end())
            app.add_flag(names_of(flag), *found->second, flag.help);
        if (const auto found = texts.find(flag.name); found != texts.end())
            app.add_option(names_of(flag), *found->second, flag.help);
        if (flag.name == "timeout")
            app.add_option("--timeout", settings.timeout_s, flag.help)->check(CLI::Range(0.1, 86400.0));
    }
}

// The commands that main added, as far as help and completion need to know them.
std::vector<CliCommand> CommandLine::Parts::others() const {
    std::vector<CliCommand> made;
    for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
        const bool ours = noun_apps.contains(one->get_name()) || find_command({one->get_name()}) != nullptr;
        if (ours) continue;
        CliCommand command{.words = {one->get_name()}, .summary = one->get_description()};
        command.hidden = one->get_group().empty();
        command.notes = one->get_footer();
        for (const CLI::Option* option : one->get_options()) {
            if (option->get_group().empty() || option == one->get_help_ptr()) continue;  // Not for people.
            const std::string otherwise = option->get_default_str();
            for (const std::string& name : option->get_lnames())
                command.flags.push_back(
                    {.name = name,
                     .value = option->get_expected_max() == 0 ? "" : "VALUE",
                     .help = option->get_description() + (otherwise.empty() ? "" : fmt::format(" ({})", otherwise))});
        }
        made.push_back(std::move(command));
    }
    return made;
}

std::string CommandLine::Parts::help(const CLI::App* of, const std::string& name, CLI::AppFormatMode mode) const {
    if (of == &app) return overview(others());
    for (const Noun& noun : nouns()) {
        if (noun_apps.at(noun.name) == of) return help_of(noun);
    }
    for (const auto& one : typed) {
        if (one->app == of) return help_of(with_added_flags(*one));
    }
    for (const CliCommand& other : others()) {
        if (other.words.front() == of->get_name()) return help_of(other);
    }
    return CLI::Formatter().make_help(of, name, mode);
}

// What, why, and what to do instead.
Failure CommandLine::Parts::explained(const CLI::ParseError& error) const {
    // 1. How far did it make sense?
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

    // 2. A flag that nobody knows?
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

    // 3. A command that nobody knows, or none?
    if (!below.empty() && left.empty()) {
        return bad_usage(fmt::format("'{}' needs to know what to do: {}", path, either(below)),
                         fmt::format("'{} --help' says more", path));
    }
    if (!below.empty()) {
        const auto meant = nearest(left.front(), below);
        return bad_usage(
            fmt::format("'{}' has no command '{}'", path, one_line(left.front())),
            meant ? fmt::format("did you mean '{} {}'?", path, *meant) : fmt::format("there are {}", either(below)));
    }
    if (!left.empty()) {
        return bad_usage(fmt::format("'{}' does not know what to do with '{}'", path, one_line(left.front())),
                         fmt::format("'{} --help' shows how it is used", path));
    }
    return bad_usage(error.what(), fmt::format("'{} --help' shows how it is used", path));
}

}  // namespace interlock::cli
