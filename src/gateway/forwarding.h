// What of a request goes on to an upstream, and what of its answer comes back.
//
//   (1) A key of ours never leaves, and an upstream's key never comes back: the request carries the upstream's own.
//   (2) Headers that belong to one connection, and those that are addressed to us, end here. Every other one goes on as
//       it came, in its order.
//   (3) No upstream is asked to compress: what was used is read from the answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/dialect.h"
#include "gateway/settings.h"
#include "net/http.h"
#include "net/http_pool.h"

namespace interlock::gateway {

// The client's key, wherever it stands: Bearer, x-api-key, x-goog-api-key, ?key=.
std::string_view key_in(const net::Request& request, const Route& route);

net::OutRequest request_for(const Upstream& upstream, std::string_view key, const net::Request& request,
                            std::string target, std::string body);

// Headers of an answer that its client gets.
std::vector<net::Header> headers_from(const std::vector<net::Header>& headers);

}  // namespace interlock::gateway
