#include "supervisor/shim_door.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

namespace interlock::supervisor {
namespace {

using namespace std::chrono_literals;

class ShimDoorTest : public testing::Test {
 protected:
    ShimDoorTest() {
        std::string pattern = testing::TempDir() + "/shim_door_XXXXXX";
        // Longer than the name of a socket may be.
        directory = std::string(::mkdtemp(pattern.data())) + "/" + std::string(120, 'x');
        std::filesystem::create_directory(directory);
        auto opened = ShimDoor::open(directory);
        EXPECT_TRUE(opened) << (opened ? "" : opened.error());
        door = std::move(*opened);
    }
    ~ShimDoorTest() override { std::filesystem::remove_all(std::filesystem::path(directory).parent_path()); }

    shim::Fd come_in() const {
        const shim::Fd parent(::open(directory.c_str(), O_PATH | O_CLOEXEC));
        const std::string path = "/proc/self/fd/" + std::to_string(parent.get()) + "/" + ShimDoor::name;
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        shim::Fd guest(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::connect(guest.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        return guest;
    }
    // Until something is heard.
    std::vector<ShimDoor::Heard> hear() {
        for (int i = 0; i < 50; ++i) {
            if (auto heard = door->wait(100ms); !heard.empty()) return heard;
        }
        return {};
    }
    static void say(const shim::Fd& guest, const std::string& bytes) {
        EXPECT_EQ(::send(guest.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    }

    std::string directory;
    std::unique_ptr<ShimDoor> door;
};

TEST_F(ShimDoorTest, only_its_user_can_come_to_it) {
    struct stat facts{};
    ASSERT_EQ(::stat((directory + "/" + ShimDoor::name).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(ShimDoorTest, what_is_said_is_heard_with_who_said_it) {
    const shim::Fd guest = come_in();
    say(guest, shim::encode({"hello", "a"}) + shim::encode({"beat"}));

    const auto heard = hear();
    ASSERT_EQ(heard.size(), 2u);
    EXPECT_EQ(heard[0].process, ::getpid());
    EXPECT_EQ(heard[0].message, (shim::Message{"hello", "a"}));
    EXPECT_EQ(heard[1].message, shim::Message{"beat"});
    EXPECT_EQ(heard[0].guest, heard[1].guest);

    door->send(heard[0].guest, {"done", "well"});
    std::array<char, 100> bytes;
    const ssize_t got = ::recv(guest.get(), bytes.data(), bytes.size(), 0);
    EXPECT_EQ(std::string(bytes.data(), static_cast<std::size_t>(got)), shim::encode({"done", "well"}));
}

TEST_F(ShimDoorTest, who_leaves_or_makes_no_sense_is_heard_to_leave) {
    shim::Fd leaves = come_in();
    say(leaves, shim::encode({"hello"}));
    const Guest first = hear().front().guest;
    leaves.reset();
    auto heard = hear();
    ASSERT_EQ(heard.size(), 1u);
    EXPECT_EQ(heard[0].guest, first);
    EXPECT_FALSE(heard[0].message);
    door->send(first, {"done"});  // Nobody is there, and nothing happens.

    const shim::Fd babbles = come_in();
    say(babbles, std::string(100, '\xff'));
    heard = hear();
    ASSERT_EQ(heard.size(), 1u);
    EXPECT_FALSE(heard[0].message);
}

TEST_F(ShimDoorTest, who_never_stops_talking_keeps_nobody_from_being_heard) {
    const shim::Fd talks = come_in();
    const shim::Fd quiet = come_in();
    std::jthread talking([&](std::stop_token stop) {
        const std::string beats = [] {
            std::string all;
            while (all.size() < 100'000) all += shim::encode({"beat"});
            return all;
        }();
        while (!stop.stop_requested()) {
            if (::send(talks.get(), beats.data(), beats.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
                std::this_thread::yield();
        }
    });
    say(quiet, shim::encode({"hello"}));

    bool heard_quiet = false;
    const auto give_up = std::chrono::steady_clock::now() + 10s;
    while (!heard_quiet && std::chrono::steady_clock::now() < give_up) {
        for (const auto& heard : door->wait(100ms)) {
            heard_quiet = heard_quiet || (heard.message && heard.message->front() == "hello");
        }
    }
    EXPECT_TRUE(heard_quiet);
}

TEST_F(ShimDoorTest, a_bell_ends_a_wait) {
    std::jthread rings([this] {
        std::this_thread::sleep_for(20ms);
        door->wake();
    });
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_TRUE(door->wait(10s).empty());
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 5s);
}

}  // namespace
}  // namespace interlock::supervisor
