#include "cli/text_table.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "cli/cli_test_support.h"
#include "cli/text.h"
#include "cli/view.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

TextTable runs() {
    return {.columns = {{"RUN"},
                        {"SPENT", Align::decimal},
                        {"NODE", Align::left, Room::if_there_is},
                        {"REASON", Align::left, Room::shortened}},
            .rows = {{{"run_01jcq3w8y5"}, {"$12.50"}, {"build-1"}, {"the tests are red and nobody knows why"}},
                     {{"run_2"}, {"$0.00075"}, {"build-22"}, {"日本語"}}}};
}

std::size_t widest_line(const std::string& text) {
    std::size_t widest = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find('\n', at);
        widest = std::max(widest, display_width(std::string_view(text).substr(at, end - at)));
        at = end + 1;
    }
    return widest;
}

TEST(TextTable, columns_line_up_and_amounts_stand_on_their_point) {
    EXPECT_EQ(render(runs(), CliOutput{}),
              "RUN                 SPENT  NODE      REASON\n"
              "run_01jcq3w8y5  $12.50     build-1   the tests are red and nobody knows why\n"
              "run_2            $0.00075  build-22  日本語\n");
}

TEST(TextTable, a_narrow_terminal_shortens_free_text_first) {
    const std::string text = render(runs(), CliOutput{.width = 60});

    EXPECT_LE(widest_line(text), 60u);
    EXPECT_NE(text.find("run_01jcq3w8y5  $12.50"), std::string::npos);
    EXPECT_NE(text.find("build-22"), std::string::npos);
    EXPECT_NE(text.find("…"), std::string::npos);
}

TEST(TextTable, a_narrower_terminal_leaves_columns_out_but_never_cuts_ids_or_money) {
    const std::string text = render(runs(), CliOutput{.width = 40});
    EXPECT_LE(widest_line(text), 40u);
    EXPECT_EQ(text.find("NODE"), std::string::npos);
    EXPECT_NE(text.find("the tests ar…"), std::string::npos);

    const std::string narrowest = render(runs(), CliOutput{.width = 10});
    EXPECT_NE(narrowest.find("run_01jcq3w8y5  $12.50"), std::string::npos);
    EXPECT_NE(narrowest.find("$0.00075"), std::string::npos);
    EXPECT_EQ(narrowest.find("…"), std::string::npos);
}

TEST(TextTable, colours_change_no_widths) {
    TextTable table = runs();
    table.rows[0][0].style = Style::green;

    const std::string text = render(table, CliOutput{.styled = true});

    EXPECT_NE(text.find("\x1b[32mrun_01jcq3w8y5\x1b[0m  $12.50"), std::string::npos);
}

TEST(TextTable, details_line_up_and_indent_further_lines) {
    const std::vector<Detail> details{{"run", {"run_1"}}, {"places", {"/a\n/b"}}};

    EXPECT_EQ(render(details, CliOutput{}), "run     run_1\nplaces  /a\n        /b\n");
}

json::array budgets() {
    return json::parse(R"([
        {"name":"daily","metric":"usd","settled":"5.00","held":"1.00","limit":"10.00","frozen":null,"scope":{},
         "window":{"kind":"day","end":"2026-11-15T13:00:00Z"}},
        {"name":"tokens","metric":"tokens","settled":"125000","held":"0","limit":"1000000","frozen":null,
         "scope":{"agent":"coder","tags":{"team":"web"}},"window":{"kind":"total","end":null}}])")
        .get_array();
}

const View view{
    .id = "name",
    .columns = {{"NAME", "name", Format::id},
                {"USED", "", Format::bar},
                {"SETTLED", "settled", Format::amount},
                {"WINDOW", "", Format::window},
                {"SCOPE", "scope", Format::pairs},
                {"FROZEN", "frozen", Format::free_text}},
    .fields = {{"budget", "name", Format::id}, {"frozen", "frozen"}, {"resets", "window.end", Format::time}}};

TEST(View, amounts_are_dollars_or_counts_as_the_metric_says) {
    const std::string text = render(table_of(budgets(), view, CliOutput{}, noon), CliOutput{});

    EXPECT_EQ(text,
              "NAME    USED                       SETTLED  WINDOW              SCOPE\n"
              "daily   [##########==--------]       $5.00  day, resets in 1 h\n"
              "tokens  [###-----------------]  125,000     total               agent=coder tags.team=web\n");
}

TEST(View, a_column_without_a_word_is_left_out_unless_people_expect_it) {
    const View names{
        .columns = {{"NAME", "name", Format::id}, {"RUN", "run", Format::id}, {"NOTE", "note", Format::free_text}}};

    EXPECT_EQ(render(table_of(budgets(), names, CliOutput{}, noon), CliOutput{}), "NAME    RUN\ndaily\ntokens\n");
}

TEST(View, a_styled_bar_has_three_shades_and_the_same_width) {
    const CliOutput styled{.styled = true};
    const TextTable table = table_of(budgets(), view, styled, noon);

    EXPECT_EQ(display_width(table.rows[0][1].text), 20u);
    EXPECT_NE(table.rows[0][1].painted.find("█"), std::string::npos);
    EXPECT_NE(table.rows[0][1].painted.find("▓"), std::string::npos);
    EXPECT_NE(table.rows[0][1].painted.find("░"), std::string::npos);
}

TEST(View, details_leave_out_what_is_not_set_and_tell_times_both_ways) {
    const std::string text = render(details_of(budgets()[0].get_object(), view, CliOutput{}, noon), CliOutput{});

    EXPECT_EQ(text, "budget  daily\nresets  in 1 h  (2026-11-15T13:00:00Z)\n");
}

}  // namespace
}  // namespace interlock::cli
