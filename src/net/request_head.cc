#include "net/request_head.h"

#include <boost/asio/ip/address.hpp>

namespace interlock::net {
namespace {

bool has_line_break(std::string_view text) { return text.find_first_of(std::string_view("\r\n\0", 3)) != text.npos; }

}  // namespace

std::string host_header(bool secure, const std::string& host, std::uint16_t port) {
    const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
    return port == (secure ? 443 : 80) ? name : name + ":" + std::to_string(port);
}

bool is_address(const std::string& host) {
    boost::system::error_code error;
    boost::asio::ip::make_address(host, error);
    return !error;
}

bool append_head(std::string& text, Method method, std::string_view target, std::string_view host,
                 const std::vector<Header>& headers, std::size_t body_bytes) {
    if (has_line_break(target) || target.find(' ') != std::string_view::npos || has_line_break(host)) return false;
    text.append(name_of(method)).append(" ").append(target).append(" HTTP/1.1\r\nHost: ").append(host);
    for (const Header& header : headers) {
        if (has_line_break(header.name) || has_line_break(header.value)) return false;
        text.append("\r\n").append(header.name).append(": ").append(header.value);
    }
    const bool says_length = method != Method::get && method != Method::head;
    if (says_length || body_bytes > 0) text.append("\r\nContent-Length: ").append(std::to_string(body_bytes));
    text.append("\r\n\r\n");
    return true;
}

}  // namespace interlock::net
