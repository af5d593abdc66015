#include "base/nearest.h"

#include <gtest/gtest.h>

namespace interlock {
namespace {

TEST(Nearest, the_nearest_word_is_named_only_when_it_is_near) {
    const std::vector<std::string> verbs{"ls", "show", "put", "pause", "resume", "rm"};

    EXPECT_EQ(nearest("lst", verbs), "ls");
    EXPECT_EQ(nearest("shwo", verbs), "show");
    EXPECT_EQ(nearest("pau", verbs), "pause");
    EXPECT_EQ(nearest("elephant", verbs), std::nullopt);
    EXPECT_EQ(nearest("x", verbs), std::nullopt);
}

}  // namespace
}  // namespace interlock
