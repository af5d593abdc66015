#include <gtest/gtest.h>

#include <fmt/format.h>

#include "gateway/price_catalog.h"
#include "gateway/price_kinds.h"
#include "gateway/prices.h"

namespace interlock::gateway {
namespace {

TEST(PriceJson, a_price_is_read_in_dollars_per_million_tokens) {
    const auto price = price_from_json(R"({
        "provider": "acme", "model": "big-*", "input_per_mtok": "3", "output_per_mtok": "15.00",
        "cache_read_per_mtok": "0.300000", "per_call": "0.000000000001",
        "tiers": [{"from_prompt_tokens": 200000, "input_per_mtok": "6", "output_per_mtok": "22.5",
                   "cache_read_per_mtok": "0.6"}],
        "variants": {"batch": {"input_per_mtok": "1.5", "output_per_mtok": "7.5", "cache_read_per_mtok": "0.15",
                               "per_call": "0"}},
        "input_max": 1000000, "output_max": 64000})");

    ASSERT_TRUE(price.has_value()) << to_sentence(price.error());
    const Rates base{.input = 3'000'000, .output = 15'000'000, .cache_read = 300'000, .per_call = 1};
    const Rates tier{.input = 6'000'000, .output = 22'500'000, .cache_read = 600'000, .per_call = 1};
    const Rates batch{.input = 1'500'000, .output = 7'500'000, .cache_read = 150'000};
    EXPECT_EQ(*price, (ModelPrice{.provider = "acme",
                                  .model = "big-*",
                                  .tiers = {{0, base}, {200'000, tier}},
                                  .variants = {{"batch", {{0, batch}}}},
                                  .input_max = 1'000'000,
                                  .output_max = 64'000}));
}

TEST(PriceJson, what_is_written_reads_as_the_same) {
    for (const PriceCatalog::Row& row : PriceCatalog::carried().rows()) {
        for (const auto& entry : row.prices) {
            const auto again = price_from_json(to_json(entry.price));
            ASSERT_TRUE(again.has_value()) << to_sentence(again.error()) << to_json(entry.price);
            EXPECT_EQ(*again, entry.price);
        }
    }
    // Fees that a tier does without.
    const ModelPrice price{.tiers = {{0, {.per_call = 5}}, {10, {}}}, .variants = {{"flex", {{0, {}}, {9, {}}}}}};
    EXPECT_EQ(price_from_json(to_json(price)).value(), price);
}

TEST(PriceJson, amounts_are_written_with_two_decimals_or_more) {
    EXPECT_EQ(to_json({.provider = "p",
                       .model = "m",
                       .version = "set-1",
                       .tiers = {{0, {.input = 3'000'000, .output = 1, .per_paid_tool = 10'000'000'000}}}}),
              R"({"provider":"p","model":"m","version":"set-1","input_per_mtok":"3.00","output_per_mtok":"0.000001",)"
              R"("per_paid_tool":"0.01","input_max":0,"output_max":0,"image_max":0})");
}

TEST(PriceJson, what_is_wrong_is_named) {
    const auto error = [](std::string_view more) {
        const auto read = price_from_json(fmt::format(R"({{"output_per_mtok": "1"{}}})", more));
        return read ? std::string("read") : to_sentence(read.error());
    };
    const std::string amount = R"( is not an amount of dollars such as "3.75", with at most 6 decimals)";

    EXPECT_EQ(to_sentence(price_from_json("[]").error()), "a price must be a JSON object");
    EXPECT_EQ(to_sentence(price_from_json("{").error()), "a price must be a JSON object");
    EXPECT_EQ(error(R"(, "input_per_mtok": "1")"), "read");
    EXPECT_EQ(error(""), "input_per_mtok is missing");
    EXPECT_EQ(error(R"(, "input_per_mtok": "1", "colour": 1)"), "colour is not a member of a price");
    EXPECT_EQ(error(R"(, "input_per_mtok": 1)"),
              R"(input_per_mtok must be a string, so that no digit is lost: "3.75")");
    for (const char* text : {"", ".5", "1.", "-1", "1e3", "0.1234567", "99999999999999999999", " 1", "1,5", "+1"}) {
        EXPECT_EQ(error(fmt::format(R"(, "input_per_mtok": "{}")", text)), "input_per_mtok" + amount) << text;
    }
    const std::string good = R"(, "input_per_mtok": "1", "cache_read_per_mtok": "1")";
    EXPECT_EQ(error(good + R"(, "input_max": -1)"), "input_max must be a whole number of tokens");
    EXPECT_EQ(error(good + R"(, "output_max": 1.5)"), "output_max must be a whole number of tokens");
    EXPECT_EQ(error(good + R"(, "model": 7)"), "model must be a string of at most 256 bytes");
    EXPECT_EQ(error(good + R"(, "tiers": {})"), "tiers must be an array");
    EXPECT_EQ(error(good + R"(, "tiers": [1])"), "tiers[0] must be an object with prices");
    EXPECT_EQ(error(good + R"(, "tiers": [{"input_per_mtok": "1"}])"), "tiers[0].from_prompt_tokens is missing");
    EXPECT_EQ(error(good + R"(, "tiers": [{"from_prompt_tokens": 0}])"),
              "tiers[0].from_prompt_tokens must be more than that of the tier before");
    const std::string tier = R"(, "tiers": [{"from_prompt_tokens": 5, "input_per_mtok": "1", "output_per_mtok": "1")";
    EXPECT_EQ(error(good + tier + "}]"), "tiers[0].cache_read_per_mtok is missing");
    EXPECT_EQ(error(good + tier + R"(, "tiers": []}])"), "tiers[0].tiers is not a price");
    EXPECT_EQ(error(good + R"(, "variants": [])"), R"(variants must be an object: {"batch": {…}})");
    EXPECT_EQ(error(good + R"(, "variants": {"Batch": {}})"),
              "variants.Batch is not a name of up to 16 small letters, digits, '-' and '_'");
    EXPECT_EQ(error(good + R"(, "variants": {"batch": 1})"), "variants.batch must be an object with prices");
    EXPECT_EQ(error(good + R"(, "variants": {"batch": {"variants": 1}})"), "variants.batch.variants is not a price");
    EXPECT_EQ(error(good + R"(, "variants": {"batch": {"input_per_mtok": "1"}})"),
              "variants.batch.output_per_mtok is missing");
}

TEST(PriceKinds, picos_and_text_are_exact_both_ways) {
    EXPECT_EQ(picos_from_text("3.75", 6), 3'750'000);
    EXPECT_EQ(picos_from_text("0.000001", 6), 1);
    EXPECT_EQ(picos_from_text("9223372036854.775807", 6), INT64_MAX);
    EXPECT_EQ(picos_from_text("9223372036854.775808", 6), std::nullopt);
    for (const std::int64_t picos : {std::int64_t{0}, std::int64_t{1}, std::int64_t{999'999}, std::int64_t{1'000'000},
                                     std::int64_t{12'345'678'901}, INT64_MAX}) {
        for (const int decimals : {6, 12}) EXPECT_EQ(picos_from_text(text_of_picos(picos, decimals), decimals), picos);
    }
    EXPECT_EQ(text_of_picos(0, 6), "0.00");
    EXPECT_EQ(text_of_picos(500'000, 6), "0.50");
    EXPECT_EQ(text_of_picos(1, 12), "0.000000000001");
}

}  // namespace
}  // namespace interlock::gateway
