// Which version this is.
#pragma once

namespace interlock::server {

constexpr const char* version = "0.1.0";

}  // namespace interlock::server
