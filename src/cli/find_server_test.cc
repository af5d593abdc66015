#include "cli/find_server.h"

#include <unistd.h>

#include <fstream>

#include "cli/cli_test_support.h"

namespace interlock::cli {
namespace {

class FindServerTest : public CliTest {
 protected:
    FindServerTest() { std::ofstream(directory() + "/server.json") << R"({"url":"http://127.0.0.1:4100/","pid":42})"; }
};

TEST_F(FindServerTest, flags_win_over_the_environment_and_that_over_the_data_directory) {
    const Environment environment{.url = "http://b", .key = "kb", .data_dir = directory()};

    const auto typed = find_server({.url = "http://a", .key = "ka"}, environment);
    EXPECT_EQ(typed->url, "http://a");
    EXPECT_EQ(typed->key, "ka");

    const auto from_environment = find_server({}, environment);
    EXPECT_EQ(from_environment->url, "http://b");
    EXPECT_EQ(from_environment->key, "kb");

    const auto from_directory = find_server({}, {.data_dir = directory()});
    EXPECT_EQ(from_directory->url, "http://127.0.0.1:4100");
    EXPECT_EQ(from_directory->key, "") << "the kernel says whose program this is";
}

TEST_F(FindServerTest, the_server_of_the_data_directory_is_spoken_to_through_its_socket) {
    const std::string user = std::to_string(::getuid());
    EXPECT_EQ(find_server({}, {.data_dir = directory()})->address(), "unix:" + user + ":" + directory() + "/api.sock");
    EXPECT_EQ(find_server({}, {.data_dir = directory(), .socket = "/run/i.sock"})->address(),
              "unix:" + user + ":/run/i.sock");
    EXPECT_EQ(find_server({.url = "http://a", .key = "ka"}, {.data_dir = directory()})->address(), "http://a");
    EXPECT_EQ(find_server({.url = "http://127.0.0.1:4100", .key = "ka"}, {.data_dir = directory()})->address(),
              "http://127.0.0.1:4100")
        << "an address and a key that were given";

    std::ofstream(directory() + "/server.json") << R"({"url":"http://127.0.0.1:4100","socket":"/run/other.sock"})";
    EXPECT_EQ(find_server({}, {.data_dir = directory()})->socket, "/run/other.sock");
}

TEST_F(FindServerTest, the_address_of_the_server_here_leads_to_its_socket) {
    EXPECT_EQ(find_server({.url = "http://elsewhere"}, {.data_dir = directory()})->socket, "");
    EXPECT_EQ(find_server({.url = "http://127.0.0.1:4100"}, {.data_dir = directory()})->socket,
              directory() + "/api.sock");
}

TEST_F(FindServerTest, in_a_run_there_is_the_runs_key_or_one_that_was_typed_or_none) {
    const Environment without{.run = "run_1", .data_dir = directory()};
    const Environment with{.key = "kr", .run = "run_1", .data_dir = directory()};

    const auto none = find_server({}, without);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().exit, ExitCode::not_permitted);
    EXPECT_NE(none.error().detail.find("INTERLOCK_KEY"), std::string::npos);
    EXPECT_EQ(find_server({}, with)->key, "kr");
    EXPECT_EQ(find_server({.key = "kt"}, without)->key, "kt");
}

TEST_F(FindServerTest, the_data_directory_is_looked_for_where_the_server_puts_it) {
    EXPECT_EQ(find_data_dir({.data_dir = "/a"}, {.data_dir = "/b"}), "/a");
    EXPECT_EQ(find_data_dir({}, {.data_dir = "/b", .xdg_data_home = "/c"}), "/b");
    EXPECT_EQ(find_data_dir({}, {.xdg_data_home = "/c", .home = "/h"}), "/c/interlock");
    EXPECT_EQ(find_data_dir({}, {.home = "/h"}), "/h/.local/share/interlock");
}

TEST_F(FindServerTest, without_a_server_one_is_told_how_to_start_one) {
    const auto found = find_server({}, {.data_dir = directory() + "/none"});

    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().exit, ExitCode::not_reachable);
    EXPECT_NE(found.error().hint.find("interlock up --data-dir " + directory() + "/none"), std::string::npos);
}

TEST_F(FindServerTest, an_address_that_is_none_is_bad_usage) {
    EXPECT_EQ(find_server({.url = "localhost:4100"}, {}).error().exit, ExitCode::bad_usage);
}

}  // namespace
}  // namespace interlock::cli
