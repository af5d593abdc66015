#include "cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>

#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

// A word that can come next, with its help.
struct Suggestion {
    std::string text;
    std::string help;
};

// The words that can follow the typed words.
struct CompletionPoint {
    std::vector<std::string> typed;
    std::vector<Suggestion> words;
    std::string names;                    // The noun whose names can follow.
    std::vector<Flag> flags_with_values;  // Flags with choices or names.
};

std::vector<CompletionPoint> places(const std::vector<CliCommand>& local_commands) {
    std::vector<CliCommand> all = commands();
    all.insert(all.end(), local_commands.begin(), local_commands.end());
    std::erase_if(all, &CliCommand::hidden);

    std::vector<CompletionPoint> made;
    std::vector<Suggestion> first;
    for (const CliCommand& command : all) {
        CompletionPoint place{.typed = command.words, .words = {}, .names = "", .flags_with_values = {}};
        for (const Argument& argument : command.arguments) {
            if (!argument.completes.empty()) place.names = argument.completes;
            for (const std::string& choice : argument.choices) place.words.push_back({choice, argument.help});
        }
        std::vector<Flag> flags = all_flags(command);
        flags.insert(flags.end(), global_flags().begin(), global_flags().end());
        for (const Flag& flag : flags) {
            if (flag.hidden) continue;
            place.words.push_back({"--" + flag.name, flag.help});
            if (!flag.choices.empty() || !flag.completes.empty()) place.flags_with_values.push_back(flag);
        }
        made.push_back(std::move(place));
        if (command.words.size() == 1) first.push_back({command.words[0], command.summary});
    }
    for (const Noun& noun : nouns()) {
        CompletionPoint place{.typed = {noun.name}, .words = {}, .names = "", .flags_with_values = {}};
        for (const CliCommand& command : all) {
            if (command.words.size() == 2 && command.words[0] == noun.name)
                place.words.push_back({command.words[1], command.summary});
        }
        made.push_back(std::move(place));
        first.push_back({noun.name, noun.summary});
    }
    std::ranges::sort(first, {}, &Suggestion::text);
    made.push_back({.typed = {}, .words = std::move(first), .names = "", .flags_with_values = {}});
    return made;
}

// In single quotes, for any shell.
std::string shell_quoted(std::string_view text) {
    std::string made = "'";
    for (const char c : text) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return made + "'";
}

std::string joined_words(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    return text;
}

// The pattern for `case "first second "`; the most telling ones come first.
std::string pattern_of(const CompletionPoint& place) {
    return place.typed.empty() ? "*" : shell_quoted(joined_words(place.typed) + " ") + "*";
}

std::string bash(const std::vector<CompletionPoint>& places) {
    std::string text = R"sh(# Completions of interlock for bash: source <(interlock completion bash)
_interlock() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} typed= word candidates= names=
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word == -* ]] || typed+="$word "
    done
    case $typed in
)sh";
    for (const CompletionPoint& place : places) {
        std::string words;
        for (const Suggestion& word : place.words) words += (words.empty() ? "" : " ") + word.text;
        text += fmt::format("        {})\n            candidates={} names={}\n", pattern_of(place), shell_quoted(words),
                            shell_quoted(place.names));
        if (!place.flags_with_values.empty()) {
            text += "            case $previous in\n";
            for (const Flag& flag : place.flags_with_values) {
                text += fmt::format("                --{}) candidates={} names={} ;;\n", flag.name,
                                    shell_quoted(joined_words(flag.choices)), shell_quoted(flag.completes));
            }
            text += "            esac\n";
        }
        text += "            ;;\n";
    }
    return text + R"sh(    esac
    COMPREPLY=($(compgen -W "$candidates" -- "$current"))
    [[ -n $names && $current != -* ]] || return
    # Names come from a server: they are never handed to compgen, which would expand what is in them.
    while read -r word; do
        [[ $word == "$current"* ]] && printf -v word %q "$word" && COMPREPLY+=("$word")
    done < <(interlock __complete "$names" 2>/dev/null)
}
complete -o default -F _interlock interlock
)sh";
}

std::string zsh(const std::vector<CompletionPoint>& places) {
    std::string text = R"sh(#compdef interlock
# Completions of interlock for zsh: interlock completion zsh > a directory in fpath/_interlock
_interlock() {
    local -a candidates
    local typed= names= word previous=$words[CURRENT-1]
    for word in "${(@)words[2,CURRENT-1]}"; do
        [[ $word == -* ]] || typed+="$word "
    done
    case $typed in
)sh";
    for (const CompletionPoint& place : places) {
        const auto described = [](const Suggestion& word) {
            std::string help = word.help;
            std::ranges::replace(help, ':', ',');
            return shell_quoted(word.text + ":" + help);
        };
        text += fmt::format("        {})\n            names={}\n            candidates=(\n", pattern_of(place),
                            shell_quoted(place.names));
        for (const Suggestion& word : place.words) text += fmt::format("                {}\n", described(word));
        text += "            )\n";
        if (!place.flags_with_values.empty()) {
            text += "            case $previous in\n";
            for (const Flag& flag : place.flags_with_values) {
                text += fmt::format("                --{}) candidates=({}) names={} ;;\n", flag.name,
                                    joined_words(flag.choices), shell_quoted(flag.completes));
            }
            text += "            esac\n";
        }
        text += "            ;;\n";
    }
    return text + R"sh(    esac
    [[ -n $names && $words[CURRENT] != -* ]] && compadd -- ${(f)"$(interlock __complete $names 2>/dev/null)"}
    _describe 'interlock' candidates || _files
}
if [[ $funcstack[1] == _interlock ]]; then
    _interlock "$@"
else
    compdef _interlock interlock
fi
)sh";
}

std::string fish(const std::vector<CompletionPoint>& places) {
    std::string text =
        "# Completions of interlock for fish: interlock completion fish > ~/.config/fish/completions/interlock.fish\n";
    for (const CompletionPoint& place : places) {
        std::string when = "__fish_use_subcommand";
        if (!place.typed.empty()) {
            when.clear();
            for (const std::string& word : place.typed)
                when += (when.empty() ? "" : "; and ") + fmt::format("__fish_seen_subcommand_from {}", word);
        }
        const bool noun = place.typed.size() == 1 && !place.words.empty() && !place.words[0].text.starts_with("--");
        if (noun) {
            when += "; and not __fish_seen_subcommand_from";
            for (const Suggestion& word : place.words) when += ' ' + word.text;
        }
        const std::string begin = fmt::format("complete -c interlock -n {}", shell_quoted(when));
        for (const Suggestion& word : place.words) {
            if (!word.text.starts_with("--")) {
                text += fmt::format("{} -f -a {} -d {}\n", begin, word.text, shell_quoted(word.help));
                continue;
            }
            const std::string name = word.text.substr(2);
            const auto flag = std::ranges::find(place.flags_with_values, name, &Flag::name);
            std::string values;
            if (flag != place.flags_with_values.end()) {
                values = flag->choices.empty()
                             ? fmt::format(" -x -a '(interlock __complete {} 2>/dev/null)'", flag->completes)
                             : fmt::format(" -x -a {}", shell_quoted(joined_words(flag->choices)));
            }
            text += fmt::format("{} -l {}{} -d {}\n", begin, name, values, shell_quoted(word.help));
        }
        if (!place.names.empty())
            text += fmt::format("{} -f -a '(interlock __complete {} 2>/dev/null)'\n", begin, place.names);
    }
    return text;
}

}  // namespace

std::optional<std::string> completion_script(const std::string& shell, const std::vector<CliCommand>& local_commands) {
    if (shell == "bash") return bash(places(local_commands));
    if (shell == "zsh") return zsh(places(local_commands));
    if (shell == "fish") return fish(places(local_commands));
    return std::nullopt;
}

ExitCode complete_names(Context& context, const Invocation& invocation) {
    const CliCommand* command = find_command({invocation.arguments[0], "ls"});
    if (command == nullptr) return ExitCode::ok;
    auto client = context.connect();
    if (!client) return ExitCode::ok;
    const bool in_pages = command->answer == CliCommand::ResponseShape::list;
    const auto answer =
        in_pages ? client->list({.target = command->path, .items_max = 1000}) : client->get(command->path);
    if (!answer) return ExitCode::ok;
    if (const auto* items = member_of(answer->document, "items").if_array()) {
        for (const json::value& item : *items) {
            context.output.data(one_line(text_of(member_of(item, command->view->id))) + "\n");
        }
    }
    return ExitCode::ok;
}

}  // namespace interlock::cli
