#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/text.h"

namespace interlock::cli {
namespace {

constexpr std::size_t help_columns = 80;
constexpr std::size_t help_left_columns = 32;

struct HelpLine {
    std::string left;
    std::string right;
};

// The text in lines of so many columns, each after the first behind `indent`. Keeps line breaks, and never breaks a
// word.
std::string wrapped(std::string_view text, std::size_t columns, const std::string& indent) {
    std::string made;
    std::size_t used = 0;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
        const std::string_view word = text.substr(0, end);
        const std::size_t width = display_width(word);
        if (used > 0 && used + 1 + width > columns) {
            made += '\n' + indent;
            used = 0;
        }
        made += (used > 0 ? " " : "") + std::string(word);
        used += (used > 0 ? 1 : 0) + width;
        if (end < text.size() && text[end] == '\n') {
            made += '\n' + indent;
            used = 0;
        }
        text.remove_prefix(std::min(text.size(), end + 1));
    }
    return made;
}

std::string block(std::string_view title, const std::vector<HelpLine>& lines) {
    if (lines.empty()) return "";
    std::size_t widest = 0;
    for (const HelpLine& line : lines) widest = std::max(widest, display_width(line.left));
    std::string text = fmt::format("\n{}:\n", title);
    for (const HelpLine& line : lines) {
        const std::size_t column = std::min(widest, help_left_columns) + 2;
        const std::string left = line.right.empty() ? line.left : padded(line.left, column);
        text += "  " + left + wrapped(line.right, help_columns - column - 2, std::string(column + 2, ' ')) + '\n';
    }
    return text;
}

std::string shown(const Argument& argument) {
    switch (argument.needed) {
        case Argument::Needed::yes:
            return argument.name;
        case Argument::Needed::no:
            return '[' + argument.name + ']';
        case Argument::Needed::many:
            return '[' + argument.name + "…]";
    }
    return argument.name;
}

HelpLine line_of(const Flag& flag) {
    const std::string dash = flag.short_name.empty() ? "    " : '-' + flag.short_name + ", ";
    const std::string value =
        flag.value.empty()
            ? ""
            : (flag.name == "watch" || flag.name == "sandbox" ? " [" + flag.value + ']' : ' ' + flag.value);
    std::string help = flag.help;
    if (!flag.choices.empty()) help += ": " + either(flag.choices);
    if (flag.required) help += " (required)";
    return {fmt::format("{}--{}{}", dash, flag.name, value), help};
}

std::vector<HelpLine> lines_of(const std::vector<Flag>& flags) {
    std::vector<HelpLine> lines;
    for (const Flag& flag : flags) {
        if (!flag.hidden) lines.push_back(line_of(flag));
    }
    return lines;
}

std::string examples_of(const CliCommand& command) {
    if (command.examples.empty()) return "";
    std::string text = "\nExamples:\n";
    for (const Example& example : command.examples) {
        text += "  " + example.line + '\n';
        if (!example.what.empty()) text += "      " + example.what + '\n';
    }
    return text;
}

}  // namespace

std::string usage_of(const CliCommand& command) {
    std::string text = command.name();
    for (const Flag& flag : command.flags) {
        if (flag.required) text += fmt::format(" --{} {}", flag.name, flag.value);
    }
    for (const Argument& argument : command.arguments) {
        const bool behind_dashes = argument.member == "command";
        text += behind_dashes ? fmt::format(" [-- {}…]", argument.name) : ' ' + shown(argument);
    }
    return text;
}

std::string overview(const std::vector<CliCommand>& local_commands) {
    std::string text =
        "Interlock coordinates AI agents that share budgets, sessions and directories.\n\n"
        "Usage: interlock COMMAND [FLAGS]\n";
    const auto lines_of_commands = [](const std::vector<CliCommand>& all) {
        std::vector<HelpLine> lines;
        for (const CliCommand& command : all) {
            if (command.words.size() == 1 && !command.hidden) lines.push_back({command.name(), command.summary});
        }
        return lines;
    };
    text += block("Local commands", lines_of_commands(local_commands));
    std::vector<HelpLine> lines;
    for (const Noun& noun : nouns()) lines.push_back({noun.name, noun.summary});
    text += block("Resources", lines);
    text += block("Other commands", lines_of_commands(commands()));
    text += block("Global flags", lines_of(global_flags()));
    text +=
        "\nExamples:\n  interlock agents put coder\n  interlock budgets put daily --limit 10.00 --window day\n"
        "  interlock budgets ls --watch\n"
        "\n'interlock COMMAND --help' shows details, 'interlock help exit-codes' the exit codes.\n";
    return text;
}

std::string help_of(const Noun& noun) {
    std::vector<HelpLine> lines;
    std::string examples;
    for (const CliCommand& command : commands()) {
        if (command.words.size() != 2 || command.words[0] != noun.name || command.hidden) continue;
        lines.push_back({command.words[1], command.summary});
        if (examples.size() < 200 && !command.examples.empty()) examples += "  " + command.examples.front().line + '\n';
    }
    return fmt::format(
        "{}\n\nUsage: interlock {} VERB [FLAGS]\n{}\nExamples:\n{}\n'interlock {} VERB --help' shows details.\n",
        noun.summary, noun.name, block("Verbs", lines), examples, noun.name);
}

std::string help_of(const CliCommand& command) {
    std::string text = fmt::format("{}\n\nUsage: interlock {} [FLAGS]\n", command.summary, usage_of(command));
    std::vector<HelpLine> lines;
    for (const Argument& argument : command.arguments) lines.push_back({argument.name, argument.help});
    text += block("Arguments", lines);
    text += block("Flags", lines_of(all_flags(command)));
    std::vector<Flag> everywhere = global_flags();
    std::erase_if(everywhere, [&](const Flag& flag) {
        return std::ranges::find(command.flags, flag.name, &Flag::name) != command.flags.end();
    });
    text += block("Global flags", lines_of(everywhere));
    if (!command.notes.empty()) text += '\n' + wrapped(command.notes, help_columns, "") + '\n';
    return text + examples_of(command);
}

std::string exit_codes_help() {
    return "Exit codes:\n\n"
           "  0  done\n"
           "  1  refused by a rule, or a check found a violation\n"
           "  2  wrong usage: the command line or the request is invalid\n"
           "  3  not found\n"
           "  4  not permitted: the API key is missing, wrong or lacks the scope\n"
           "  5  no server could be reached; nothing changed\n"
           "  6  outcome unknown: the change may have happened. Repeat the command with the\n"
           "     --idempotency-key from the message: it takes effect at most once\n"
           "  7  the server is busy or cannot write to its store; nothing changed\n\n"
           "A command that ends with 6 or 7 has been retried, with one idempotency key, until --request-timeout.\n"
           "Errors go to standard error: as text, or with --json as the server's problem document.\n";
}

std::string complaint_about(const CliCommand& command, const Invocation& invocation) {
    for (std::size_t i = 0; i < command.arguments.size(); ++i) {
        if (command.arguments[i].needed == Argument::Needed::yes && i >= invocation.arguments.size()) {
            return fmt::format("'interlock {}' needs {}: {}", command.name(), command.arguments[i].name,
                               command.arguments[i].help);
        }
    }
    for (const Flag& flag : command.flags) {
        if (flag.required && !invocation.has(flag.name)) {
            return fmt::format("'interlock {}' needs --{} {}: {}", command.name(), flag.name, flag.value, flag.help);
        }
    }
    return "";
}

}  // namespace interlock::cli
