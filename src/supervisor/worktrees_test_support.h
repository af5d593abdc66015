// A place with real git repositories, for tests of worktrees. git is asked by a way of its own here, so that what is
// tested does not check itself.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "supervisor/repository_view.h"
#include "supervisor/worktrees.h"

namespace interlock::supervisor {

class WorktreesTest : public testing::Test {
 protected:
    WorktreesTest() {
        std::string name = std::filesystem::canonical(testing::TempDir()).string() + "/worktrees_XXXXXX";
        EXPECT_NE(mkdtemp(name.data()), nullptr);
        root_ = name;
        locks_ = root_ + "/locks";
        std::filesystem::create_directory(locks_);
        RepositoryView::keep_in(root_ + "/views");
        setenv("HOME", root_.c_str(), 1);
        setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
        setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    }
    ~WorktreesTest() override {
        std::error_code ignored;
        std::filesystem::remove_all(root_, ignored);
    }

    // `text` for a shell, in `dir`. Its output without the last line end; a failure fails the test.
    static std::string sh(const std::string& dir, const std::string& text) {
        const std::string script =
            "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C "
            "GIT_COMMITTER_EMAIL=c@example.org\n"
            "set -e; cd \"${1:?}\"\n" +
            text;
        return run_script(script, dir);
    }

    std::string made_repository(const std::string& name = "repository", const std::string& options = "") {
        std::string dir = root_ + "/" + name;
        std::filesystem::create_directories(dir);
        sh(dir, "git init -q -b main " + options + " .\n" +
                    "mkdir sub; echo one > tracked; echo two > sub/file; echo ignored > .gitignore\n"
                    "git add .; git commit -q -m first");
        return dir;
    }

    MakeWorktree wanted(const std::string& dir, const std::string& run = "run_1") const {
        return {
            .dir = dir, .path = root_ + "/trees/" + run, .branch = "interlock/" + run, .run = run, .lock_dir = locks_};
    }

    GitWorktree made(const MakeWorktree& what) const {
        const auto worktree = make_worktree(what);
        EXPECT_TRUE(worktree) << (worktree ? "" : worktree.error());
        return worktree.value_or(GitWorktree{});
    }

    // The names of the reasons, in their order.
    static std::vector<std::string> reasons(const GitWorktree& worktree, Lease lease = Lease::none) {
        std::vector<std::string> names;
        for (const Reason& reason : reasons_to_keep(worktree, lease)) {
            EXPECT_FALSE(reason.detail.empty());
            names.emplace_back(boost::describe::enum_to_string(reason.keeps, "?"));
        }
        return names;
    }
    using Names = std::vector<std::string>;

    RemoveWorktree removal(const GitWorktree& worktree, Force force = Force::no) const {
        return {.worktree = worktree, .force = force, .lease = Lease::none, .lock_dir = locks_};
    }

    Removed removed(const RemoveWorktree& what) const {
        const auto done = remove_worktree(what);
        EXPECT_TRUE(done) << (done ? "" : done.error());
        if (done) expect_gone(what.worktree);
        return done.value_or(Removed{});
    }

    void expect_gone(const GitWorktree& worktree) const {
        EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(worktree.path)));
        EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(worktree.path + ".removing")));
        EXPECT_EQ(sh(worktree.repository, "git worktree list --porcelain").find(worktree.path), std::string::npos);
        EXPECT_EQ(sh(worktree.repository, "git for-each-ref refs/interlock/base/" + worktree.run), "");
    }

    // In a process of its own, which is then killed, wherever it is.
    static void killed_after(std::chrono::milliseconds wait, const std::function<bool()>& work) {
        const pid_t pid = fork();
        if (pid == 0) _exit(work() ? 0 : 1);
        std::this_thread::sleep_for(wait);
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }

    static void write(const std::string& path, const std::string& bytes) {
        std::filesystem::create_directories(std::filesystem::path(path).parent_path());
        std::ofstream(path, std::ios::binary) << bytes;
    }
    static std::string content(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }

    // Every file below, but for .git: what it is, whether it can be executed, and its bytes.
    static std::map<std::string, std::string> files(const std::string& top) {
        namespace fs = std::filesystem;
        std::map<std::string, std::string> found;
        for (const auto& entry : fs::recursive_directory_iterator(top)) {
            const std::string name = entry.path().string().substr(top.size() + 1);
            if (name == ".git") continue;
            if (entry.is_symlink()) {
                found[name] = "link " + fs::read_symlink(entry.path()).string();
            } else if (entry.is_regular_file()) {
                const bool executable = (entry.status().permissions() & fs::perms::owner_exec) != fs::perms::none;
                found[name] = (executable ? "executable " : "file ") + content(entry.path());
            }
        }
        return found;
    }

    std::string root_;
    std::string locks_;

 private:
    static std::string run_script(const std::string& script, const std::string& dir) {
        std::string path = testing::TempDir() + "/script_XXXXXX";
        const int fd = mkstemp(path.data());
        EXPECT_GE(fd, 0);
        close(fd);
        write_script(path, script);
        FILE* out = popen(fmt::format("/bin/sh {} {} 2>&1", path, shell_word(dir)).c_str(), "re");
        EXPECT_NE(out, nullptr);
        std::string text;
        std::array<char, 4096> buffer;
        while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), out)) text.append(buffer.data(), count);
        const int status = pclose(out);
        unlink(path.c_str());
        EXPECT_EQ(status, 0) << script << "\n" << text;
        if (text.ends_with('\n')) text.pop_back();
        return text;
    }
    static void write_script(const std::string& path, const std::string& script) { std::ofstream(path) << script; }

 protected:
    static std::string shell_word(const std::string& text) {
        std::string word = "'";
        for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
        return word + "'";
    }
};

}  // namespace interlock::supervisor
