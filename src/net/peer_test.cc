#include "net/peer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cstring>

namespace interlock::net {
namespace {

using Where = PeerProcesses::Where;

// Two ends of a connection over loopback.
struct Connected {
    explicit Connected(int family = AF_INET) {
        const int listening = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_storage address{};
        address.ss_family = static_cast<sa_family_t>(family);
        if (family == AF_INET) reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (family == AF_INET6) reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr = in6addr_loopback;
        socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        auto* const named = reinterpret_cast<sockaddr*>(&address);
        works = ::bind(listening, named, size) == 0 && ::listen(listening, 1) == 0 &&
                getsockname(listening, named, &size) == 0;
        client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        works = works && ::connect(client, named, size) == 0;
        server = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
        ::close(listening);
    }
    ~Connected() {
        ::close(client);
        ::close(server);
    }
    int client = -1, server = -1;
    bool works = false;
};

TEST(PeerTest, over_loopback_it_is_whoever_has_the_other_end_open) {
    for (const int family : {AF_INET, AF_INET6}) {
        const Connected both(family);
        if (!both.works && family == AF_INET6) continue;  // A machine without it.
        const auto found = processes_of(address_of(peer_of(both.server)));
        EXPECT_EQ(found.where, Where::here);
        EXPECT_EQ(found.processes, std::vector{getpid()});
    }
}

TEST(PeerTest, who_has_hung_up_is_not_found) {
    Connected both;
    const Peer peer = peer_of(both.server);
    ::close(both.client);
    both.client = -1;

    EXPECT_EQ(processes_of(address_of(peer)).where, Where::hidden);
}

TEST(PeerTest, a_local_one_is_who_connected) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const PeerAddress address = address_of(peer_of(ends[0]));

    EXPECT_TRUE(address.local);
    EXPECT_EQ(address.user, geteuid());
    EXPECT_EQ(processes_of(address).processes, std::vector{getpid()});
    EXPECT_TRUE(may_be_there(address));
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST(PeerTest, a_local_one_that_the_kernel_cannot_name_here_is_not_found) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    PeerAddress address = address_of(peer_of(ends[0]));
    address.process = 0;

    EXPECT_EQ(processes_of(address).where, Where::hidden);
    ::close(ends[0]);
    ::close(ends[1]);
}

}  // namespace
}  // namespace interlock::net
