#include "supervisor/shim_secrets.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/id.h"
#include "shim/fd.h"

namespace interlock::supervisor {
namespace {

using Verdict = ShimSecrets::Verdict;

class ShimSecretsTest : public testing::Test {
 protected:
    ShimSecretsTest() {
        std::string pattern = testing::TempDir() + "/shim_secrets_XXXXXX";
        directory = ::mkdtemp(pattern.data());
        ::mkdir((directory + "/runs").c_str(), 0700);
    }
    ~ShimSecretsTest() override { std::filesystem::remove_all(directory); }

    std::string file() const { return directory + "/runs/" + to_text("run", run.value) + "/shim-secrets"; }

    const core::RunId run{Id{1, 2}};
    const core::RunId other{Id{1, 3}};
    std::string directory;
};

TEST_F(ShimSecretsTest, only_a_secret_that_was_issued_for_the_run_proves_anything) {
    ShimSecrets secrets(directory);
    const std::string first = secrets.issue(run);
    const std::string second = secrets.issue(run);
    const std::string of_other = secrets.issue(other);

    EXPECT_EQ(first.size(), 64u);
    EXPECT_NE(first, second);
    EXPECT_EQ(secrets.check(run, first), Verdict::proven);
    EXPECT_EQ(secrets.check(run, second), Verdict::proven);
    EXPECT_EQ(secrets.check(run, of_other), Verdict::refused);
    EXPECT_EQ(secrets.check(run, ""), Verdict::refused);
    EXPECT_EQ(secrets.check(run, first.substr(1)), Verdict::refused);
}

TEST_F(ShimSecretsTest, a_run_of_an_earlier_release_has_none) {
    ShimSecrets secrets(directory);
    EXPECT_EQ(secrets.check(run, ""), Verdict::none_issued);
    EXPECT_EQ(secrets.check(run, "guess"), Verdict::none_issued);
}

TEST_F(ShimSecretsTest, the_next_server_knows_them_and_its_files_hold_hashes_only) {
    const std::string secret = ShimSecrets(directory).issue(run);

    ShimSecrets next(directory);
    EXPECT_EQ(next.check(run, "guess"), Verdict::refused);
    EXPECT_EQ(next.check(run, secret), Verdict::proven);
    EXPECT_EQ(shim::read_file(file()), to_hex(sha256(secret)) + "\n");
    struct stat facts{};
    ASSERT_EQ(::stat(file().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(ShimSecretsTest, a_file_that_is_written_while_the_server_lives_proves_nothing) {
    ShimSecrets secrets(directory);
    (void)secrets.issue(run);
    const shim::Fd forged(::open(file().c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    ASSERT_TRUE(shim::write_all(forged.get(), to_hex(sha256("mine")) + "\n"));

    EXPECT_EQ(secrets.check(run, "mine"), Verdict::refused);
}

}  // namespace
}  // namespace interlock::supervisor
