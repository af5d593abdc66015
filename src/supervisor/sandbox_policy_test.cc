#include "supervisor/sandbox_policy.h"

#include <gtest/gtest.h>

namespace interlock::supervisor {
namespace {

using core::SandboxLevel;

core::ProcessSpec asking_for(SandboxLevel level) {
    core::ProcessSpec process;
    process.level = level;
    return process;
}

TEST(SandboxPolicyTest, a_run_that_asks_for_no_level_is_guarded) {
    const auto decided = decide_sandbox({}, {});

    ASSERT_TRUE(decided);
    EXPECT_EQ(decided->level, SandboxLevel::guarded);
    EXPECT_EQ(decided->note, "");
}

TEST(SandboxPolicyTest, only_the_default_that_nobody_chose_falls_back_and_says_so) {
    const SandboxPolicy cannot{.no_guarded = "no user namespaces", .no_files = "no user namespaces"};

    const auto fallen = decide_sandbox({}, cannot);
    ASSERT_TRUE(fallen);
    EXPECT_EQ(fallen->level, SandboxLevel::off);
    EXPECT_NE(fallen->note.find("can do what its user can: no user namespaces"), std::string::npos);

    EXPECT_FALSE(decide_sandbox(asking_for(SandboxLevel::guarded), cannot));
    EXPECT_FALSE(decide_sandbox(asking_for(SandboxLevel::files), cannot));
    SandboxPolicy chosen = cannot;
    chosen.standard = SandboxLevel::guarded;
    EXPECT_FALSE(decide_sandbox({}, chosen));
    SandboxPolicy demanded = cannot;
    demanded.minimum = SandboxLevel::guarded;
    EXPECT_FALSE(decide_sandbox({}, demanded));
}

TEST(SandboxPolicyTest, a_minimum_raises_the_default_and_refuses_a_lower_level) {
    const SandboxPolicy policy{.standard = SandboxLevel::off, .minimum = SandboxLevel::files};

    EXPECT_EQ(decide_sandbox({}, policy)->level, SandboxLevel::files);
    const auto refused = decide_sandbox(asking_for(SandboxLevel::guarded), policy);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(),
              "the run asks for the sandbox level guarded, and this server's minimum is files; ask for files or a "
              "higher level");
}

TEST(SandboxPolicyTest, a_level_that_is_asked_for_is_never_replaced_by_another) {
    const SandboxPolicy cannot{.no_sealed = "no network namespaces"};

    const auto refused = decide_sandbox(asking_for(SandboxLevel::sealed), cannot);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), "this machine does not allow the sandbox level sealed: no network namespaces");
    EXPECT_EQ(decide_sandbox(asking_for(SandboxLevel::files), cannot)->level, SandboxLevel::files);
    EXPECT_FALSE(decide_sandbox({}, {.standard = SandboxLevel::sealed, .no_sealed = "no"}));
}

TEST(SandboxPolicyTest, hosts_are_for_sealed_runs_alone) {
    core::ProcessSpec process = asking_for(SandboxLevel::files);
    process.allowed_hosts = {"a.example"};
    EXPECT_FALSE(decide_sandbox(process, {}));
    process.level = SandboxLevel::server_default;
    EXPECT_FALSE(decide_sandbox(process, {}));
    EXPECT_TRUE(decide_sandbox(process, {.standard = SandboxLevel::sealed}));
    process.level = SandboxLevel::sealed;
    EXPECT_TRUE(decide_sandbox(process, {}));
}

TEST(SandboxPolicyTest, a_row_from_before_the_levels_means_files) {
    core::ProcessSpec process;
    process.sandbox = true;

    EXPECT_EQ(decide_sandbox(process, {})->level, SandboxLevel::files);
}

}  // namespace
}  // namespace interlock::supervisor
