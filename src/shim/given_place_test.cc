#include "shim/given_place.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>

namespace interlock::shim {
namespace {

namespace fs = std::filesystem;

class GivenPlaceTest : public testing::Test {
 protected:
    GivenPlaceTest() {
        std::string name = fs::canonical(testing::TempDir()).string() + "/given_XXXXXX";
        EXPECT_NE(mkdtemp(name.data()), nullptr);
        root_ = name;
        fs::create_directory(root_ + "/q");
        fs::create_directory(root_ + "/third");
        given_ = opened(root_ + "/q");
        launch_.dir = root_ + "/q";
        launch_.place = given_.get();
        before_ = fs::current_path();
    }
    ~GivenPlaceTest() override {
        fs::current_path(before_);
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }
    static Fd opened(const std::string& path) { return Fd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)); }

    std::string root_;
    Fd given_;
    LaunchRequest launch_;
    fs::path before_;
};

TEST_F(GivenPlaceTest, a_directory_that_is_the_given_one_is_entered) {
    EXPECT_TRUE(enter_given(launch_));
    EXPECT_EQ(fs::current_path(), root_ + "/q");
}

TEST_F(GivenPlaceTest, another_directory_at_the_path_is_refused) {
    fs::rename(root_ + "/q", root_ + "/old");
    fs::create_directory_symlink(root_ + "/third", root_ + "/q");

    EXPECT_FALSE(enter_given(launch_));
    EXPECT_EQ(errno, ESTALE);
    EXPECT_FALSE(is_given(launch_, opened(root_ + "/q")));
    EXPECT_TRUE(is_given(launch_, opened(root_ + "/old")));
}

TEST_F(GivenPlaceTest, a_path_that_leads_nowhere_is_not_entered) {
    fs::remove(root_ + "/q");

    EXPECT_FALSE(enter_given(launch_));
    EXPECT_EQ(errno, ENOENT);
}

TEST_F(GivenPlaceTest, where_none_was_given_the_path_is_taken) {
    launch_.place = -1;
    launch_.dir = root_ + "/third";

    EXPECT_TRUE(enter_given(launch_));
    EXPECT_EQ(fs::current_path(), root_ + "/third");
}

}  // namespace
}  // namespace interlock::shim
