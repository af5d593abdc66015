#include "base/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

namespace interlock {
namespace codec_test {

using namespace std::string_literals;
using namespace std::string_view_literals;
using Count = Strong<struct CountTag, std::int64_t>;
using Key = Strong<struct KeyTag, Id>;

enum class Color { red, green, blue = 9 };
BOOST_DESCRIBE_ENUM(Color, red, green, blue)

struct Point {
    std::int32_t x = 0;
    std::int32_t y = 0;
    friend bool operator==(const Point&, const Point&) = default;
};
BOOST_DESCRIBE_STRUCT(Point, (), (x, y))

struct Nothing {
    friend bool operator==(const Nothing&, const Nothing&) = default;
};
BOOST_DESCRIBE_STRUCT(Nothing, (), ())

// Every form there is, with defaults that are not zeros, so that a member left alone can be told from one read.
struct Everything {
    bool flag = true;
    Color color = Color::green;
    std::int32_t small = -5;
    std::uint32_t unsigned_small = 5;
    std::int64_t large = -7;
    std::uint64_t unsigned_large = 7;
    std::string text = "default";
    Instant at = from_micros(11);
    Money money = Money::nanos(13);
    Id id{.high = 17, .low = 19};
    Count count{23};
    Key key{Id{.high = 29, .low = 31}};
    std::optional<std::int64_t> maybe = 37;
    std::vector<Point> points = {{.x = 41, .y = 43}};
    std::map<std::string, std::string> tags = {{"k", "v"}};
    std::variant<Nothing, Point, std::string> one_of = Point{.x = 47, .y = 53};
    std::optional<Point> place = Point{.x = 59, .y = 61};
    Point last{.x = 67, .y = 71};
    friend bool operator==(const Everything&, const Everything&) = default;
};
BOOST_DESCRIBE_STRUCT(Everything, (),
                      (flag, color, small, unsigned_small, large, unsigned_large, text, at, money, id, count, key,
                       maybe, points, tags, one_of, place, last))

// The same struct before its last members were added.
struct Before {
    bool flag = false;
    Color color = Color::red;
    std::int32_t small = 0;
};
BOOST_DESCRIBE_STRUCT(Before, (), (flag, color, small))

Everything any(std::mt19937_64& random) {
    const auto number = [&] { return random() >> (random() % 64); };
    const auto text = [&] {
        std::string bytes(random() % 4 == 0 ? random() % 300 : random() % 6, '\0');
        for (char& c : bytes) c = static_cast<char>(random());
        return bytes;
    };
    const auto point = [&] {
        return Point{.x = static_cast<std::int32_t>(number()), .y = static_cast<std::int32_t>(random())};
    };
    Everything value;
    value.flag = random() % 2 == 0;
    value.color = std::array{Color::red, Color::green, Color::blue}[random() % 3];
    value.small = static_cast<std::int32_t>(number());
    value.unsigned_small = static_cast<std::uint32_t>(number());
    value.large = static_cast<std::int64_t>(number()) * (random() % 2 ? 1 : -1);
    value.unsigned_large = number();
    value.text = text();
    value.at = from_micros(static_cast<std::int64_t>(random()));
    value.money = Money::nanos(static_cast<std::int64_t>(random()));
    value.id = {.high = random(), .low = random()};
    value.count = Count(static_cast<std::int64_t>(number()));
    value.key = Key(Id{.high = random(), .low = random()});
    value.maybe = random() % 2 ? std::optional(static_cast<std::int64_t>(random())) : std::nullopt;
    value.points.clear();
    for (auto i = random() % 5; i > 0; --i) value.points.push_back(point());
    value.tags.clear();
    for (auto i = random() % 5; i > 0; --i) value.tags[text()] = text();
    switch (random() % 3) {
        case 0:
            value.one_of = Nothing{};
            break;
        case 1:
            value.one_of = point();
            break;
        default:
            value.one_of = text();
    }
    value.place = random() % 2 ? std::optional(point()) : std::nullopt;
    value.last = point();
    return value;
}

// Copies the first `count` members over a value that has its defaults.
Everything first_members(const Everything& from, std::size_t count) {
    Everything value;
    std::size_t index = 0;
    boost::mp11::mp_for_each<codec_detail::MembersOf<Everything>>([&](auto member) {
        if (index++ < count) value.*member.pointer = from.*member.pointer;
    });
    return value;
}

// Where each member's bytes end.
std::vector<std::size_t> member_ends(const Everything& value) {
    std::vector<std::size_t> ends;
    std::string bytes;
    Encoder encoder(bytes);
    boost::mp11::mp_for_each<codec_detail::MembersOf<Everything>>([&](auto member) {
        encoder.put(value.*member.pointer);
        ends.push_back(bytes.size());
    });
    return ends;
}

TEST(Codec, the_form_of_every_kind_is_fixed) {
    EXPECT_EQ(encode(true), "\x01"sv);
    EXPECT_EQ(encode(Color::blue), "\x09"sv);
    EXPECT_EQ(encode(std::uint32_t{127}), "\x7F"sv);
    EXPECT_EQ(encode(std::uint32_t{128}), "\x80\x01"sv);
    EXPECT_EQ(encode(std::uint64_t{300}), "\xAC\x02"sv);
    EXPECT_EQ(encode(std::uint64_t{UINT64_MAX}), "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"sv);
    EXPECT_EQ(encode(std::int64_t{0}), "\0"sv);
    EXPECT_EQ(encode(std::int64_t{-1}), "\x01"sv);
    EXPECT_EQ(encode(std::int64_t{1}), "\x02"sv);
    EXPECT_EQ(encode(std::int32_t{-64}), "\x7F"sv);
    EXPECT_EQ(encode(std::string("hi")), "\x02hi"sv);
    EXPECT_EQ(encode(from_micros(2)), "\x04"sv);
    EXPECT_EQ(encode(Money::nanos(-2)), "\x03"sv);
    EXPECT_EQ(encode(Id{.high = 0x0102030405060708, .low = 0x090A0B0C0D0E0F10}),
              "\x01\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0A\x0B\x0C\x0D\x0E\x0F\x10"sv);
    EXPECT_EQ(encode(Id()), "\0"sv);
    EXPECT_EQ(encode(Count(3)), "\x06"sv);
    EXPECT_EQ(encode(std::optional<std::int64_t>()), "\0"sv);
    EXPECT_EQ(encode(std::optional<std::int64_t>(3)), "\x01\x06"sv);
    EXPECT_EQ(encode(std::vector<std::int32_t>{1, 2}), "\x02\x02\x04"sv);
    EXPECT_EQ(encode(std::map<std::string, std::string>{{"b", "2"}, {"a", ""}}),
              "\x02\x01"
              "a\0\x01"
              "b\x01"
              "2"sv);
    EXPECT_EQ(encode(std::variant<Nothing, Point>(Point{.x = 1, .y = -1})), "\x01\x02\x01"sv);
    EXPECT_EQ(encode(Nothing{}), "");
}

TEST(Codec, numbers_come_back_up_to_both_ends_of_their_type) {
    const auto comes_back = [](auto number) { return decode<decltype(number)>(encode(number)) == number; };
    EXPECT_TRUE(comes_back(std::int64_t{INT64_MIN}) && comes_back(std::int64_t{INT64_MAX}));
    EXPECT_TRUE(comes_back(std::int32_t{INT32_MIN}) && comes_back(std::int32_t{INT32_MAX}));
    EXPECT_TRUE(comes_back(std::uint64_t{UINT64_MAX}) && comes_back(std::uint32_t{UINT32_MAX}));
    EXPECT_TRUE(comes_back(Money::nanos(INT64_MIN)) && comes_back(from_micros(INT64_MAX)));
    for (unsigned bit = 0; bit < 64; ++bit) {
        const std::uint64_t power = std::uint64_t{1} << bit;
        for (const std::uint64_t number : {power - 1, power, power + 1, ~power}) {
            ASSERT_TRUE(comes_back(number)) << number;
            ASSERT_TRUE(comes_back(static_cast<std::int64_t>(number))) << number;
            ASSERT_TRUE(comes_back(static_cast<std::int32_t>(number))) << number;
        }
    }
}

TEST(Codec, every_value_comes_back_as_it_was) {
    std::mt19937_64 random(5);
    EXPECT_EQ(decode<Everything>(encode(Everything{})), Everything{});
    for (int i = 0; i < 20'000; ++i) {
        const Everything value = any(random);
        ASSERT_EQ(decode<Everything>(encode(value)), value) << "round " << i;
    }
}

TEST(Codec, a_decoded_value_keeps_nothing_of_what_was_there_before) {
    Everything value;
    value.points.assign(9, {.x = 1, .y = 1});
    value.tags = {{"old", "old"}};
    Everything other;
    other.maybe.reset();
    other.place.reset();
    other.points.clear();
    other.tags.clear();
    const std::string bytes = encode(other);

    ASSERT_TRUE(Decoder(bytes).get(value));

    EXPECT_EQ(value, other);
}

TEST(Codec, bytes_of_an_older_struct_leave_the_newer_members_at_their_defaults) {
    const auto value = decode<Everything>(encode(Before{.flag = false, .color = Color::blue, .small = 99}));

    ASSERT_TRUE(value);
    Everything expected;
    expected.flag = false;
    expected.color = Color::blue;
    expected.small = 99;
    EXPECT_EQ(*value, expected);
    EXPECT_EQ(decode<Everything>(""), Everything{});
}

TEST(Codec, bytes_cut_off_at_any_length_are_refused_or_end_between_two_members) {
    std::mt19937_64 random(6);
    std::size_t refused = 0;
    for (int i = 0; i < 300; ++i) {
        const Everything value = any(random);
        const std::string bytes = encode(value);
        const std::vector<std::size_t> ends = member_ends(value);
        ASSERT_EQ(ends.back(), bytes.size());
        for (std::size_t length = 0; length < bytes.size(); ++length) {
            const std::string cut = bytes.substr(0, length);  // A string of its own, so that reading past it is seen.
            const auto decoded = decode<Everything>(cut);

            const auto complete =
                static_cast<std::size_t>(std::ranges::count_if(ends, [&](auto e) { return e <= length; }));
            if (length == 0 || ends[complete - 1] == length) {
                ASSERT_EQ(decoded, first_members(value, complete)) << "round " << i << ", length " << length;
                continue;
            }
            // Inside a member. Where a struct in it is cut between its own members, the rest of that struct is at its
            // defaults; what came before is as it was, what comes after is at its defaults.
            if (!decoded) {
                ++refused;
                continue;
            }
            Everything rest = *decoded;
            std::size_t index = 0;
            boost::mp11::mp_for_each<codec_detail::MembersOf<Everything>>([&](auto member) {
                if (index++ == complete) rest.*member.pointer = Everything{}.*member.pointer;
            });
            ASSERT_EQ(rest, first_members(value, complete)) << "round " << i << ", length " << length;
        }
    }
    EXPECT_GT(refused, 10'000u);
}

TEST(Codec, an_element_that_is_announced_and_not_there_is_refused) {
    using List = std::vector<std::int32_t>;
    using Map = std::map<std::string, std::string>;
    EXPECT_FALSE(decode<List>("\x01"sv));
    EXPECT_FALSE(decode<List>("\x02\x02"sv));
    EXPECT_FALSE(decode<Map>("\x01"sv));
    EXPECT_FALSE(
        decode<Map>("\x01\x01"
                    "a"sv));
    EXPECT_FALSE(decode<std::optional<std::int32_t>>("\x01"sv));
    EXPECT_FALSE(
        decode<std::string>("\x02"
                            "a"sv));
    EXPECT_FALSE(decode<Id>("\x01\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0A\x0B\x0C\x0D\x0E\x0F"sv));
    EXPECT_FALSE(decode<Id>("\x01\x01\x02\x03\x04\x05\x06\x07\x08"sv));
    EXPECT_FALSE(decode<Id>("\x01"sv));
    EXPECT_FALSE(decode<std::uint64_t>("\x80"sv));
}

TEST(Codec, a_length_past_the_end_is_refused_without_being_believed) {
    const std::string huge = encode(std::uint64_t{UINT64_MAX}) + "abc";
    EXPECT_FALSE(decode<std::string>(huge));
    EXPECT_FALSE(decode<std::vector<std::string>>(huge));
    EXPECT_FALSE((decode<std::map<std::string, std::string>>(huge)));
    EXPECT_FALSE(decode<std::string>(encode(std::uint64_t{4}) + "abc"));
    EXPECT_TRUE(decode<std::string>(encode(std::uint64_t{3}) + "abc"));
}

TEST(Codec, bytes_left_over_are_refused) {
    EXPECT_FALSE(decode<bool>("\x01\x00"sv));
    EXPECT_FALSE(decode<Everything>(encode(Everything{}) + "\0"s));
    EXPECT_FALSE(decode<Nothing>("\0"sv));
    EXPECT_FALSE(decode<Before>(encode(Everything{}))) << "newer bytes are not read as an older struct";
}

TEST(Codec, what_no_encoder_writes_is_refused) {
    for (int byte = 0; byte < 256; ++byte) {
        const std::string bytes(1, static_cast<char>(byte));
        EXPECT_EQ(decode<bool>(bytes).has_value(), byte <= 1) << byte;
        EXPECT_EQ(decode<Color>(bytes).has_value(), byte == 0 || byte == 1 || byte == 9) << byte;
        EXPECT_EQ((decode<std::variant<Nothing, Nothing>>(bytes).has_value()), byte <= 1) << byte;
    }
    EXPECT_FALSE(decode<Id>("\x01" + std::string(16, '\0'))) << "the empty id is one byte";
    // More than the type holds.
    EXPECT_FALSE(decode<std::int32_t>(encode(std::int64_t{INT32_MAX} + 1)));
    EXPECT_FALSE(decode<std::int32_t>(encode(std::int64_t{INT32_MIN} - 1)));
    EXPECT_FALSE(decode<std::uint32_t>(encode(std::uint64_t{UINT32_MAX} + 1)));
    EXPECT_FALSE(decode<std::uint64_t>("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02"sv));
    EXPECT_FALSE(decode<std::uint64_t>("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x81\x00"sv));
    // A longer form of a number that has a shorter one.
    EXPECT_FALSE(decode<std::uint64_t>("\x80\x00"sv));
    EXPECT_FALSE(decode<std::uint64_t>("\xFF\x80\x00"sv));
}

TEST(Codec, a_map_whose_keys_do_not_rise_is_refused) {
    using Map = std::map<std::string, std::string>;
    EXPECT_EQ(decode<Map>("\x02\x01\x61\x01\x31\x01\x62\x01\x32"sv), (Map{{"a", "1"}, {"b", "2"}}));

    EXPECT_FALSE(decode<Map>("\x02\x01\x62\x01\x32\x01\x61\x01\x31"sv)) << "out of order";
    EXPECT_FALSE(decode<Map>("\x02\x01\x61\x01\x31\x01\x61\x01\x32"sv)) << "the same key twice";
}

TEST(Codec, no_bytes_whatever_make_it_crash_and_what_it_takes_it_gives_back) {
    std::mt19937_64 random(8);
    int taken = 0;
    for (int i = 0; i < 100'000; ++i) {
        std::string bytes;
        if (i % 2 == 0) {
            // Damage to good bytes gets further in than noise does.
            bytes = encode(any(random));
            for (auto flips = 1 + random() % 3; flips > 0; --flips) {
                bytes[random() % bytes.size()] = static_cast<char>(random() >> (random() % 8));
            }
        } else {
            bytes.resize(random() % 120);
            for (char& c : bytes) c = static_cast<char>(random() >> (56 + random() % 8));
        }

        const auto value = decode<Everything>(bytes);
        if (!value) continue;
        ++taken;
        ASSERT_EQ(decode<Everything>(encode(*value)), *value);
    }
    EXPECT_GT(taken, 1'000) << "the loop is to meet bytes of both kinds";
    EXPECT_LT(taken, 90'000);
}

}  // namespace codec_test
}  // namespace interlock
