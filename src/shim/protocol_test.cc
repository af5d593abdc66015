#include "shim/protocol.h"

#include <gtest/gtest.h>

namespace interlock::shim {
namespace {

const Hello hello{.run = "run_1",
                  .pid = 12,
                  .start = "345",
                  .boot = "b00t",
                  .phase = ShimPhase::running,
                  .child_pid = 13,
                  .child_start = "346",
                  .foreground = true,
                  .secret = "s"};

TEST(Protocol, every_message_of_a_shim_comes_back_as_it_was) {
    const std::vector<FromShim> all{hello,
                                    Beat{.log_end = 1, .hole_begin = 2, .hole_end = 3},
                                    Started{.child_pid = 4, .child_start = "5", .note = "n"},
                                    Paused{},
                                    Resumed{},
                                    Ended{.how = How::timed_out,
                                          .code = 9,
                                          .detail = "d",
                                          .user_ms = 1,
                                          .system_ms = 2,
                                          .max_rss_kb = 3,
                                          .secret = "s",
                                          .code_is = CodeIs::signal},
                                    Entrance{}};
    EXPECT_EQ(all.size(), std::variant_size_v<FromShim>);
    for (const FromShim& message : all) EXPECT_EQ(read_from_shim(to_message(message)), message) << message.index();
}

TEST(Protocol, every_message_of_the_server_comes_back_as_it_was) {
    const std::vector<FromServer> all{
        Wait{"w"}, LaunchOrder{{"launch", "arg", "x"}}, Refused{"r", 7}, Stop{"s"}, Pause{}, Resume{}, Fenced{"f"},
        Done{"d"}};
    EXPECT_EQ(all.size(), std::variant_size_v<FromServer>);
    for (const FromServer& message : all) EXPECT_EQ(read_from_server(to_message(message)), message) << message.index();
}

TEST(Protocol, messages_of_the_previous_release_are_understood) {
    const auto old_hello = read_from_shim({"hello", "1", "run_1", "12", "345", "b00t", "running", "13", "346", "1"});
    Hello expected = hello;
    expected.version = 1;
    expected.secret = "";
    EXPECT_EQ(old_hello, FromShim(expected));
    EXPECT_EQ(
        read_from_shim({"ended", "exited", "3", "why", "1", "2", "3"}),
        FromShim(Ended{.how = How::exited, .code = 3, .detail = "why", .user_ms = 1, .system_ms = 2, .max_rss_kb = 3}));
    EXPECT_EQ(read_from_server({"stop"}), FromServer(Stop{}));
    EXPECT_EQ(read_from_server({"refused", "why"}), FromServer(Refused{"why", 1}));
}

// A server of the previous release reads fields by their position.
TEST(Protocol, fields_keep_their_positions) {
    EXPECT_EQ(to_message(FromShim(hello)),
              (ShimMessage{"hello", "3", "run_1", "12", "345", "b00t", "running", "13", "346", "1", "s"}));
    EXPECT_EQ(to_message(FromShim(Ended{.how = How::signaled, .code = 9, .detail = "d"})),
              (ShimMessage{"ended", "signaled", "9", "d", "0", "0", "0", "", ""}));
    EXPECT_EQ(to_message(FromShim(Started{4, "5", "n", "files"})), (ShimMessage{"started", "4", "5", "n", "files"}));
    EXPECT_EQ(to_message(FromShim(Beat{1, 2, 3})), (ShimMessage{"beat", "1", "2", "3"}));
    EXPECT_EQ(to_message(FromServer(Refused{"r", 7})), (ShimMessage{"refused", "r", "7"}));
    EXPECT_EQ(to_message(FromServer(Done{"d"})), (ShimMessage{"done", "d"}));
}

TEST(Protocol, unknown_verbs_are_not_decoded) {
    EXPECT_FALSE(read_from_shim({"sing", "a", "b", "c", "d"}));
    EXPECT_FALSE(read_from_shim({"launch", "arg", "x"}));
    EXPECT_FALSE(read_from_shim({}));
    EXPECT_FALSE(read_from_server({"sing", "a"}));
    EXPECT_FALSE(read_from_server({"ended", "exited", "0", ""}));
    EXPECT_FALSE(read_from_server({}));
}

TEST(Protocol, messages_with_too_few_fields_or_wrong_ones_are_not_decoded) {
    ShimMessage shorter = to_message(FromShim(hello));
    shorter.resize(9);
    EXPECT_FALSE(read_from_shim(shorter));
    EXPECT_FALSE(read_from_shim({"started", "4", "5"}));
    EXPECT_FALSE(read_from_shim({"ended", "exited", "0"}));
    EXPECT_FALSE(read_from_shim({"ended", "exited", "0x", ""}));
    for (const std::size_t numeric : {1u, 3u, 7u}) {
        ShimMessage wrong = to_message(FromShim(hello));
        wrong[numeric] = "12 ";
        EXPECT_FALSE(read_from_shim(wrong)) << numeric;
    }
    ShimMessage wrong = to_message(FromShim(hello));
    wrong[6] = "flying";
    EXPECT_FALSE(read_from_shim(wrong));
    EXPECT_FALSE(read_from_server({"refused", "why", "one"}));
}

TEST(Protocol, fields_of_a_newer_release_are_ignored) {
    ShimMessage longer = to_message(FromShim(hello));
    longer.emplace_back("new");
    EXPECT_EQ(read_from_shim(longer), FromShim(hello));
    EXPECT_EQ(read_from_shim({"ended", "evaporated", "0", "d"}),
              FromShim(Ended{.how = How::not_started, .detail = "d"}));
    EXPECT_EQ(read_from_server({"stop", "now", "please"}), FromServer(Stop{"now"}));
}

}  // namespace
}  // namespace interlock::shim
