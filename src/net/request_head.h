// The head of a request, as text, for whoever asks another server.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"

namespace interlock::net {

// As the Host header has it: an IPv6 address in brackets, and the port unless it is the usual one.
std::string host_header(bool secure, const std::string& host, std::uint16_t port);
bool is_address(const std::string& host);

// Appends to `text`. False: the target or a header has a line break or a space that would break the framing.
[[nodiscard]] bool append_head(std::string& text, Method method, std::string_view target, std::string_view host,
                               const std::vector<Header>& headers, std::size_t body_bytes);

}  // namespace interlock::net
