#include "supervisor/shim_image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/embedded.h"

namespace interlock::embedded {
EmbeddedFiles shim();  // The one program.
}  // namespace interlock::embedded

namespace interlock::supervisor {
namespace {

Result<int, std::string> make_file() {
    const auto failed = [](int fd, const char* what) {
        const std::string why = fmt::format("cannot {} a file in memory for the shim: {}", what, std::strerror(errno));
        if (fd >= 0) close(fd);
        return fail(why);
    };
    // Some systems let a file in memory be executed only if that was asked for, and older ones do not know the
    // question.
    constexpr unsigned executable = 0x10;
    constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("interlock-shim", flags | executable);
    if (fd < 0 && errno == EINVAL) fd = memfd_create("interlock-shim", flags);
    if (fd < 0) return failed(fd, "make");
    for (std::string_view rest = shim_image(); !rest.empty();) {
        const ssize_t written = write(fd, rest.data(), rest.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return failed(fd, "fill");
        rest.remove_prefix(static_cast<std::size_t>(written));
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return failed(fd, "seal");
    return fd;
}

}  // namespace

std::string_view shim_image() { return embedded::shim().front().bytes; }

Result<int, std::string> shim_fd() {
    static const Result<int, std::string> made = make_file();
    return made;
}

Result<std::string, std::string> shim_path() {
    const auto fd = shim_fd();
    if (!fd) return fail(fd.error());
    return fmt::format("/proc/self/fd/{}", *fd);
}

}  // namespace interlock::supervisor
