// Any bytes as text that PostgreSQL takes.
//
// Its text is valid UTF-8 without the character 0. Ours is whatever a client sent. So a byte that does not fit is
// written as DEL and two hex digits, and so is DEL itself. Nearly all text goes through as it is.
#pragma once

#include <string>
#include <string_view>

namespace interlock::store {

bool is_plain_text(std::string_view text);  // Goes through as it is.
void append_escaped(std::string& out, std::string_view text);
// What append_escaped was given. Text that it never writes comes back unchanged.
std::string unescaped(std::string_view text);

}  // namespace interlock::store
