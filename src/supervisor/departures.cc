#include "supervisor/departures.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"
#include "shim/fd.h"
#include "shim/process.h"
#include "supervisor/leftovers.h"

namespace interlock::supervisor {
namespace {

using shim::ProcessInfo;
using shim::ticks_of;
using ByPid = std::map<pid_t, ProcessInfo>;

std::string program_of(pid_t pid) {
    std::string name = shim::read_file(fmt::format("/proc/{}/comm", pid)).value_or("");
    if (name.ends_with('\n')) name.pop_back();
    return name;
}

ByPid processes_by_pid() {
    ByPid all;
    for (ProcessInfo& process : shim::all_processes()) all.emplace(process.pid, std::move(process));
    return all;
}

// Those that orphans may come to: the first process, the user's service manager, and ours above us.
std::set<pid_t> takers_of_orphans(const ByPid& all) {
    std::set<pid_t> takers{1};
    for (auto found = all.find(::getpid()); found != all.end(); found = all.find(found->second.parent)) {
        if (!takers.insert(found->second.parent).second) break;
    }
    return takers;
}

bool is_orphan(const ProcessInfo& process, const ByPid& all, const std::set<pid_t>& takers, std::int64_t began) {
    if (process.has_terminal) return false;
    if (!takers.contains(process.parent) && program_of(process.parent) != "systemd") return false;
    // A script that runs under the same service as the server has the session of a process that was there before.
    const auto leader = all.find(process.session);
    return leader == all.end() || ticks_of(leader->second.start) >= began;
}

// The run that the process was started for, by its environment; empty: by none.
std::string run_of(pid_t pid) {
    constexpr std::string_view name("\0INTERLOCK_RUN=", 15);
    const std::string variables = '\0' + shim::read_file(fmt::format("/proc/{}/environ", pid)).value_or("");
    const std::size_t at = variables.find(name);
    return at == std::string::npos ? "" : std::string(variables.c_str() + at + name.size());
}

std::string use_of_any(pid_t pid, const std::vector<std::string>& directories) {
    for (const std::string& directory : directories) {
        if (std::string use = use_of_directory(pid, directory); !use.empty()) return use;
    }
    return "";
}

}  // namespace

Departure departure_of(const std::string& run, const shim::ShimState& state, const std::vector<core::Place>& places) {
    Departure departure{.run = run, .began = state.child_start, .directories = {}, .shim = {}};
    if (shim_is_alive(state)) departure.shim = state.pid;
    for (const core::Place& place : places) {
        const bool alone = place.kind == core::ClaimKind::workspace && place.mode == core::ClaimMode::write;
        if (alone) departure.directories.push_back(place.path);
    }
    return departure;
}

std::vector<Remains> look_for_remains(const std::vector<Departure>& departures, const std::set<pid_t>& shims) {
    const ByPid all = processes_by_pid();
    const std::set<pid_t> takers = takers_of_orphans(all);
    std::vector<Remains> found(departures.size());
    for (const auto& [pid, process] : all) {
        if (process.ended() || pid == ::getpid() || shims.contains(pid)) continue;
        std::optional<std::string> run;
        for (std::size_t i = 0; i < departures.size(); ++i) {
            const Departure& departure = departures[i];
            const std::int64_t began = ticks_of(departure.began);
            if (began == 0 || ticks_of(process.start) < began) continue;
            if (!run) run = run_of(pid);
            const bool own = *run == departure.run || (departure.shim != 0 && process.parent == departure.shim);
            std::string use = use_of_any(pid, departure.directories);
            if (!own && use.empty()) continue;
            std::vector<ProcessInside>& kind = own                                      ? found[i].own
                                               : is_orphan(process, all, takers, began) ? found[i].orphans
                                                                                        : found[i].others;
            kind.push_back({.pid = pid, .program = program_of(pid), .use = std::move(use)});
        }
    }
    return found;
}

std::string end_and_find_keeper(const action::EndLeftovers& end, const Departure& departure,
                                const std::set<pid_t>& shims, std::chrono::milliseconds timeout) {
    if (!end_leftovers(end.shim, departure.run, end.its_shim, timeout)) return "a process that cannot be killed";
    if (!end.looks_for_daemons) return "";
    const Remains remains = look_for_remains({departure}, shims).front();
    return remains.orphans.empty() ? "" : sentence_of(remains.orphans.front());
}

std::string sentence_of(const ProcessInside& process) {
    return as_line(fmt::format("process {} ({}): {}", process.pid, process.program,
                               process.use.empty() ? "it was started by the run" : process.use));
}

}  // namespace interlock::supervisor
