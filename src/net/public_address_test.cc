#include "net/public_address.h"

#include <gtest/gtest.h>

namespace interlock::net {
namespace {

TEST(PublicAddress, addresses_of_the_internet_are_public) {
    for (const char* text :
         {"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.167.0.1",
          "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::808:808"}) {
        EXPECT_TRUE(is_public(boost::asio::ip::make_address(text))) << text;
    }
}

TEST(PublicAddress, addresses_of_this_machine_and_its_network_are_not) {
    for (const char* text : {"0.0.0.0",
                             "0.1.2.3",
                             "10.0.0.1",
                             "100.64.0.1",
                             "100.127.255.255",
                             "127.0.0.1",
                             "127.255.0.1",
                             "169.254.169.254",
                             "172.16.0.1",
                             "172.31.255.255",
                             "192.0.0.8",
                             "192.0.2.1",
                             "192.88.99.1",
                             "192.168.1.1",
                             "198.18.0.1",
                             "198.19.255.255",
                             "198.51.100.1",
                             "203.0.113.1",
                             "224.0.0.1",
                             "239.1.1.1",
                             "240.0.0.1",
                             "255.255.255.255",
                             "::",
                             "::1",
                             "::127.0.0.1",
                             "::ffff:127.0.0.1",
                             "::ffff:10.0.0.1",
                             "::ffff:0.0.0.0",
                             "64:ff9b::7f00:1",
                             "64:ff9b::a9fe:a9fe",
                             "64:ff9b:1::808:808",
                             "100::1",
                             "2001::1",
                             "2001:1ff::1",
                             "2001:db8::1",
                             "2002:7f00:1::",
                             "2002:808:808::",
                             "3fff::1",
                             "fc00::1",
                             "fd00:ec2::254",
                             "fe80::1",
                             "fec0::1",
                             "ff02::1",
                             "5f00::1"}) {
        EXPECT_FALSE(is_public(boost::asio::ip::make_address(text))) << text;
    }
}

}  // namespace
}  // namespace interlock::net
