#include "base/enum_names.h"

#include <gtest/gtest.h>
#include <boost/describe/enum.hpp>

namespace interlock {
namespace {

enum class Color { red, green, blue };
BOOST_DESCRIBE_ENUM(Color, red, green, blue)

enum class Sparse { low = -5, high = 90 };
BOOST_DESCRIBE_ENUM(Sparse, low, high)

TEST(EnumNamesTest, each_enumerator_has_its_name_and_is_found_by_it) {
    for (const Color color : {Color::red, Color::green, Color::blue}) {
        Color found = color == Color::red ? Color::blue : Color::red;
        ASSERT_TRUE(enum_from_name(enum_name(color), found));
        EXPECT_EQ(found, color);
    }
    EXPECT_EQ(enum_name(Color::green), "green");
}

TEST(EnumNamesTest, values_need_not_count_from_zero) {
    EXPECT_EQ(enum_name(Sparse::low), "low");
    EXPECT_EQ(enum_name(Sparse::high), "high");
    Sparse found = Sparse::low;
    EXPECT_TRUE(enum_from_name("high", found));
    EXPECT_EQ(found, Sparse::high);
}

TEST(EnumNamesTest, what_is_no_enumerator_has_no_name_and_changes_nothing) {
    EXPECT_EQ(enum_name(static_cast<Color>(3)), "");
    EXPECT_EQ(enum_name(static_cast<Sparse>(0)), "");
    Color found = Color::green;
    EXPECT_FALSE(enum_from_name("Green", found));
    EXPECT_FALSE(enum_from_name("", found));
    EXPECT_EQ(found, Color::green);
}

TEST(EnumNamesTest, names_are_listed_in_the_order_of_the_definition) {
    ASSERT_EQ(enum_names<Color>.size(), 3u);
    EXPECT_EQ(enum_names<Color>[0].name, "red");
    EXPECT_EQ(enum_names<Color>[2].name, "blue");
}

}  // namespace
}  // namespace interlock
