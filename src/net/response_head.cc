#include "net/response_head.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include <fmt/format.h>

namespace interlock::net {
namespace {

// What keeps a browser from treating a body as a page, a script or a picture of this origin.
constexpr std::string_view inert_headers =
    "\r\nX-Content-Type-Options: nosniff"
    "\r\nContent-Security-Policy: sandbox; default-src 'none'; frame-ancestors 'none'"
    "\r\nCross-Origin-Resource-Policy: same-origin";

bool is_ours(std::string_view name) {
    static constexpr std::array<std::string_view, 5> ours{"connection", "content-length", "content-type", "date",
                                                          "transfer-encoding"};
    return std::ranges::find(ours, name) != ours.end();
}

void append_number(std::string& text, std::size_t number) {
    std::array<char, 20> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    text.append(digits.data(), end);
}

}  // namespace

bool is_sendable(const Response& response) {
    return response.status >= 200 && response.status <= 599 && is_header_value(response.content_type) &&
           std::ranges::all_of(response.headers, [](const Header& header) {
               return is_header_name(header.name) && !is_ours(header.name) && is_header_value(header.value);
           });
}

void append_head(std::string& text, const Response& response, Framing framing, After after, std::string_view date) {
    text.append("HTTP/1.1 ");
    append_number(text, static_cast<std::size_t>(response.status));
    text.append(" ").append(reason_of(response.status));
    text.append("\r\nDate: ").append(date);
    if (!response.content_type.empty()) text.append("\r\nContent-Type: ").append(response.content_type);
    for (const Header& header : response.headers) {
        text.append("\r\n").append(header.name).append(": ").append(header.value);
    }
    if (response.inert) text.append(inert_headers);
    const bool never_has_a_body = response.status == 204 || response.status == 304;
    if (framing == Framing::chunked) text.append("\r\nTransfer-Encoding: chunked");
    if (framing == Framing::length && !never_has_a_body) {
        text.append("\r\nContent-Length: ");
        append_number(text, response.body.size());
    }
    if (after == After::close) text.append("\r\nConnection: close");
    if (after == After::keep_alive_1_0) text.append("\r\nConnection: keep-alive");
    text.append("\r\n\r\n");
}

std::string http_date(std::int64_t unix_seconds) {
    static constexpr std::array<const char*, 7> days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr std::array<const char*, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    // Not strftime(), whose names depend on the locale.
    const std::time_t seconds = unix_seconds;
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", days[static_cast<std::size_t>(utc.tm_wday)],
                       utc.tm_mday, months[static_cast<std::size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour,
                       utc.tm_min, utc.tm_sec);
}

}  // namespace interlock::net
