#include "base/shell.h"

#include "base/text.h"

namespace interlock {
namespace {

bool is_plain_in_a_shell(std::string_view word) {
    constexpr std::string_view plain = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.,:/@+-";
    return !word.empty() && word.find_first_not_of(plain) == std::string_view::npos;
}

}  // namespace

std::string shell_word(std::string_view word) {
    if (is_plain_in_a_shell(word)) return std::string(word);
    std::string quoted = "'";
    for (const char c : as_line(word)) {
        if (c == '\'') {
            quoted += "'\\''";
        } else {
            quoted += c;
        }
    }
    return quoted + "'";
}

std::string shell_command(std::initializer_list<std::string_view> words) {
    std::string command;
    for (const std::string_view word : words) command += (command.empty() ? "" : " ") + shell_word(word);
    return command;
}

}  // namespace interlock
