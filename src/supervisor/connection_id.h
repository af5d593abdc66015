// A connection of a shim to the server, by a number that is used once.
#pragma once

#include <cstdint>

#include "base/strong.h"

namespace interlock::supervisor {

using ConnectionId = Strong<struct ConnectionIdTag, std::uint64_t>;

}  // namespace interlock::supervisor
