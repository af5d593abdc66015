// Hosts that answer calls to models. A run that may not have a key of its own reaches none of them but by the gateway.
#pragma once

#include <string_view>

namespace interlock::gateway {

// A name in lower case, without a dot at its end. True for the providers that the dialects and the price catalog know,
// and for clouds that sell their models. Upstreams that people set up are not among them.
bool is_provider_host(std::string_view host);

}  // namespace interlock::gateway
