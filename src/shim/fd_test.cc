#include "shim/fd.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace interlock::shim {
namespace {

std::pair<Fd, Fd> sockets() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    return {Fd(ends[0]), Fd(ends[1])};
}

ino_t inode_of(const Fd& fd) {
    struct stat status{};
    EXPECT_EQ(fstat(fd.get(), &status), 0);
    return status.st_ino;
}

TEST(PassedFd, comes_with_the_bytes_it_was_sent_with_and_is_closed_on_exec) {
    const auto [ours, theirs] = sockets();
    const Fd directory(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    Fd received;
    std::array<char, 16> buffer{};

    ASSERT_EQ(send_with(ours.get(), "plain", {}), 5);
    ASSERT_EQ(receive_with(theirs.get(), buffer.data(), buffer.size(), received), 5);
    EXPECT_FALSE(received);
    ASSERT_EQ(send_with(ours.get(), "with", directory), 4);
    ASSERT_EQ(receive_with(theirs.get(), buffer.data(), buffer.size(), received), 4);

    EXPECT_EQ(std::string(buffer.data(), 4), "with");
    ASSERT_TRUE(received);
    EXPECT_NE(received.get(), directory.get());
    EXPECT_EQ(inode_of(received), inode_of(directory));
    EXPECT_EQ(fcntl(received.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(PassedFd, stays_when_later_bytes_come_without_one) {
    const auto [ours, theirs] = sockets();
    const Fd directory(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    Fd received;
    std::array<char, 4> buffer{};

    ASSERT_EQ(send_with(ours.get(), "12345678", directory), 8);
    ASSERT_EQ(receive_with(theirs.get(), buffer.data(), buffer.size(), received), 4);
    ASSERT_EQ(receive_with(theirs.get(), buffer.data(), buffer.size(), received), 4);

    EXPECT_TRUE(received);
}

TEST(PassedFd, of_several_that_come_at_once_none_is_left_open) {
    const auto [ours, theirs] = sockets();
    const auto lowest_free = [] { return Fd(open("/", O_PATH | O_CLOEXEC)).get(); };
    const int before = lowest_free();
    {
        std::array<int, 3> many{ours.get(), ours.get(), ours.get()};
        union {
            cmsghdr header;
            char bytes[CMSG_SPACE(sizeof many)];
        } beside{};
        char byte = 'x';
        iovec part{.iov_base = &byte, .iov_len = 1};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = &beside;
        message.msg_controllen = sizeof beside;
        beside.header.cmsg_level = SOL_SOCKET;
        beside.header.cmsg_type = SCM_RIGHTS;
        beside.header.cmsg_len = CMSG_LEN(sizeof many);
        std::copy(many.begin(), many.end(), reinterpret_cast<int*>(CMSG_DATA(&beside.header)));
        ASSERT_EQ(sendmsg(ours.get(), &message, 0), 1);
        Fd received;
        std::array<char, 4> buffer{};
        ASSERT_EQ(receive_with(theirs.get(), buffer.data(), buffer.size(), received), 1);
    }
    EXPECT_EQ(lowest_free(), before);
}

TEST(Fd, a_duplicate_is_another_descriptor_of_the_same_file) {
    Fd directory(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));

    const Fd copy = directory.duplicate();
    directory.reset();

    EXPECT_GT(inode_of(copy), 0u);
    EXPECT_FALSE(directory.duplicate());
}

}  // namespace
}  // namespace interlock::shim
