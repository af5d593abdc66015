// The directories of runs among the server's data: runs/RUN, with the shim's state and the log.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "shim/state.h"

namespace interlock::supervisor {

class RunDirectories {
 public:
    // `off_for`: by the wall clock, between the last commit before the start and the start.
    RunDirectories(const std::string& data_dir, std::chrono::nanoseconds kept, std::chrono::nanoseconds off_for)
        : directory_(data_dir + "/runs"), kept_(kept), off_for_(off_for) {}

    // Runs whose shims had not written an end down in this boot, but for these.
    std::map<std::string, shim::ShimState> unfinished_but(const std::set<std::string>& known) const;

    // Removes the directories of old runs, but for these; the rows stay. It blocks. An age is by the wall clock, less
    // the time that did not pass, so that a clock that jumped removes no logs.
    std::function<void()> removal_of_old(std::set<std::string> unfinished) const;

 private:
    const std::string directory_;
    const std::chrono::nanoseconds kept_;
    const std::chrono::nanoseconds off_for_;
    const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
    const std::filesystem::file_time_type started_by_file_clock_ = std::filesystem::file_time_type::clock::now();
};

}  // namespace interlock::supervisor
