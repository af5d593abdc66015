#include "demo/screen.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace interlock::demo {
namespace {

const cli::CliOutput plain;
const cli::CliOutput styled{.styled = true};

class DemoScreen : public testing::Test {
 protected:
    DemoScreen() {
        books.spent = 5'123'456'789;
        books.held = 31'200'000;
        books.calls_paid = 12'345;
        books.calls_refused = 678;
        books.messages.resize(8'123);
        books.messages_told = 8'123;
        books.places = {{.name = "api", .worker = "agent-017", .runs = 1'241, .in_line = 18, .turned_away = 23'456},
                        {.name = "infra", .runs = 7, .in_line = 0, .turned_away = 9}};
        scene.agents = 100;
        scene.elapsed = SceneSeconds(5.04);
        scene.time = SceneSeconds(8);
        scene.books = &books;
        scene.commands_a_second = 4'411;
        scene.commits_a_second = 312;
        scene.history = {0, 10, 20, 30};
        scene.kill_at = SceneSeconds(4);
        scene.killed_at = SceneSeconds(4.01);
        scene.open_again_after = SceneSeconds(0.09);
        scene.kill = {.left_behind = {},
                      .acknowledged = 38'112,
                      .remembered = 38'112,
                      .asked_again = 12'000,
                      .found = 12'000,
                      .lost = {},
                      .in_flight = 43,
                      .had_been_done = 31,
                      .done_later = 12};
        scene.stopping = true;
    }

    // Blanks tell where a piece stands, not what it says.
    static std::string words(const std::vector<std::string>& lines) {
        std::string text;
        for (const std::string& each : lines) text += each;
        std::erase(text, ' ');
        return text;
    }

    DemoBooks books;
    Scene scene;
};

TEST_F(DemoScreen, no_line_of_the_picture_is_wider_than_the_terminal) {
    for (const std::size_t columns : {40u, 60u, 72u, 80u, 100u, 200u}) {
        for (const cli::CliOutput& terminal : {plain, styled}) {
            for (const std::string& each : picture(scene, terminal, columns))
                EXPECT_LE(columns_of(each), columns) << each;
        }
    }
}

TEST_F(DemoScreen, a_narrow_picture_says_all_that_a_wide_one_says) {
    const auto without_bar = [](std::string text) {
        std::erase_if(text, [](char c) { return c == '#' || c == '+' || c == '.'; });
        return text;
    };

    const std::string wide = without_bar(words(picture(scene, plain, 200)));
    const std::string narrow = without_bar(words(picture(scene, plain, 40)));

    EXPECT_EQ(narrow, wide);
    EXPECT_NE(wide.find("12,345paid"), std::string::npos) << wide;
    EXPECT_NE(wide.find("12,000of38,112acknowledgedfoundagain"), std::string::npos) << wide;
}

TEST_F(DemoScreen, without_style_there_is_nothing_but_ascii) {
    const std::string text = words(picture(scene, plain, 80)) + line(scene);

    EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) << text;
}

TEST_F(DemoScreen, colours_take_no_columns_and_marks_take_one) {
    EXPECT_EQ(columns_of("\x1b[31mred\x1b[0m"), 3u);
    EXPECT_EQ(columns_of("█░✓"), 3u);
}

TEST_F(DemoScreen, the_bar_is_as_long_when_everything_is_spent) {
    const auto budget_line = [&] { return picture(scene, plain, 80).at(2); };
    const std::size_t before = budget_line().size();

    books.spent = budget_limit.nanos();
    books.held = 0;

    EXPECT_EQ(budget_line().size(), before);
    EXPECT_NE(budget_line().find("100%"), std::string::npos);
}

}  // namespace
}  // namespace interlock::demo
