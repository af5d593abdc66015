#include "supervisor/shim_image.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace interlock::supervisor {
namespace {

TEST(ShimImage, IsAProgram) {
    EXPECT_EQ(shim_image().substr(0, 4),
              "\x7f"
              "ELF");
}

TEST(ShimImage, IsAFileThatIsMadeOnceAndCannotBeChanged) {
    const auto fd = shim_fd();
    ASSERT_TRUE(fd) << fd.error();
    EXPECT_EQ(*shim_fd(), *fd);
    EXPECT_EQ(lseek(*fd, 0, SEEK_END), static_cast<off_t>(shim_image().size()));
    EXPECT_NE(fcntl(*fd, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_EQ(write(*fd, "x", 1), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(ftruncate(*fd, 0), -1);
}

TEST(ShimImage, CanBeExecuted) {
    const auto path = shim_path();
    ASSERT_TRUE(path) << path.error();
    const pid_t pid = fork();
    if (pid == 0) {
        // Without a place to work in it says how it wants to be called.
        close(STDERR_FILENO);
        execl(path->c_str(), "interlock-shim", static_cast<char*>(nullptr));
        _exit(99);
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 2);
}

}  // namespace
}  // namespace interlock::supervisor
