// Commands that people copy into a shell. Names in them come from clients, so every word is quoted that needs it.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace interlock {

// The word as a POSIX shell, bash or zsh takes it: plain where nothing in it means anything to a shell, else in single
// quotes. What a terminal acts on is taken out, because a person could not see it.
std::string shell_word(std::string_view word);

// shell_command({"interlock", "agents", "show", name})
std::string shell_command(std::initializer_list<std::string_view> words);

}  // namespace interlock
