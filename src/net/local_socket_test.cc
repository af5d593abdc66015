#include "net/local_socket.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace interlock::net {
namespace {

using std::chrono::milliseconds;

class LocalSocketTest : public testing::Test {
 protected:
    LocalSocketTest() {
        char made[] = "/tmp/interlock-local-XXXXXX";
        directory = mkdtemp(made);
        path = directory + "/" + std::string(100, 'd') + "/a.sock";  // Longer than an address can be.
        std::filesystem::create_directory(directory + "/" + std::string(100, 'd'));
    }
    ~LocalSocketTest() override { std::filesystem::remove_all(directory); }

    bool answers(uid_t owner = ::geteuid()) const {
        const auto connected = connect_locally(path, owner, milliseconds(1000));
        if (connected) ::close(*connected);
        return bool(connected);
    }

    std::string directory;
    std::string path;
};

TEST_F(LocalSocketTest, a_socket_is_its_users_alone_and_goes_with_its_listener) {
    {
        const auto listening = LocalListener::open(path);
        ASSERT_TRUE(listening) << listening.error();
        struct stat there{};
        ASSERT_EQ(::stat(path.c_str(), &there), 0);
        EXPECT_EQ(there.st_mode & 0777, 0600u);
        EXPECT_TRUE(answers());
        EXPECT_FALSE(answers(::geteuid() + 1)) << "a server of another user";
    }
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_FALSE(answers());
}

TEST_F(LocalSocketTest, a_socket_with_a_listener_is_left_and_a_dead_one_replaced) {
    auto first = LocalListener::open(path);
    ASSERT_TRUE(first);
    EXPECT_FALSE(LocalListener::open(path));
    EXPECT_TRUE(answers());

    ::close(first->release());  // As after a kill: the path stays.
    ASSERT_TRUE(std::filesystem::exists(path));
    const auto second = LocalListener::open(path);
    ASSERT_TRUE(second) << second.error();
    EXPECT_TRUE(answers());
    {
        const LocalListener ended = std::move(*first);
    }
    EXPECT_TRUE(answers()) << "the first one removes only its own";
}

TEST_F(LocalSocketTest, what_is_not_a_socket_is_left_alone) {
    std::ofstream(path) << "text";
    EXPECT_FALSE(LocalListener::open(path));
    EXPECT_EQ(std::filesystem::file_size(path), 4u);
    EXPECT_FALSE(LocalListener::open(directory + "/none/a.sock"));
    EXPECT_FALSE(LocalListener::open(directory + "/" + std::string(100, 'n')));
}

}  // namespace
}  // namespace interlock::net
