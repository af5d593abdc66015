// What of a request goes on to an upstream, and what of its answer comes back.
//
//   (1) A key of ours never leaves, and an upstream's key never comes back: the request carries the upstream's own.
//   (2) A request's headers go on when they are on a list, or when the upstream's setting names them; a response's
//       headers come back when they are on another. An unknown header does neither. It could choose who
//       pays at the provider, or make a browser act on our origin.
//   (3) A request has a body only where its method defines one, and that body is JSON.
//   (4) No upstream is asked to compress: what was used is read from the answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/config.h"
#include "gateway/model_route.h"
#include "gateway/settings.h"
#include "net/http.h"
#include "net/http_pool.h"

namespace interlock::gateway {

// The client's key, wherever it stands: Bearer, x-api-key, x-goog-api-key, ?key=.
std::string_view key_in(const net::Request& request, const ModelRoute& route);

// True for headers that go to no upstream, also if its setting names them: keys, cookies and those of the connection.
bool ends_here(std::string_view lower_case_name);
// True if the header of a client's request goes to that upstream.
bool passes_to(const Upstream& upstream, std::string_view lower_case_name);
// The headers of a request that go to any of the upstreams, without those that name one request: equal texts get equal
// answers.
std::string what_goes_on(const Config& config, const net::Request& request);
// Whether a header of the client's goes on to the upstream.
bool goes_on(const net::Header& header, const net::Request& request, const Upstream& upstream);

net::OutRequest request_for(const Upstream& upstream, std::string_view key, const net::Request& request,
                            std::string target, std::string body);

// Headers of an answer that its client gets.
std::vector<net::Header> headers_from(const std::vector<net::Header>& headers);
// The type that a client is told for an answer of the stated type: JSON, an event stream, or bytes that a browser
// neither shows nor runs.
std::string content_type_from(std::string_view stated);

}  // namespace interlock::gateway
