// What this machine has for runs: control groups, and how hard its memory is pressed.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace interlock::supervisor {

// Of the control group above those of this data directory's runs.
std::string cgroup_name(const std::string& data_dir);

// A directory beneath this process's own control group of version 2, in which groups can be made. Empty: none.
std::string make_cgroup_parent(const std::string& name);

// The share of the last ten seconds in which some process waited for memory, in percent. Empty: the kernel does not
// say.
std::optional<double> memory_pressure(const std::string& file = "/proc/pressure/memory");

// How many runs go at once on this machine unless somebody says otherwise: agents wait for models most of the time.
int default_runs_max();

// How long ago a process started that has this start time, in the kernel's ticks since the boot, as in /proc/PID/stat.
// The wall clock is not asked, so a jump of it changes nothing.
std::chrono::nanoseconds age_of_process(const std::string& start);

}  // namespace interlock::supervisor
