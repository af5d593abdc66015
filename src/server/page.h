// The page's files, over HTTP.
//
//   (1) They are for everybody: what is on the page comes from the API, which wants a key or a login.
//   (2) Nothing runs, styles or is fetched on the page but what this server serves, and no text becomes HTML there.
//   (3) What has its hash in its name never changes and may be kept for good; the rest is asked for each time, and sent
//       only when it has changed.
#pragma once

#include <optional>

#include "net/http.h"

namespace interlock::server {

// Nothing when the request is not for the page.
std::optional<net::Response> answer_page(const net::Request& request);

}  // namespace interlock::server
