#include "shim/run_mark.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace interlock::shim {
namespace {

// What a child of this process returns, as its exit code.
template <class Work>
int in_a_child(Work work) {
    const pid_t child = fork();
    if (child == 0) _exit(work());
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

TEST(RunMarkTest, every_run_within_a_run_is_one_deeper) {
    const int before = run_depth(getpid());
    const int once = in_a_child([] { return mark_as_run(), run_depth(getpid()); });
    const int twice = in_a_child([] { return mark_as_run(), mark_as_run(), run_depth(getpid()); });

    EXPECT_EQ(once, before + 1);
    EXPECT_EQ(twice, before + 2);
    EXPECT_EQ(run_depth(getpid()), before) << "it goes to children, not to parents";
}

TEST(RunMarkTest, children_inherit_it) {
    const int before = run_depth(getpid());
    EXPECT_EQ(in_a_child([] { return mark_as_run(), in_a_child([] { return run_depth(getpid()); }); }), before + 1);
}

TEST(RunMarkTest, who_is_not_there_is_in_no_run) { EXPECT_EQ(run_depth(0), 0); }

}  // namespace
}  // namespace interlock::shim
