#include "server/listen_address.h"

#include <fmt/format.h>

namespace interlock::server {

Result<ListenAddress, std::string> parse_listen(const std::string& text) {
    const auto refused = fail(fmt::format("--listen '{}' is not an address and port such as 127.0.0.1:4100", text));
    const std::size_t colon = text.rfind(':');
    std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
    const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    std::uint32_t number = 0;
    for (const char c : port) {
        if (c < '0' || c > '9' || number > 65535) return refused;
        number = number * 10 + static_cast<std::uint32_t>(c - '0');
    }
    if (port.empty() || number > 65535) return refused;
    return ListenAddress{.host = host, .port = static_cast<std::uint16_t>(number)};
}

}  // namespace interlock::server
