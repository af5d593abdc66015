#include "supervisor/run_membership.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "shim/fd.h"
#include "shim/process.h"
#include "shim/run_mark.h"
#include "supervisor/host_facts.h"

namespace interlock::supervisor {
namespace {

constexpr int ancestors_max = 1'000;
constexpr std::string_view run_is = "INTERLOCK_RUN=";

std::string file_of(pid_t process, const char* name) {
    return shim::read_file("/proc/" + std::to_string(process) + "/" + name).value_or("");
}

// After the boot, to the kernel's tick before it.
std::chrono::nanoseconds start_of(const shim::ProcessInfo& process) {
    static const std::int64_t per_second = sysconf(_SC_CLK_TCK);
    std::int64_t ticks = 0;
    std::from_chars(process.start.data(), process.start.data() + process.start.size(), ticks);
    return std::chrono::nanoseconds(ticks * (1'000'000'000 / per_second));
}

// Its arguments are its own to change. A run cannot change those of its shim, which is not dumpable.
bool is_shim(pid_t process) {
    const std::string words = file_of(process, "cmdline") + '\0';
    const std::string_view first = std::string_view(words).substr(0, words.find('\0'));
    std::string_view second = std::string_view(words).substr(first.size() + 1);
    second = second.substr(0, second.find('\0'));
    return first == "interlock-shim" || (first == "interlock" && second == "shim");
}

// "0::/a/b": its control group of version 2.
std::string group_of(pid_t process) {
    const std::string text = "\n" + file_of(process, "cgroup");
    const std::size_t at = text.find("\n0::");
    if (at == std::string::npos) return "";
    const std::size_t begin = at + 4;
    return text.substr(begin, text.find('\n', begin) - begin);
}

// …/interlock-<hash of the data directory>/run_…
bool is_of_a_run(std::string_view group) {
    constexpr std::string_view parent = "/interlock-";
    for (std::size_t at = group.find(parent); at != std::string_view::npos; at = group.find(parent, at + 1)) {
        const std::string_view rest = group.substr(at + parent.size());
        if (rest.substr(std::min(rest.find('/'), rest.size())).starts_with("/run_")) return true;
    }
    return false;
}

// The run that its environment names; "" when it names none, or may not be read.
std::string run_named_by(pid_t process) {
    const std::string text = '\0' + file_of(process, "environ");
    const std::size_t at = text.find('\0' + std::string(run_is));
    if (at == std::string::npos) return "";
    return text.substr(at + 1 + run_is.size(), text.find('\0', at + 1) - at - 1 - run_is.size());
}

// Another user's process that /proc hides: no run's, because the supervisor sees all of those.
bool is_hidden(pid_t process) { return ::kill(process, 0) != 0 && errno == EPERM; }

// A shim's first argument is the data directory of its run. One that is not absolute cannot be told apart.
bool is_shim_of(pid_t process, const std::string& data_dir) {
    if (!is_shim(process)) return false;
    std::vector<std::string> words;
    std::istringstream text(file_of(process, "cmdline"));
    for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
    const std::size_t at = words.size() > 1 && words[1] == "shim" ? 2 : 1;
    const std::string named = at < words.size() ? words[at] : "";
    std::error_code error;
    return !named.starts_with('/') || std::filesystem::equivalent(named, data_dir, error);
}

}  // namespace

bool is_in_a_run_of(const std::string& data_dir) {
    if (group_of(getpid()).find("/" + cgroup_name(data_dir) + "/run_") != std::string::npos) return true;
    auto above = shim::look_at(getpid());
    for (int i = 0; above && above->parent != 0 && i < ancestors_max; ++i) {
        above = shim::look_at(above->parent);
        if (above && is_shim_of(above->pid, data_dir)) return true;
    }
    return false;
}

RunMembership::RunMembership() : own_group_(group_of(getpid())), own_depth_(shim::run_depth(getpid())) {
    auto process = shim::look_at(getpid());
    for (int i = 0; process && i < ancestors_max; ++i) {
        if (is_shim(process->pid)) own_shims_.emplace_back(process->pid, process->start);
        if (std::string run = run_named_by(process->pid); !run.empty()) own_runs_.push_back(std::move(run));
        process = process->parent != 0 ? shim::look_at(process->parent) : std::nullopt;
    }
}

bool RunMembership::has_sign_of_a_run(const shim::ProcessInfo& process) const {
    if (shim::run_depth(process.pid) > own_depth_) return true;
    const std::string whole_group = group_of(process.pid);
    std::string_view group = whole_group;
    if (is_of_a_run(own_group_) && group.starts_with(own_group_)) group.remove_prefix(own_group_.size());
    if (is_of_a_run(group)) return true;
    const std::string run = run_named_by(process.pid);
    if (!run.empty() && std::ranges::find(own_runs_, run) == own_runs_.end()) return true;
    return is_shim(process.pid) &&
           std::ranges::find(own_shims_, std::pair(process.pid, process.start)) == own_shims_.end();
}

Membership RunMembership::of(pid_t pid, std::chrono::nanoseconds begun_by) const {
    const auto first = shim::look_at(pid);
    if (!first || first->ended() || start_of(*first) > begun_by) return Membership::unknown;
    shim::ProcessInfo process = *first;
    for (int i = 0; i < ancestors_max; ++i) {
        if (process.pid == getpid()) {
            if (i > 0) return Membership::inside;
        } else if (has_sign_of_a_run(process)) {
            return Membership::inside;
        }
        if (process.parent == 0 || is_hidden(process.parent)) {
            return shim::alive(first->pid, first->start) ? Membership::outside : Membership::unknown;
        }
        const auto above = shim::look_at(process.parent);
        // An ancestor is older. Otherwise the parent has ended meanwhile, and its number is another's.
        if (!above || start_of(*above) > start_of(process)) {
            const auto again = shim::look_at(process.pid);
            if (!again || again->start != process.start) return Membership::unknown;
            process = *again;
            continue;
        }
        process = *above;
    }
    return Membership::unknown;
}

bool RunMembership::is_interlock(pid_t process) { return process == getpid() || is_shim(process); }

}  // namespace interlock::supervisor
