#include "shim/state.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "shim/fd.h"
#include "shim/remove_tree.h"

namespace interlock::shim {
namespace {

class StateTest : public testing::Test {
 protected:
    StateTest() {
        std::string pattern = testing::TempDir() + "interlock_state_XXXXXX";
        directory_ = mkdtemp(pattern.data());
    }
    ~StateTest() override { remove_tree(directory_); }

    void write_file(const std::string& text) {
        const Fd file(open((directory_ + "/state").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
        ASSERT_TRUE(write_all(file.get(), text));
    }

    std::string directory_;
};

ShimState full_state() {
    return {.pid = 12,
            .start = "345",
            .boot = "b00t",
            .run = "run_1",
            .phase = ShimPhase::ended,
            .child_pid = 13,
            .child_start = "346",
            .cgroup = "/sys/fs/cgroup/a b",
            .how = How::signaled,
            .code = 9,
            .detail = "two\nlines, a back\\slash and \\n as it is",
            .user_ms = 1,
            .system_ms = 2,
            .max_rss_kb = 3,
            .log_end = std::int64_t{1} << 40,
            .hole_begin = 5,
            .hole_end = 6};
}

TEST_F(StateTest, ComesBackAsItWas) {
    ASSERT_TRUE(write_state(directory_, full_state()));
    EXPECT_EQ(read_state(directory_), full_state());
}

TEST_F(StateTest, IsReplacedAsAWholeAndReadByItsOwnerOnly) {
    ASSERT_TRUE(write_state(directory_, full_state()));
    ASSERT_TRUE(write_state(directory_, ShimState{}));

    EXPECT_EQ(read_state(directory_), ShimState{});
    struct stat status{};
    ASSERT_EQ(stat((directory_ + "/state").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    EXPECT_NE(access((directory_ + "/state.new").c_str(), F_OK), 0);
}

TEST_F(StateTest, ThatIsNotThereOrCutShortIsNone) {
    EXPECT_EQ(read_state(directory_), std::nullopt);
    ASSERT_TRUE(write_state(directory_, full_state()));
    const std::string whole = read_file(directory_ + "/state").value();
    for (std::size_t length = 0; length < whole.size(); ++length) {
        write_file(whole.substr(0, length));
        EXPECT_EQ(read_state(directory_), std::nullopt) << length;
    }
}

TEST_F(StateTest, OfANewerProgramIsReadAsFarAsItIsKnown) {
    write_file("pid 7\nmood cheerful\nend\n");
    const auto state = read_state(directory_);
    ASSERT_TRUE(state);
    EXPECT_EQ(state->pid, 7);

    write_file("pid seven\nend\n");
    EXPECT_EQ(read_state(directory_), std::nullopt);
}

TEST_F(StateTest, ThatCannotBeWrittenSaysSo) { EXPECT_FALSE(write_state(directory_ + "/no", full_state())); }

}  // namespace
}  // namespace interlock::shim
