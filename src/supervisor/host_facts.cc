#include "supervisor/host_facts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <thread>

#include "base/sha256.h"
#include "shim/fd.h"

namespace interlock::supervisor {
namespace {

std::string cgroup_mount() {
    const auto mounts = shim::read_file("/proc/self/mounts");
    std::istringstream lines(mounts.value_or(""));
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string device, path, kind;
        words >> device >> path >> kind;
        if (kind == "cgroup2") return path;
    }
    return "";
}

std::string own_cgroup() {
    const auto groups = shim::read_file("/proc/self/cgroup");
    std::istringstream lines(groups.value_or(""));
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("0::")) return line.substr(3);
    }
    return "";
}

}  // namespace

std::string cgroup_name(const std::string& data_dir) { return "interlock-" + to_hex(sha256(data_dir)).substr(0, 12); }

std::string make_cgroup_parent(const std::string& name) {
    const std::string mount = cgroup_mount();
    const std::string own = own_cgroup();
    if (mount.empty() || own.empty()) return "";
    const std::string path = mount + (own == "/" ? "" : own) + "/" + name;
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return "";
    // Only one that can be killed at once is of use.
    const std::string probe = path + "/probe";
    if (::mkdir(probe.c_str(), 0755) != 0 && errno != EEXIST) return "";
    const bool useful = ::access((probe + "/cgroup.kill").c_str(), W_OK) == 0;
    ::rmdir(probe.c_str());
    // What runs can be bounded by. Each by itself, because not every one is to be had; without them nothing is lost.
    for (const std::string& group : {path.substr(0, path.rfind('/')), path}) {
        for (const char* controller : {"+memory", "+pids", "+cpu"}) {
            const shim::Fd file(::open((group + "/cgroup.subtree_control").c_str(), O_WRONLY | O_CLOEXEC));
            if (file) static_cast<void>(shim::write_all(file.get(), controller));
        }
    }
    return useful ? path : "";
}

std::optional<double> memory_pressure(const std::string& file) {
    const auto text = shim::read_file(file);
    const std::size_t at = text ? text->find("some avg10=") : std::string::npos;
    if (at == std::string::npos) return std::nullopt;
    return std::atof(text->c_str() + at + 11);
}

int default_runs_max() { return std::max(4, 2 * static_cast<int>(std::thread::hardware_concurrency())); }

std::chrono::nanoseconds age_of_process(const std::string& start) {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    const auto since_boot = std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
    const std::chrono::nanoseconds tick(std::chrono::nanoseconds(std::chrono::seconds(1)) / ::sysconf(_SC_CLK_TCK));
    return std::max(std::chrono::nanoseconds(0), since_boot - std::atol(start.c_str()) * tick);
}

}  // namespace interlock::supervisor
