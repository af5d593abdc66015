#include "shim/environment.h"

#include <gtest/gtest.h>

namespace interlock::shim {
namespace {

using Variables = std::vector<std::string>;

TEST(Environment, what_programs_need_passes_and_secrets_do_not) {
    const Variables around{"HOME=/h",
                           "PATH=/bin",
                           "LC_ALL=C.UTF-8",
                           "AWS_SECRET_ACCESS_KEY=s",
                           "ANTHROPIC_API_KEY=k",
                           "https_proxy=p:1",
                           "SSH_AUTH_SOCK=/run/s",
                           "LD_PRELOAD=/evil.so",
                           "XDG_CONFIG_HOME=/h/.c",
                           "XDG_RUNTIME_DIR=/run/user/1"};

    EXPECT_EQ(allowed_environment(around, {}),
              (Variables{"HOME=/h", "PATH=/bin", "LC_ALL=C.UTF-8", "https_proxy=p:1", "XDG_CONFIG_HOME=/h/.c"}));
}

TEST(Environment, what_is_named_passes_too_with_all_of_its_value) {
    const Variables around{"TOKEN=a=b\nc", "TOKENS=x", "OTHER=y"};

    EXPECT_EQ(allowed_environment(around, {"TOKEN", "MISSING"}), Variables{"TOKEN=a=b\nc"});
}

TEST(Environment, what_an_outer_run_was_told_never_passes) {
    const Variables around{"INTERLOCK_KEY=ilk_a_b", "INTERLOCK_RUN=run_1", "INTERLOCK_URL=http://a"};

    EXPECT_EQ(allowed_environment(around, {"INTERLOCK_KEY", "INTERLOCK_URL"}), Variables{});
}

TEST(Environment, a_name_is_there_once_and_what_is_no_variable_not_at_all) {
    EXPECT_EQ(allowed_environment({"HOME=/a", "HOME=/b", "PATH", "=x", "TZ="}, {""}), (Variables{"HOME=/a", "TZ="}));
}

}  // namespace
}  // namespace interlock::shim
