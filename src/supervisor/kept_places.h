// Runs whose shims are gone and that keep their places, each with the process for which it does. For any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>

namespace interlock::supervisor {

class KeptPlaces {
 public:
    // Empty: the run keeps its place for no process any more.
    void set(const std::string& run, const std::string& process) {
        const std::lock_guard lock(mutex_);
        if (process.empty()) {
            processes_.erase(run);
        } else {
            processes_[run] = process;
        }
    }
    std::map<std::string, std::string> all() const {
        const std::lock_guard lock(mutex_);
        return processes_;
    }

 private:
    mutable std::mutex mutex_;
    std::map<std::string, std::string> processes_;
};

}  // namespace interlock::supervisor
