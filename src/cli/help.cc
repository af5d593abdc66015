#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/text.h"

namespace interlock::cli {
namespace {

struct HelpLine {
    std::string left;
    std::string right;
};

std::string block(std::string_view title, const std::vector<HelpLine>& lines) {
    if (lines.empty()) return "";
    std::size_t widest = 0;
    for (const HelpLine& line : lines) widest = std::max(widest, display_width(line.left));
    std::string text = fmt::format("\n{}:\n", title);
    for (const HelpLine& line : lines) {
        const std::string left =
            line.right.empty() ? line.left : padded(line.left, std::min<std::size_t>(widest, 32) + 2);
        text += fmt::format("  {}{}\n", left, line.right);
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
    if (flag.required) help += " (needed)";
    return {fmt::format("{}--{}{}", dash, flag.name, value), help};
}

std::vector<HelpLine> lines_of(const std::vector<Flag>& flags) {
    std::vector<HelpLine> lines;
    for (const Flag& flag : flags) lines.push_back(line_of(flag));
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
        const bool behind_dashes = argument.needed == Argument::Needed::many && command.changes();
        text += behind_dashes ? fmt::format(" [-- {}…]", argument.name) : ' ' + shown(argument);
    }
    return text;
}

std::string overview(const std::vector<CliCommand>& others) {
    std::string text =
        "Interlock keeps the money, the memory and the workplaces of AI agents that run side by side.\n\n"
        "Usage: interlock COMMAND [FLAGS]\n";
    std::vector<HelpLine> lines;
    for (const CliCommand& command : others) {
        if (!command.hidden) lines.push_back({command.name(), command.summary.substr(0, command.summary.find(". "))});
    }
    text += block("On this machine", lines);

    lines.clear();
    for (const Noun& noun : nouns()) lines.push_back({noun.name, noun.summary});
    text += block("What a server keeps", lines);

    lines.clear();
    for (const CliCommand& command : commands()) {
        if (command.words.size() == 1 && !command.hidden) lines.push_back({command.name(), command.summary});
    }
    text += block("And about it", lines);
    text += block("Flags of every command", lines_of(global_flags()));
    text +=
        "\nExamples:\n  interlock agents put coder\n  interlock budgets put daily --limit 10.00 --window day\n"
        "  interlock budgets ls --watch\n"
        "\n'interlock COMMAND --help' says more; 'interlock help exit-codes' how commands end.\n";
    return text;
}

std::string help_of(const Noun& noun) {
    std::vector<HelpLine> lines;
    std::string examples;
    for (const CliCommand& command : commands()) {
        if (command.words.size() != 2 || command.words[0] != noun.name) continue;
        lines.push_back({command.words[1], command.summary});
        if (examples.size() < 200 && !command.examples.empty()) examples += "  " + command.examples.front().line + '\n';
    }
    return fmt::format(
        "{}\n\nUsage: interlock {} VERB [FLAGS]\n{}\nExamples:\n{}\n'interlock {} VERB --help' says more.\n",
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
    text += block("Flags of every command", lines_of(everywhere));
    if (!command.notes.empty()) text += '\n' + command.notes + '\n';
    return text + examples_of(command);
}

std::string exit_codes_help() {
    return "How commands end:\n\n"
           "  0  done\n"
           "  1  refused: the rules say no, or a check found something broken\n"
           "  2  bad usage: the command line or the request is wrong\n"
           "  3  not found\n"
           "  4  not permitted: no key, a wrong one, or one that may not do this\n"
           "  5  no server could be reached; nothing was done\n"
           "  6  outcome unknown: it may have happened. The message has a key; the same command with\n"
           "     --idempotency-key KEY gives the true answer and never does it twice\n"
           "  7  the server is busy or cannot store now; nothing was done\n\n"
           "A change that ends in 6 or 7 has already been tried again, under one key, until --timeout.\n"
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
