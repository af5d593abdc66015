// Text from outside: what may be stored and shown, and what text becomes that may not.
#pragma once

#include <string>
#include <string_view>

namespace interlock {

// Strictly as RFC 3629 says: no surrogates, no overlong forms, nothing past U+10FFFF.
bool is_utf8(std::string_view text);

// UTF-8 without what a terminal acts on, what begins a new line and what makes other characters change places: the
// control characters U+0000 to U+001F and U+007F to U+009F, the separators U+2028 and U+2029, and the controls of
// direction U+202A to U+202E and U+2066 to U+2069.
bool is_line(std::string_view text);

// Every byte that is not part of a character becomes U+FFFD.
std::string as_utf8(std::string_view text);

// as_utf8(), and what is_line() refuses becomes a blank (tabs and ends of lines) or U+FFFD.
std::string as_line(std::string_view text);

// At most so many bytes; no character is cut in two.
std::string cut_text(std::string text, std::size_t bytes_max);

}  // namespace interlock
