#include "supervisor/run_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace interlock::supervisor {
namespace {

namespace fs = std::filesystem;

class RunLogTest : public testing::Test {
 protected:
    RunLogTest() {
        std::string pattern = testing::TempDir() + "/run_log_XXXXXX";
        home = ::mkdtemp(pattern.data());
    }
    ~RunLogTest() override { fs::remove_all(home); }

    void write(const std::string& text) { std::ofstream(home + "/output", std::ios::binary) << text; }
    LogPart part(std::int64_t offset, std::int64_t limit = 1'000) {
        const auto read = read_log(home, offset, limit);
        EXPECT_TRUE(read && *read);
        return read && *read ? **read : LogPart{};
    }

    std::string home;
};

TEST_F(RunLogTest, what_was_not_kept_is_no_error) {
    const auto read = read_log(home, 0, 10);

    ASSERT_TRUE(read);
    EXPECT_FALSE(*read);
}

TEST_F(RunLogTest, an_offset_counts_from_the_beginning_or_from_the_end) {
    write("0123456789");

    EXPECT_EQ(part(3, 4).bytes, "3456");
    EXPECT_EQ(part(-3).bytes, "789");
    EXPECT_EQ(part(-3).offset, 7);
    EXPECT_EQ(part(-30).bytes, "0123456789");
    EXPECT_EQ(part(30).bytes, "");
    EXPECT_EQ(part(30).offset, 10);
    EXPECT_EQ(part(INT64_MIN).offset, 0);
    EXPECT_EQ(part(INT64_MAX).offset, 10);
}

TEST_F(RunLogTest, reading_goes_on_behind_what_was_given_up) {
    constexpr std::int64_t block = 64 << 10;
    write(std::string(block, 'a') + std::string(block, 'b') + std::string(block, 'c'));
    const int file = ::open((home + "/output").c_str(), O_RDWR | O_CLOEXEC);
    const bool punched = ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, block, block) == 0;
    ::close(file);
    if (!punched) GTEST_SKIP() << "this file system has no holes";

    EXPECT_EQ(part(block - 2, 10).bytes, "aa");
    const LogPart behind = part(block + 5, 3);
    EXPECT_EQ(behind.bytes, "ccc");
    EXPECT_EQ(behind.offset, 2 * block);
    EXPECT_EQ(behind.hole_begin, block);
    EXPECT_EQ(behind.hole_end, 2 * block);
}

TEST_F(RunLogTest, what_is_no_file_is_not_read_and_not_waited_for) {
    ASSERT_EQ(::mkfifo((home + "/output").c_str(), 0600), 0);
    EXPECT_FALSE(read_log(home, 0, 10));

    fs::remove(home + "/output");
    fs::create_symlink("/etc/passwd", home + "/output");
    EXPECT_FALSE(read_log(home, 0, 10));
}

}  // namespace
}  // namespace interlock::supervisor
