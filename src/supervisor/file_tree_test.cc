#include "supervisor/file_tree.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/worktrees_test_support.h"

namespace interlock::supervisor {
namespace {

namespace fs = std::filesystem;

class FileTreeTest : public WorktreesTest {
 protected:
    FileTreeTest() : from_(root_ + "/from"), to_(root_ + "/to") {
        fs::create_directories(from_);
        fs::create_directories(to_);
    }

    std::string from_;
    std::string to_;
};

TEST_F(FileTreeTest, a_file_with_holes_is_copied_with_its_holes) {
    write(from_ + "/big", "head");
    fs::resize_file(from_ + "/big", 64 << 20);
    std::ofstream(from_ + "/big", std::ios::binary | std::ios::app) << "tail";
    std::uint64_t bytes_left = 1 << 20;

    const auto copied = copy_file(from_, to_, "big", bytes_left);

    ASSERT_TRUE(copied) << copied.error();
    EXPECT_EQ(content(to_ + "/big"), content(from_ + "/big"));
    struct stat status{};
    EXPECT_EQ(stat((to_ + "/big").c_str(), &status), 0);
    EXPECT_LT(status.st_blocks * 512, 1 << 20);
    EXPECT_LT(bytes_left, 1u << 20);
}

TEST_F(FileTreeTest, no_more_bytes_are_copied_than_may_be) {
    write(from_ + "/one", std::string(200'000, 'x'));
    write(from_ + "/two", std::string(200'000, 'x'));
    std::uint64_t bytes_left = 300'000;

    EXPECT_TRUE(copy_file(from_, to_, "one", bytes_left));
    const auto second = copy_file(from_, to_, "two", bytes_left);

    ASSERT_FALSE(second);
    EXPECT_NE(second.error().find("too many bytes"), std::string::npos);
    EXPECT_LE(bytes_left, 100'000u);
}

TEST_F(FileTreeTest, pipes_are_not_waited_for) {
    ASSERT_EQ(mkfifo((from_ + "/pipe").c_str(), 0600), 0);
    std::uint64_t bytes_left = 1000;

    EXPECT_FALSE(read_file(from_ + "/pipe"));
    EXPECT_FALSE(copy_within(from_, "pipe", "copy"));
    EXPECT_EQ(copy_file(from_, to_, "pipe", bytes_left), false);
}

TEST_F(FileTreeTest, a_link_leads_nothing_out_of_a_directory) {
    const std::string victim = root_ + "/victim";
    write(victim, "precious");
    for (const char* name : {"/link", "/file.new", "/copy"}) fs::create_symlink(victim, from_ + name);
    write(from_ + "/real", "x");

    EXPECT_FALSE(read_file(from_ + "/link"));
    EXPECT_FALSE(copy_within(from_, "link", "other"));
    EXPECT_FALSE(copy_within(from_, "real", "copy"));
    EXPECT_TRUE(write_file_durably(from_ + "/file", "new"));

    EXPECT_EQ(content(from_ + "/file"), "new");
    EXPECT_EQ(content(victim), "precious");
}

}  // namespace
}  // namespace interlock::supervisor
