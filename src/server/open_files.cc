#include "server/open_files.h"

#include <sys/resource.h>

#include <algorithm>

namespace interlock::server {
namespace {

constexpr rlim_t files_max = 1'000'000;

rlimit files_of_this_process() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) files.rlim_cur = files.rlim_max = RLIM_INFINITY;
    return files;
}

}  // namespace

std::uint64_t raise_open_files() {
    rlimit files = files_of_this_process();
    const rlim_t before = files.rlim_cur;
    files.rlim_cur = std::max(before, std::min(files.rlim_max, files_max));
    ::setrlimit(RLIMIT_NOFILE, &files);  // Where that is refused, the server goes on with what it had.
    return before;
}

std::uint64_t connections_possible() { return files_of_this_process().rlim_cur / 2; }

}  // namespace interlock::server
