#include "supervisor/repository_view.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "supervisor/confinement.h"
#include "supervisor/git.h"
#include "supervisor/worktrees_test_support.h"

namespace interlock::supervisor {
namespace {

class RepositoryViewTest : public WorktreesTest {
 protected:
    RepositoryViewTest() : repository_(made_repository()), common_dir_(repository_ + "/.git") {}

    std::string repository_;
    std::string common_dir_;
};

TEST_F(RepositoryViewTest, it_has_how_files_are_stored_and_nothing_else) {
    sh(repository_,
       "git config core.autocrlf input; git config core.excludesFile '/a \"b\\c'; git config core.editor e\n"
       "git config filter.x.clean c; git config core.sshCommand s; git config remote.r.url u; git config alias.a '!x'");

    const auto view = RepositoryView::make(common_dir_, common_dir_);

    ASSERT_TRUE(view) << view.error();
    EXPECT_EQ(sh(root_, "git config --file " + view->dir() + "/config --list --name-only | sort"),
              "core.autocrlf\ncore.bare\ncore.excludesfile\ncore.filemode\ncore.logallrefupdates\n"
              "core.repositoryformatversion");
    EXPECT_EQ(sh(root_, "git config --file " + view->dir() + "/config core.excludesFile"), "/a \"b\\c");
    EXPECT_EQ(view->setting("core.autocrlf"), "input");
    EXPECT_FALSE(std::filesystem::exists(view->dir() + "/hooks"));
    EXPECT_FALSE(view->partial());
}

TEST_F(RepositoryViewTest, it_goes_with_its_object_and_leaves_the_repository_as_it_is) {
    std::string dir;
    {
        const auto view = RepositoryView::make(common_dir_, common_dir_);
        ASSERT_TRUE(view) << view.error();
        dir = view->dir();
        EXPECT_TRUE(std::filesystem::exists(dir + "/objects"));
    }
    EXPECT_FALSE(std::filesystem::exists(dir));
    EXPECT_EQ(sh(repository_, "git fsck; git status --porcelain"), "");
}

TEST_F(RepositoryViewTest, a_configuration_that_changes_later_does_not_reach_it) {
    const Git git = Git::of_worktree(common_dir_, common_dir_, repository_);
    sh(repository_, "echo '* filter=x' > .gitattributes; git config filter.x.clean 'touch " + root_ + "/HIT; cat'");

    const auto status = git.ask({"add", "--all"});

    EXPECT_TRUE(status) << status.error();
    EXPECT_FALSE(std::filesystem::exists(root_ + "/HIT"));
}

TEST_F(RepositoryViewTest, no_program_starts_even_if_the_command_line_names_one) {
    if (!confine_git({})) GTEST_SKIP() << "this kernel has no Landlock";
    const Git git = Git::of_worktree(common_dir_, common_dir_, repository_)
                        .with_setting("filter.x.clean=touch " + root_ + "/HIT; cat");
    sh(repository_, "echo '* filter=x' > .gitattributes");

    (void)git.run({"add", "--all"});

    EXPECT_FALSE(std::filesystem::exists(root_ + "/HIT"));
}

TEST_F(RepositoryViewTest, refs_in_another_storage_are_refused_in_a_sentence) {
    sh(repository_, "git config extensions.refStorage reftable");

    const auto view = RepositoryView::make(common_dir_, common_dir_);

    ASSERT_FALSE(view);
    EXPECT_NE(view.error().find("'reftable'"), std::string::npos);
}

}  // namespace
}  // namespace interlock::supervisor
