// Who may be talked to, and by whom: the checks that keep a web page of somebody else from using this server through
// its visitor's browser.
#pragma once

#include <optional>

#include "net/http_server.h"
#include "net/request_parser.h"

namespace interlock::net {

// Host against allowed_hosts, on every request: a foreign name that leads here (DNS rebinding) is turned away. Then
// Origin, when there is one, against the Host and allowed_origins: also of a GET, since an event stream is one.
std::optional<Refusal> check_host_and_origin(const Request& request, const HttpServerOptions& options);

// What a browser says about the page that made it send a request which has passed that check. `nobody`: a person, by
// the address bar or a link; or no browser at all.
enum class SentBy { this_site, another_site, nobody };
SentBy sent_by(const Request& request);

}  // namespace interlock::net
