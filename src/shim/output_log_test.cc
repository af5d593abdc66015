#include "shim/output_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <random>

#include "shim/remove_tree.h"

namespace interlock::shim {
namespace {

class OutputLogTest : public testing::Test {
 protected:
    OutputLogTest() {
        std::string pattern = testing::TempDir() + "interlock_output_XXXXXX";
        directory_ = mkdtemp(pattern.data());
    }
    ~OutputLogTest() override { remove_tree(directory_); }

    std::string path() const { return directory_ + "/output"; }
    std::string content() const { return read_file(path()).value_or("nothing"); }

    std::string directory_;
};

// Each byte depends on its offset, so that one in the wrong place is seen.
std::string numbered(std::size_t bytes) {
    std::string text;
    for (std::size_t i = 0; text.size() < bytes; ++i) text += std::to_string(i) + '\n';
    text.resize(bytes);
    return text;
}

TEST_F(OutputLogTest, writes_to_no_link_and_no_fifo) {
    const std::string victim = directory_ + "/victim";
    ASSERT_EQ(symlink(victim.c_str(), path().c_str()), 0);
    OutputLog through_link(path(), 0);
    through_link.add("one\n");
    EXPECT_NE(access(victim.c_str(), F_OK), 0);
    EXPECT_NE(through_link.lost(), "");

    ASSERT_EQ(unlink(path().c_str()), 0);
    ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
    const Fd reader(open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    OutputLog through_fifo(path(), 0);
    through_fifo.add("one\n");
    char byte{};
    EXPECT_LE(read(reader.get(), &byte, 1), 0);
    EXPECT_NE(through_fifo.lost(), "");
}

TEST_F(OutputLogTest, KeepsEverythingWithoutABound) {
    OutputLog log(path(), 0);
    log.add("one\n");
    log.add(std::string(100'000, 'x'));
    EXPECT_EQ(content(), "one\n" + std::string(100'000, 'x'));
    EXPECT_EQ(log.end(), 100'004);
    EXPECT_EQ(log.hole_begin(), log.hole_end());
    EXPECT_EQ(log.lost(), "");
}

TEST_F(OutputLogTest, GoesOnWhereAnotherStopped) {
    OutputLog(path(), 0).add("one\n");
    OutputLog log(path(), 0);
    log.add("two\n");
    EXPECT_EQ(content(), "one\ntwo\n");
    EXPECT_EQ(log.end(), 8);
}

TEST_F(OutputLogTest, KeepsHeadAndTailAtTheirOffsetsWhateverTheParts) {
    const std::string text = numbered(2'000'000);
    std::mt19937 random(7);
    for (const std::int64_t bound : {1'000, 65'536, 300'000, 1'999'999}) {
        unlink(path().c_str());
        OutputLog log(path(), bound);
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t part = 1 + random() % 70'000;
            log.add(std::string_view(text).substr(at, part));
            at += part;
            // At every moment, not only in the end.
            ASSERT_LE(log.end() - (log.hole_end() - log.hole_begin()), bound);
        }
        const std::string kept = content();
        const auto begin = static_cast<std::size_t>(log.hole_begin()), end = static_cast<std::size_t>(log.hole_end());
        ASSERT_EQ(kept.size(), text.size());
        EXPECT_EQ(kept.substr(0, begin), text.substr(0, begin)) << bound;
        EXPECT_EQ(kept.substr(end), text.substr(end)) << bound;
        EXPECT_LE(log.hole_begin(), bound / 4);
        EXPECT_GE(log.hole_begin(), bound / 5);
        EXPECT_GE(log.end() - log.hole_end(), bound / 2) << bound;
    }
}

TEST_F(OutputLogTest, GivesTheMiddleBackToTheDisk) {
    constexpr std::int64_t bound = 1 << 20;
    OutputLog log(path(), bound);
    for (int i = 0; i < 1'000; ++i) log.add(std::string(64 << 10, 'x'));
    struct stat status{};
    ASSERT_EQ(stat(path().c_str(), &status), 0);
    if (log.lost() != "") GTEST_SKIP() << log.lost();
    EXPECT_EQ(status.st_size, 1'000 * (64 << 10));
    EXPECT_LE(status.st_blocks * 512, bound + (64 << 10));
}

TEST_F(OutputLogTest, WithoutAPlaceDropsAndCounts) {
    OutputLog log(directory_ + "/no/such/place", 0);
    log.add("12345");
    log.add("678");
    EXPECT_EQ(log.lost(), "8 bytes of output could not be kept: No such file or directory");
    EXPECT_EQ(log.end(), 0);
}

}  // namespace
}  // namespace interlock::shim
