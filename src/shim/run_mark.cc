#include "shim/run_mark.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <string_view>

#include "shim/fd.h"

namespace interlock::shim {
namespace {

// RLIMIT_LOCKS. The kinds of limits are an enum in one libc and a number in another.
constexpr int locks_limit = 10;
constexpr std::uint64_t not_marked = 1'000'000'000'000'000'000;  // Each run takes one off.
constexpr std::uint64_t depth_max = 1'000;

int depth_of(std::uint64_t limit) {
    return limit < not_marked && not_marked - limit <= depth_max ? static_cast<int>(not_marked - limit) : 0;
}

}  // namespace

void mark_as_run() {
    rlimit now{};
    if (syscall(SYS_prlimit64, 0, locks_limit, nullptr, &now) != 0) return;
    // A lower limit that the user has set stays.
    const bool is_free = now.rlim_max >= not_marked || depth_of(now.rlim_max) > 0;
    if (!is_free) return;
    const rlim_t limit = (now.rlim_max >= not_marked ? not_marked : now.rlim_max) - 1;
    const rlimit marked{.rlim_cur = limit, .rlim_max = limit};
    syscall(SYS_prlimit64, 0, locks_limit, &marked, nullptr);
}

// "Max file locks            999999999999999999   999999999999999999   locks": the soft limit, then the hard one.
int run_depth(pid_t process) {
    const auto text = read_file("/proc/" + std::to_string(process) + "/limits");
    if (!text) return 0;
    constexpr std::string_view name = "\nMax file locks";
    const std::size_t at = text->find(name);
    if (at == std::string::npos) return 0;
    std::string_view rest = std::string_view(*text).substr(at + name.size());
    rest = rest.substr(0, rest.find('\n', 1));
    std::uint64_t limit = not_marked;
    for (int word = 0; word < 2; ++word) {
        rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
        limit = not_marked;  // "unlimited" is no number.
        std::from_chars(rest.data(), rest.data() + rest.size(), limit);
        rest.remove_prefix(std::min(rest.find(' '), rest.size()));
    }
    return depth_of(limit);
}

}  // namespace interlock::shim
