#include "supervisor/processes_inside.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fcntl.h>

#include <fmt/format.h>

#include "supervisor/file_tree.h"
#include "supervisor/open_file.h"
#include "supervisor/run_membership.h"

namespace interlock::supervisor {
namespace {

constexpr int depth_max = 256;

struct WatchedDirectory {
    std::string path;
    std::optional<struct stat> status;
    std::string mounts;  // The mount namespace this process sees paths in.
};

// How the process uses it; empty when it does not. `unseen` becomes true when it may not be asked.
std::string use_of(const std::string& process, const WatchedDirectory& target, bool& unseen);

std::string link_text(const std::string& path) {
    std::array<char, 4352> buffer;
    const auto length = readlink(path.c_str(), buffer.data(), buffer.size());
    return length < 0 ? std::string() : std::string(buffer.data(), static_cast<std::size_t>(length));
}

bool is_below(std::string_view path, std::string_view top) {
    return path.starts_with(top) &&
           (path.size() == top.size() || path[top.size()] == '/' || path.substr(top.size()) == " (deleted)");
}

WatchedDirectory target_of(const std::string& path) {
    return {.path = path, .status = status_of(path), .mounts = link_text("/proc/self/ns/mnt")};
}

}  // namespace

std::string use_of_directory(pid_t pid, const std::string& path) {
    bool unseen = false;
    std::string use = use_of(fmt::format("/proc/{}", pid), target_of(path), unseen);
    return use.empty() || RunMembership::is_interlock(pid) ? std::string() : use;
}

Result<ProcessesInside, std::string> processes_inside(const std::string& path) {
    const WatchedDirectory target = target_of(path);
    ProcessesInside found;
    std::error_code error;
    for (std::filesystem::directory_iterator entries("/proc", error), end; !error && entries != end;
         entries.increment(error)) {
        const std::string name = entries->path().filename();
        pid_t pid = 0;
        if (std::from_chars(name.data(), name.data() + name.size(), pid).ptr != name.data() + name.size()) continue;
        const std::string process = "/proc/" + name;
        bool unseen = false;
        std::string use = use_of(process, target, unseen);
        found.unseen += unseen ? 1 : 0;
        if (use.empty() || RunMembership::is_interlock(pid)) continue;
        std::string program = read_file(process + "/comm").value_or("");
        if (program.ends_with('\n')) program.pop_back();
        found.inside.push_back({.pid = pid, .program = std::move(program), .use = std::move(use)});
    }
    if (error) return fail(fmt::format("cannot look at the processes in /proc: {}", error.message()));
    return found;
}

namespace {

// A process with other mounts may know the directory by another name, so its directories are compared upwards, one by
// one.
bool climbs_to(const std::string& link, const WatchedDirectory& target) {
    OpenFile here(open(link.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct stat before{};
    for (int i = 0; here && target.status && i < depth_max; ++i) {
        struct stat status{};
        if (fstat(here.fd(), &status) != 0) return false;
        if (status.st_dev == target.status->st_dev && status.st_ino == target.status->st_ino) return true;
        if (i > 0 && status.st_dev == before.st_dev && status.st_ino == before.st_ino) return false;
        before = status;
        here = OpenFile(openat(here.fd(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    return false;
}

// The line ends in mapped paths are written as \012, and nothing else is changed.
bool maps_something(const std::string& process, std::string_view path) {
    std::string escaped;
    for (const char c : path) escaped += c == '\n' ? std::string("\\012") : std::string(1, c);
    const std::string maps = read_file(process + "/maps").value_or("");
    for (std::size_t at = maps.find(" " + escaped); at != std::string::npos; at = maps.find(" " + escaped, at + 1)) {
        const std::string_view line = std::string_view(maps).substr(at + 1);
        if (is_below(line.substr(0, line.find('\n')), escaped)) return true;
    }
    return false;
}

std::string use_of(const std::string& process, const WatchedDirectory& target, bool& unseen) {
    const std::string mounts = link_text(process + "/ns/mnt");
    if (mounts.empty() && errno == EACCES) unseen = true;
    const bool other_mounts = !mounts.empty() && mounts != target.mounts;
    for (const auto& [name, what] :
         {std::pair("cwd", "working directory"), std::pair("root", "root directory"), std::pair("exe", "program")}) {
        const std::string link = process + "/" + name;
        const std::string leads_to = link_text(link);
        const bool directory = std::string_view(name) != "exe";
        if (is_below(leads_to, target.path) || (other_mounts && directory && climbs_to(link, target))) {
            return fmt::format("its {} is {}", what, leads_to);
        }
    }
    std::error_code error;
    for (std::filesystem::directory_iterator entries(process + "/fd", error), end; !error && entries != end;
         entries.increment(error)) {
        const std::string leads_to = link_text(entries->path());
        if (is_below(leads_to, target.path)) return fmt::format("it has {} open", leads_to);
    }
    if (maps_something(process, target.path)) return "it has mapped a file in it";
    return "";
}

}  // namespace
}  // namespace interlock::supervisor
