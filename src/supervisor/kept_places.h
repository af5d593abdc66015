// Runs whose shims are gone and that keep their places, each with the process for which it does. For any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>

namespace interlock::supervisor {

class KeptPlaces {
 public:
    // False when that was known.
    bool keep(const std::string& run, const std::string& process) {
        const std::lock_guard lock(mutex_);
        std::string& known = processes_[run];
        if (known == process) return false;
        known = process;
        return true;
    }
    // The process for which the run kept its place; empty if it kept none.
    std::string give_up(const std::string& run) {
        const std::lock_guard lock(mutex_);
        auto node = processes_.extract(run);
        return node ? std::move(node.mapped()) : std::string();
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
