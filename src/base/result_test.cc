#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace interlock {
namespace {

struct Refusal {
    enum class Kind { odd, too_large };
    Kind kind;
    std::string detail;
};

Result<int, Refusal> half(int number) {
    if (number % 2 != 0) return fail(Refusal{.kind = Refusal::Kind::odd, .detail = "no half"});
    return number / 2;
}

Result<void, Refusal> check_even(int number) {
    const auto halved = half(number);
    if (!halved) return fail(halved.error());
    return {};
}

TEST(Result, is_a_value_or_the_reason_there_is_none) {
    const auto value = half(8);
    const auto reason = half(7);

    ASSERT_TRUE(value);
    EXPECT_EQ(*value, 4);
    ASSERT_FALSE(reason);
    EXPECT_EQ(reason.error().kind, Refusal::Kind::odd);
    EXPECT_EQ(reason.error().detail, "no half");
}

TEST(Result, of_nothing_is_success_or_the_reason) {
    EXPECT_TRUE(check_even(2));
    ASSERT_FALSE(check_even(3));
    EXPECT_EQ(check_even(3).error().detail, "no half");
}

TEST(Result, an_error_of_the_values_own_type_is_still_an_error) {
    const auto give = [](bool ok) -> Result<std::string, std::string> {
        if (!ok) return fail(std::string("bad"));
        return std::string("good");
    };

    EXPECT_EQ(give(true).value(), "good");
    EXPECT_FALSE(give(false));
    EXPECT_EQ(give(false).error(), "bad");
}

TEST(Result, hands_on_what_can_only_be_moved) {
    const auto make = []() -> Result<std::unique_ptr<int>, Refusal> { return std::make_unique<int>(5); };
    auto made = make();
    ASSERT_TRUE(made);

    const std::unique_ptr<int> owned = std::move(*made);

    EXPECT_EQ(*owned, 5);
}

TEST(Result, is_copied_and_assigned_whole) {
    auto result = half(8);
    const auto copy = result;
    result = half(7);

    EXPECT_EQ(*copy, 4);
    EXPECT_FALSE(result);
    result = copy;
    EXPECT_EQ(*result, 4);
}

}  // namespace
}  // namespace interlock
