#include "shim/process.h"

#include <dirent.h>
#include <sys/syscall.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <iterator>
#include <map>
#include <set>

#include "shim/fd.h"

namespace interlock::shim {
namespace {

// Each round finds what the round before could not have seen. A tree that is still growing after so many is left to the
// caller's next try.
constexpr int rounds_max = 64;
// PF_EXITING, which the kernel has had as long as /proc shows a process's flags.
constexpr unsigned exiting_flag = 0x4;

template <class Number>
std::optional<Number> number_in(std::string_view text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
        if (end > 0) words.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return words;
}

std::string proc(pid_t pid, const char* file) { return "/proc/" + std::to_string(pid) + "/" + file; }

// The names in a directory of /proc that are numbers.
std::vector<pid_t> numbers_in(const std::string& path) {
    std::vector<pid_t> numbers;
    DIR* directory = opendir(path.c_str());
    if (!directory) return numbers;
    while (const dirent* entry = readdir(directory)) {
        if (const auto number = number_in<pid_t>(entry->d_name)) numbers.push_back(*number);
    }
    closedir(directory);
    return numbers;
}

std::vector<pid_t> listed_children(pid_t pid) {
    std::vector<pid_t> found;
    for (const pid_t thread : numbers_in(proc(pid, "task"))) {
        const std::string path = proc(pid, "task/") + std::to_string(thread) + "/children";
        const std::string text = read_file(path).value_or("");
        for (const std::string_view word : words_of(text)) {
            if (const auto child = number_in<pid_t>(word)) found.push_back(*child);
        }
    }
    return found;
}

// Calls `visit` with every process of the tree: each before its children are looked for, so that what `visit` does to
// it comes first.
class Walk {
 public:
    Walk(const ProcessTree& tree, const std::function<void(const ProcessInfo&)>& visit) : tree_(tree) {
        // One picture of all processes serves whoever needs it: it costs as much as there are processes.
        if (tree.also || !kernel_lists_children()) {
            for (ProcessInfo& process : all_processes()) below_[process.parent].push_back(std::move(process));
        }
        find_roots();
        // Not by recursion: a chain of processes can be longer than a stack is deep.
        while (!pending_.empty()) {
            const ProcessInfo process = std::move(pending_.back());
            pending_.pop_back();
            if (process.pid == getpid() || is_left_alone(process) || !entered_.insert(process.pid).second) continue;
            visit(process);
            add_children(process.pid);
        }
    }

 private:
    void find_roots() {
        if (tree_.also) {
            for (const auto& [parent, processes] : below_)
                std::ranges::copy_if(processes, back_inserter(pending_), tree_.also);
        }
        for (const ProcessInfo& root : tree_.roots) {
            const auto now = look_at(root.pid);
            if (!now || now->start != root.start) continue;
            if (tree_.only_below) {
                add_children(root.pid);
            } else {
                pending_.push_back(*now);
            }
        }
    }

    void add_children(pid_t pid) {
        if (kernel_lists_children()) {
            for (const pid_t child : listed_children(pid)) {
                if (auto process = look_at(child)) pending_.push_back(std::move(*process));
            }
        } else if (const auto found = below_.find(pid); found != below_.end()) {
            std::ranges::copy(found->second, back_inserter(pending_));
        }
    }

    bool is_left_alone(const ProcessInfo& process) const {
        const auto is_it = [&](const ProcessInfo& other) {
            return other.pid == process.pid && other.start == process.start;
        };
        return std::ranges::any_of(tree_.spared, is_it) ||
               (tree_.only_below && std::ranges::any_of(tree_.roots, is_it));
    }

    const ProcessTree& tree_;
    std::map<pid_t, std::vector<ProcessInfo>> below_;
    std::vector<ProcessInfo> pending_;
    std::set<pid_t> entered_;
};

class Freezer {
 public:
    explicit Freezer(const ProcessTree& tree) : tree_(tree) {}

    std::vector<ProcessInfo> freeze() {
        for (int round = 0; round < rounds_max; ++round) {
            const std::size_t before = frozen_.size();
            Walk(tree_, [this](const ProcessInfo& process) { stop(process); });
            if (frozen_.size() == before) break;
        }
        return frozen_;
    }

 private:
    void stop(const ProcessInfo& process) {
        if (process.ended()) return;
        const auto [known, is_new] = starts_.try_emplace(process.pid, process.start);
        if (!is_new && known->second == process.start) return;
        known->second = process.start;
        // A signal to a group reaches all of it at one moment, which no fork inside the group can outrun. Only groups
        // that began in this tree: anybody may join a group of his session, and that one may be the user's shell.
        const bool began_here =
            starts_.contains(process.group) || std::ranges::find(tree_.groups, process.group) != tree_.groups.end();
        if (began_here) kill(-process.group, SIGSTOP);
        send_signal(process, SIGSTOP);
        frozen_.push_back(process);
    }

    const ProcessTree& tree_;
    std::vector<ProcessInfo> frozen_;
    std::map<pid_t, std::string> starts_;
};

}  // namespace

bool kernel_lists_children() {
    static const bool lists = [] {
        const std::string self = std::to_string(getpid());
        return access(("/proc/" + self + "/task/" + self + "/children").c_str(), R_OK) == 0;
    }();
    return lists;
}

std::optional<ProcessInfo> look_at(pid_t pid) {
    const auto text = read_file(proc(pid, "stat"));
    if (!text) return std::nullopt;
    // The name of the program stands in parentheses and may have parentheses and spaces of its own.
    const std::size_t name_end = text->rfind(')');
    if (name_end == std::string::npos) return std::nullopt;
    const auto words = words_of(std::string_view(*text).substr(name_end + 1));
    if (words.size() < 20) return std::nullopt;
    return ProcessInfo{.pid = pid,
                       .start = std::string(words[19]),
                       .parent = number_in<pid_t>(words[1]).value_or(0),
                       .group = number_in<pid_t>(words[2]).value_or(0),
                       .session = number_in<pid_t>(words[3]).value_or(0),
                       .state = words[0].front(),
                       .has_terminal = words[4] != "0",
                       .exiting = (number_in<unsigned>(words[6]).value_or(0) & exiting_flag) != 0};
}

std::string start_time(pid_t pid) {
    const auto process = look_at(pid);
    return process ? process->start : "";
}

std::int64_t ticks_of(const std::string& start) { return number_in<std::int64_t>(start).value_or(0); }

bool alive(pid_t pid, std::string_view start) {
    const auto process = look_at(pid);
    return process && process->start == start && !process->ended();
}

std::string boot_id() {
    std::string id = read_file("/proc/sys/kernel/random/boot_id").value_or("");
    while (!id.empty() && id.back() == '\n') id.pop_back();
    return id;
}

std::vector<pid_t> children(pid_t pid) {
    if (kernel_lists_children()) return listed_children(pid);
    std::vector<pid_t> found;
    for (const ProcessInfo& process : all_processes()) {
        if (process.parent == pid) found.push_back(process.pid);
    }
    return found;
}

std::vector<pid_t> descendants(pid_t pid) {
    const auto root = look_at(pid);
    if (!root) return {};
    std::vector<pid_t> found;
    Walk({.roots = {*root}, .only_below = true}, [&](const ProcessInfo& process) { found.push_back(process.pid); });
    return found;
}

std::vector<ProcessInfo> all_processes() {
    std::vector<ProcessInfo> found;
    for (const pid_t pid : numbers_in("/proc")) {
        if (auto process = look_at(pid)) found.push_back(std::move(*process));
    }
    return found;
}

bool has_in_environment(pid_t pid, std::string_view assignment) {
    const auto text = read_file(proc(pid, "environ"));
    if (!text) return false;
    // Each ends with a NUL.
    const std::string wanted = '\0' + std::string(assignment) + '\0';
    return ('\0' + *text + '\0').find(wanted) != std::string::npos;
}

bool send_signal(const ProcessInfo& process, int signal) {
    const Fd fd(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
    // Looked at through /proc after it was opened: if the start time matches now, the descriptor is that process.
    if (!fd || start_time(process.pid) != process.start) return false;
    return syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0) == 0;
}

std::vector<ProcessInfo> members(const ProcessTree& tree) {
    std::vector<ProcessInfo> found;
    Walk(tree, [&](const ProcessInfo& process) {
        if (!process.ended()) found.push_back(process);
    });
    return found;
}

std::vector<ProcessInfo> freeze(const ProcessTree& tree) { return Freezer(tree).freeze(); }

std::vector<ProcessInfo> freeze_and_kill(const ProcessTree& tree) {
    std::vector<ProcessInfo> processes = freeze(tree);
    for (const ProcessInfo& process : processes) send_signal(process, SIGKILL);
    return processes;
}

}  // namespace interlock::shim
