#include "api/wire.h"

#include <gtest/gtest.h>

#include <array>

namespace interlock::api {
namespace {

enum class Colour { red, green };
BOOST_DESCRIBE_ENUM(Colour, red, green)

struct Inner {
    std::int64_t count = 0;
    friend bool operator==(const Inner&, const Inner&) = default;
};
BOOST_DESCRIBE_STRUCT(Inner, (), (count))

struct Sample {
    static constexpr std::array required{"name"};
    std::string name;
    Money cost;
    core::RunId run;
    Colour colour = Colour::red;
    bool on = false;
    std::int32_t small = 0;
    core::Tags tags;
    std::vector<Inner> inner;
    std::optional<std::string> note;
    JsonText extra;
    friend bool operator==(const Sample&, const Sample&) = default;
};
BOOST_DESCRIBE_STRUCT(Sample, (), (name, cost, run, colour, on, small, tags, inner, note, extra))

Result<Sample, BadMember> read(std::string_view text) { return from_json<Sample>(json::parse(text)); }

TEST(WireTest, what_is_written_reads_back_equal) {
    const Sample before{.name = "a \"quoted\"\n\x01 name",
                        .cost = Money::nanos(750'000),
                        .run = core::RunId(Id{1, 2}),
                        .colour = Colour::green,
                        .on = true,
                        .small = -5,
                        .tags = {{"team", "core"}},
                        .inner = {{1}, {2}},
                        .note = "there",
                        .extra = {R"({"deep":[1,2,{"x":null}]})"}};

    const auto after = read(to_json(before));

    ASSERT_TRUE(after.has_value()) << after.error().pointer << ": " << after.error().detail;
    EXPECT_EQ(*after, before);
}

TEST(WireTest, what_may_be_left_out_keeps_its_default_and_null_means_left_out) {
    const auto sample = read(R"({"name": "x", "small": null, "note": null})");

    ASSERT_TRUE(sample.has_value());
    Sample expected;
    expected.name = "x";
    EXPECT_EQ(*sample, expected);
}

struct Wrong {
    const char* text;
    const char* pointer;
    const char* says;
};

TEST(WireTest, whatever_is_wrong_is_refused_with_the_place_and_the_reason) {
    for (const Wrong& wrong : {
             Wrong{R"({})", "/name", "is required"},
             Wrong{R"({"name": 5})", "/name", "must be a string"},
             Wrong{R"({"name": "x", "cost": 0.25})", "/cost", "must be a string, so that no digit is lost"},
             Wrong{R"({"name": "x", "cost": "1e3"})", "/cost", "not an amount"},
             Wrong{R"({"name": "x", "cost": "0.0000000001"})", "/cost", "nine decimals"},
             Wrong{R"({"name": "x", "run": "ses_00000000000000000000000001"})", "/run", "must be an id such as run_"},
             Wrong{R"({"name": "x", "colour": "blue"})", "/colour", "not one of: red, green"},
             Wrong{R"({"name": "x", "on": 1})", "/on", "true or false"},
             Wrong{R"({"name": "x", "small": 3000000000})", "/small", "must be from"},
             Wrong{R"({"name": "x", "small": 1.5})", "/small", "whole number"},
             Wrong{R"({"name": "x", "tags": {"a/b": 1}})", "/tags/a~1b", "must be a string"},
             Wrong{R"({"name": "x", "inner": [{"count": 1}, {"count": "2"}]})", "/inner/1/count", "whole number"},
             Wrong{R"({"name": "x", "inner": {}})", "/inner", "must be an array"},
             Wrong{R"({"name": "x", "extra": []})", "/extra", "must be an object"},
             Wrong{R"({"name": "x", "nmae": "y"})", "/nmae", "is unknown"},
             Wrong{R"([1])", "", "must be an object"},
         }) {
        const auto sample = read(wrong.text);

        ASSERT_FALSE(sample.has_value()) << wrong.text;
        EXPECT_EQ(sample.error().pointer, wrong.pointer) << wrong.text;
        EXPECT_NE(sample.error().detail.find(wrong.says), std::string::npos)
            << wrong.text << " says: " << sample.error().detail;
    }
}

struct Renamed {
    static constexpr std::array new_names{NewName{.name = "wait_s", .member = "delay_s"}};
    std::int64_t delay_s = 0;
    std::int64_t other = 0;
};
BOOST_DESCRIBE_STRUCT(Renamed, (), (delay_s, other))

TEST(WireTest, a_renamed_member_is_read_by_either_name_and_written_by_both) {
    for (const char* text : {R"({"wait_s": 7})", R"({"delay_s": 7})", R"({"delay_s": 7, "wait_s": 7})",
                             R"({"delay_s": null, "wait_s": 7})", R"({"delay_s": 7, "wait_s": null})"}) {
        const auto read = from_json<Renamed>(json::parse(text));
        ASSERT_TRUE(read.has_value()) << text << read.error().detail;
        EXPECT_EQ(read->delay_s, 7) << text;
    }
    EXPECT_EQ(to_json(Renamed{7, 1}), R"({"delay_s":7,"other":1,"wait_s":7})");
    EXPECT_EQ(to_json(core::Retry{}), R"({"tries":1,"backoff_s":10,"backoff_max_s":600,"max_attempts":1})");
}

TEST(WireTest, two_names_of_a_member_with_different_values_are_refused) {
    const auto read = from_json<Renamed>(json::parse(R"({"delay_s": 7, "wait_s": 8})"));

    ASSERT_FALSE(read.has_value());
    EXPECT_EQ(read.error().pointer, "/wait_s");
    EXPECT_EQ(read.error().detail, "differs from delay_s, its former name; send only wait_s");
}

TEST(WireTest, instants_that_mean_never_and_ids_that_are_empty_are_null) {
    EXPECT_EQ(to_json(far_past), "null");
    EXPECT_EQ(to_json(far_future), "null");
    EXPECT_EQ(to_json(from_micros(1'500'000)), "\"1970-01-01T00:00:01.500000Z\"");
    EXPECT_EQ(to_json(core::RunId()), "null");
    EXPECT_EQ(to_json(Money::nanos(1)), "\"0.000000001\"");
}

TEST(WireTest, a_schema_names_every_member_and_what_is_required) {
    const json::value schema = schema_of<Sample>();

    EXPECT_EQ(schema.at("required"), json::parse(R"(["name"])"));
    EXPECT_EQ(schema.at("properties").as_object().size(), 10u);
    EXPECT_EQ(schema.at("properties").at("colour").at("enum"), json::parse(R"(["red", "green"])"));
    EXPECT_EQ(schema.at("properties").at("note").at("type"), json::parse(R"(["string", "null"])"));
}

TEST(WireTest, objects_of_numbers_are_read_written_and_described) {
    using Counts = std::map<std::string, std::int64_t>;
    const Counts counts{{"as", 0}, {"nofile", 1024}};

    EXPECT_EQ(to_json(counts), R"({"as":0,"nofile":1024})");
    EXPECT_EQ(*from_json<Counts>(json::parse(to_json(counts))), counts);
    EXPECT_EQ(from_json<Counts>(json::parse(R"({"nofile": "many"})")).error().pointer, "/nofile");
    EXPECT_EQ(from_json<Counts>(json::parse("[1]")).error().detail, "must be an object of numbers");
    EXPECT_EQ(schema_of<Counts>().at("additionalProperties").at("type").as_string(), "integer");
}

}  // namespace
}  // namespace interlock::api
