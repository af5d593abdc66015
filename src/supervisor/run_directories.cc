#include "supervisor/run_directories.h"

#include <algorithm>

#include "shim/process.h"

namespace interlock::supervisor {

namespace fs = std::filesystem;

std::map<std::string, shim::ShimState> RunDirectories::unfinished_but(const std::set<std::string>& known) const {
    std::map<std::string, shim::ShimState> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory_, error)) {
        const std::string run = entry.path().filename().string();
        if (known.contains(run)) continue;
        auto state = shim::read_state(entry.path().string());
        if (!state || state->phase != shim::ShimPhase::running || state->boot != shim::boot_id()) continue;
        found.emplace(run, std::move(*state));
    }
    return found;
}

std::function<void()> RunDirectories::removal_of_old(std::set<std::string> unfinished) const {
    const auto now = fs::file_time_type::clock::now();
    // How far the wall clock has leapt ahead of the time that passed. A clock that was set ahead would make every log
    // look old. A log that is kept for longer than it has to be is no harm.
    const std::chrono::nanoseconds by_wall_clock = now - started_by_file_clock_;
    const std::chrono::nanoseconds leapt = by_wall_clock - (std::chrono::steady_clock::now() - started_);
    const std::chrono::nanoseconds kept = kept_ + off_for_ + std::max(std::chrono::nanoseconds(0), leapt);
    return [unfinished = std::move(unfinished), directory = directory_, now, kept] {
        std::error_code error;
        for (const auto& entry : fs::directory_iterator(directory, error)) {
            const auto age = now - fs::last_write_time(entry.path(), error);
            if (error || age < kept || unfinished.contains(entry.path().filename().string())) continue;
            fs::remove_all(entry.path(), error);
        }
    };
}

}  // namespace interlock::supervisor
