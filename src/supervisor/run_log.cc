#include "supervisor/run_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "shim/fd.h"

namespace interlock::supervisor {

Result<std::optional<LogPart>, std::string> read_log(const std::string& home, std::int64_t offset, std::int64_t limit) {
    // The run may do what it likes with its files; nobody waits here for the other end of a pipe.
    const shim::Fd file(::open((home + "/output").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file && errno == ENOENT) return std::optional<LogPart>();
    struct stat facts{};
    if (!file || ::fstat(file.get(), &facts) != 0) {
        return fail(fmt::format("the log cannot be read: {}", std::strerror(errno)));
    }
    if (!S_ISREG(facts.st_mode)) return fail(std::string("the log is not a file any more"));
    LogPart part;
    part.end = facts.st_size;
    // Shims give up the middle by punching a hole, which the file system itself remembers.
    const std::int64_t hole = ::lseek(file.get(), 0, SEEK_HOLE);
    if (hole >= 0 && hole < part.end) {
        const std::int64_t data = ::lseek(file.get(), hole, SEEK_DATA);
        part.hole_begin = hole;
        part.hole_end = data < 0 ? part.end : data;
    }
    part.offset = std::clamp<std::int64_t>(offset < 0 ? part.end + offset : offset, 0, part.end);
    const bool has_hole = part.hole_end > part.hole_begin;
    if (has_hole && part.offset >= part.hole_begin && part.offset < part.hole_end) part.offset = part.hole_end;
    std::int64_t until = std::min(part.end, part.offset + limit);
    if (has_hole && part.offset < part.hole_begin) until = std::min(until, part.hole_begin);
    part.bytes.resize(static_cast<std::size_t>(until - part.offset));
    std::size_t got = 0;
    while (got < part.bytes.size()) {
        const ssize_t count = ::pread(file.get(), part.bytes.data() + got, part.bytes.size() - got,
                                      part.offset + static_cast<std::int64_t>(got));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail(fmt::format("the log cannot be read: {}", std::strerror(errno)));
        if (count == 0) break;
        got += static_cast<std::size_t>(count);
    }
    part.bytes.resize(got);
    return std::optional(std::move(part));
}

}  // namespace interlock::supervisor
