#include "supervisor/shim_listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <thread>

#include "shim/entrance.h"

namespace interlock::supervisor {
namespace {

using namespace std::chrono_literals;

const shim::FromShim hello = shim::Hello{.run = "run_1", .pid = 7};

class ShimDoorTest : public testing::Test {
 protected:
    ShimDoorTest() {
        std::string pattern = testing::TempDir() + "/shim_door_XXXXXX";
        // Longer than the name of a socket may be.
        directory = std::string(::mkdtemp(pattern.data())) + "/" + std::string(120, 'x');
        std::filesystem::create_directory(directory);
        auto opened = ShimListener::open(directory);
        EXPECT_TRUE(opened) << (opened ? "" : opened.error());
        door = std::move(*opened);
    }
    ~ShimDoorTest() override { std::filesystem::remove_all(std::filesystem::path(directory).parent_path()); }

    shim::Fd come_in() const {
        const shim::Fd parent(::open(directory.c_str(), O_PATH | O_CLOEXEC));
        const std::string path = "/proc/self/fd/" + std::to_string(parent.get()) + "/" + ShimListener::name;
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        shim::Fd connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        return connection;
    }
    // Until something is heard.
    std::vector<ShimListener::Heard> hear() {
        for (int i = 0; i < 50; ++i) {
            if (auto heard = door->wait(100ms); !heard.empty()) return heard;
        }
        return {};
    }
    std::vector<ShimListener::Heard> hear_all(const shim::Fd& connection, const std::string& bytes, int descriptor) {
        EXPECT_EQ(shim::send_with(connection.get(), bytes.data(), bytes.size(), descriptor),
                  static_cast<ssize_t>(bytes.size()));
        return hear();
    }
    static void say(const shim::Fd& connection, const std::string& bytes) {
        EXPECT_EQ(::send(connection.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    }

    std::string directory;
    std::unique_ptr<ShimListener> door;
};

TEST_F(ShimDoorTest, only_its_user_can_come_to_it) {
    struct stat facts{};
    ASSERT_EQ(::stat((directory + "/" + ShimListener::name).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(ShimDoorTest, what_is_said_is_heard_with_who_said_it) {
    const shim::Fd connection = come_in();
    say(connection, shim::encode(shim::to_message(hello)) + shim::encode({"sing"}) + shim::encode({"beat"}));

    const auto heard = hear();
    ASSERT_EQ(heard.size(), 2u);
    EXPECT_EQ(heard[0].process, ::getpid());
    EXPECT_EQ(heard[0].message, hello);
    EXPECT_EQ(heard[1].message, shim::FromShim(shim::Beat{}));
    EXPECT_EQ(heard[0].connection, heard[1].connection);

    door->send(heard[0].connection, shim::Done{"well"});
    std::array<char, 100> bytes;
    const ssize_t got = ::recv(connection.get(), bytes.data(), bytes.size(), 0);
    EXPECT_EQ(std::string(bytes.data(), static_cast<std::size_t>(got)), shim::encode({"done", "well"}));
}

TEST_F(ShimDoorTest, a_descriptor_goes_with_its_message_and_the_sender_keeps_its_own) {
    const shim::Fd connection = come_in();
    say(connection, shim::encode(shim::to_message(hello)));
    const auto heard = hear();
    ASSERT_EQ(heard.size(), 1u);
    const shim::Fd sent(::open(directory.c_str(), O_PATH | O_CLOEXEC));

    door->send(heard[0].connection, shim::Wait{"for it"});
    door->send(heard[0].connection, shim::Done{"well"}, sent);

    shim::Fd received;
    std::array<char, 200> bytes;
    std::string all;
    while (!received) {
        const ssize_t got = shim::receive_with(connection.get(), bytes.data(), bytes.size(), received);
        ASSERT_GT(got, 0);
        all.append(bytes.data(), static_cast<std::size_t>(got));
    }
    EXPECT_EQ(all, shim::encode({"wait", "for it"}) + shim::encode({"done", "well"}));
    struct stat here{}, there{};
    ASSERT_EQ(::fstat(sent.get(), &here), 0);
    ASSERT_EQ(::fstat(received.get(), &there), 0);
    EXPECT_EQ(here.st_ino, there.st_ino);
}

TEST_F(ShimDoorTest, who_leaves_or_makes_no_sense_is_heard_to_leave) {
    shim::Fd leaves = come_in();
    say(leaves, shim::encode({"beat"}));
    const ConnectionId first = hear().front().connection;
    leaves.reset();
    auto heard = hear();
    ASSERT_EQ(heard.size(), 1u);
    EXPECT_EQ(heard[0].connection, first);
    EXPECT_FALSE(heard[0].message);
    door->send(first, shim::Done{});  // The connection is gone, and nothing happens.

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
    say(quiet, shim::encode(shim::to_message(hello)));

    bool heard_quiet = false;
    const auto give_up = std::chrono::steady_clock::now() + 10s;
    while (!heard_quiet && std::chrono::steady_clock::now() < give_up) {
        for (const auto& heard : door->wait(100ms)) {
            heard_quiet = heard_quiet || (heard.message && *heard.message == hello);
        }
    }
    EXPECT_TRUE(heard_quiet);
}

bool is_closed(const shim::Fd& connection) {
    char byte = 0;
    return ::recv(connection.get(), &byte, 1, MSG_DONTWAIT) == 0;
}

TEST_F(ShimDoorTest, strangers_that_fill_the_room_give_way_to_new_ones) {
    door->set_live_runs(2);
    const std::size_t room = ShimListener::strangers_beside + 2 * ShimListener::strangers_per_run;
    const shim::Fd known = come_in();
    say(known, shim::encode(shim::to_message(hello)));
    door->admit(hear().front().connection);
    std::vector<shim::Fd> strangers;
    for (std::size_t i = 0; i < 4 * room; ++i) {
        strangers.push_back(come_in());
        door->wait(0ms);
    }
    for (int i = 0; i < 10; ++i) door->wait(0ms);

    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count_if(strangers, is_closed)), strangers.size() - room);
    EXPECT_FALSE(is_closed(strangers.back()));
    EXPECT_FALSE(is_closed(known));
}

TEST_F(ShimDoorTest, a_stranger_is_shown_out_after_a_second_and_an_admitted_guest_stays) {
    const shim::Fd known = come_in();
    say(known, shim::encode(shim::to_message(hello)));
    const ConnectionId connection = hear().front().connection;
    door->admit(connection);
    const shim::Fd stranger = come_in();
    const auto came = std::chrono::steady_clock::now();
    const auto heard = hear();

    ASSERT_EQ(heard.size(), 1u);
    EXPECT_NE(heard[0].connection, connection);
    EXPECT_FALSE(heard[0].message);
    EXPECT_GE(std::chrono::steady_clock::now() - came, ShimListener::stranger_stays);
    EXPECT_TRUE(is_closed(stranger));
    EXPECT_FALSE(is_closed(known));
}

TEST_F(ShimDoorTest, a_stranger_may_not_send_a_long_message_and_an_admitted_guest_may) {
    const shim::Fd connection = come_in();
    say(connection, shim::encode(shim::to_message(hello)));
    door->admit(hear().front().connection);
    const std::string message = shim::encode({"wait", std::string(ShimListener::message_of_stranger_max, 'x')});
    say(connection, message.substr(0, 8));
    const shim::Fd stranger = come_in();
    say(stranger, message.substr(0, 8));
    const auto heard = hear();

    ASSERT_EQ(heard.size(), 1u);
    EXPECT_FALSE(heard[0].message);
    EXPECT_TRUE(is_closed(stranger));
    EXPECT_FALSE(is_closed(connection));
}

TEST_F(ShimDoorTest, a_descriptor_comes_with_its_message) {
    const shim::Fd connection = come_in();
    const shim::Fd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    hear_all(connection, shim::encode(shim::to_message(hello)), -1);
    const auto heard =
        hear_all(connection, shim::encode(shim::to_message(shim::FromShim(shim::Entrance{}))), file.get());

    ASSERT_EQ(heard.size(), 1u);
    EXPECT_TRUE(heard[0].message == shim::FromShim(shim::Entrance{}));
    struct stat came{}, sent{};
    ASSERT_TRUE(heard[0].entrance);
    EXPECT_TRUE(::fstat(heard[0].entrance.get(), &came) == 0 && ::fstat(file.get(), &sent) == 0);
    EXPECT_EQ(came.st_rdev, sent.st_rdev);
    EXPECT_EQ(::fcntl(heard[0].entrance.get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(ShimDoorTest, descriptors_that_were_not_asked_for_are_not_kept) {
    const shim::Fd connection = come_in();
    hear_all(connection, shim::encode(shim::to_message(hello)), -1);
    const shim::Fd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const auto open_files = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
    const auto before = open_files();

    for (int i = 0; i < 20; ++i) hear_all(connection, shim::encode(shim::to_message(hello)), file.get());

    EXPECT_LE(open_files(), before + 1);
    const auto heard = hear_all(connection, shim::encode(shim::to_message(shim::FromShim(shim::Entrance{}))), -1);
    ASSERT_EQ(heard.size(), 1u);
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
