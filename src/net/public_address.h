// Which addresses belong to the public internet, and which to this machine or its own network.
#pragma once

#include <boost/asio/ip/address.hpp>

namespace interlock::net {

// False for loopback, private, link-local, unique local, shared (CGNAT), multicast, reserved and documentation
// addresses, for 0.0.0.0 and ::, and for IPv6 addresses that lead to such an IPv4 address (mapped, NAT64).
bool is_public(const boost::asio::ip::address& address);

}  // namespace interlock::net
