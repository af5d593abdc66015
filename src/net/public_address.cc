#include "net/public_address.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace interlock::net {
namespace {

namespace ip = boost::asio::ip;

struct Ipv4Range {
    std::uint32_t first;
    int prefix_bits;
    constexpr bool has(std::uint32_t address) const { return (address ^ first) >> (32 - prefix_bits) == 0; }
};
constexpr std::uint32_t ipv4(std::uint32_t a, std::uint32_t b, std::uint32_t c) { return a << 24 | b << 16 | c << 8; }

// IANA's registry of special-purpose addresses, and multicast.
constexpr std::array not_public_v4{
    Ipv4Range{ipv4(0, 0, 0), 8},        // This network.
    Ipv4Range{ipv4(10, 0, 0), 8},       // Private.
    Ipv4Range{ipv4(100, 64, 0), 10},    // Shared (CGNAT).
    Ipv4Range{ipv4(127, 0, 0), 8},      // Loopback.
    Ipv4Range{ipv4(169, 254, 0), 16},   // Link-local, with the metadata services of clouds.
    Ipv4Range{ipv4(172, 16, 0), 12},    // Private.
    Ipv4Range{ipv4(192, 0, 0), 24},     // IETF protocols.
    Ipv4Range{ipv4(192, 0, 2), 24},     // Documentation.
    Ipv4Range{ipv4(192, 88, 99), 24},   // Relays of 6to4.
    Ipv4Range{ipv4(192, 168, 0), 16},   // Private.
    Ipv4Range{ipv4(198, 18, 0), 15},    // Benchmarks.
    Ipv4Range{ipv4(198, 51, 100), 24},  // Documentation.
    Ipv4Range{ipv4(203, 0, 113), 24},   // Documentation.
    Ipv4Range{ipv4(224, 0, 0), 4},      // Multicast.
    Ipv4Range{ipv4(240, 0, 0), 4},      // Reserved, with broadcast.
};

bool is_public_v4(std::uint32_t address) {
    return std::ranges::none_of(not_public_v4, [&](const Ipv4Range& range) { return range.has(address); });
}

using AddressBytes = ip::address_v6::bytes_type;

bool begins_with(const AddressBytes& bytes, std::span<const std::uint8_t> prefix) {
    return std::equal(prefix.begin(), prefix.end(), bytes.begin());
}

std::uint32_t last_four(const AddressBytes& bytes) {
    return ipv4(bytes[12], bytes[13], bytes[14]) | std::uint32_t{bytes[15]};
}

bool is_public_v6(const AddressBytes& bytes) {
    static constexpr std::array<std::uint8_t, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    static constexpr std::array<std::uint8_t, 12> nat64{0, 0x64, 0xff, 0x9b};
    if (begins_with(bytes, mapped) || begins_with(bytes, nat64)) return is_public_v4(last_four(bytes));
    // Nothing but global unicast is routed on the internet. Of that, 2001::/23 has Teredo and other protocols, and
    // 2002::/16 leads to IPv4 addresses.
    const bool global_unicast = (bytes[0] & 0xE0) == 0x20;
    const bool protocols = bytes[0] == 0x20 && bytes[1] == 0x01 && bytes[2] < 0x02;
    const bool documentation = (bytes[0] == 0x20 && bytes[1] == 0x01 && bytes[2] == 0x0d && bytes[3] == 0xb8) ||
                               (bytes[0] == 0x3f && bytes[1] == 0xff && bytes[2] < 0x10);
    const bool six_to_four = bytes[0] == 0x20 && bytes[1] == 0x02;
    return global_unicast && !protocols && !documentation && !six_to_four;
}

}  // namespace

bool is_public(const ip::address& address) {
    return address.is_v4() ? is_public_v4(address.to_v4().to_uint()) : is_public_v6(address.to_v6().to_bytes());
}

}  // namespace interlock::net
