// The head of a response, as text.
#pragma once

#include <string>
#include <string_view>

#include "net/http.h"

namespace interlock::net {

enum class Framing { length, chunked, until_close };
enum class After { keep_alive, keep_alive_1_0, close };  // An HTTP/1.0 client wants to be told that it may stay.

// Whether the response can be sent: its status exists, and its headers have no line breaks or other control characters
// and say nothing that is the server's to say.
bool is_sendable(const Response& response);

// Appends to `text`. The response is sendable.
void append_head(std::string& text, const Response& response, Framing framing, After after, std::string_view date);

// "Sun, 15 Nov 2026 12:00:00 GMT"
std::string http_date(std::int64_t unix_seconds);

}  // namespace interlock::net
