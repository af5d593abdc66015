#include "supervisor/shim_children.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/id.h"
#include "shim/process.h"
#include "supervisor/spawn_shim.h"

namespace interlock::supervisor {

Result<void, std::string> ShimChildren::spawn(core::RunId run, const std::string& secret) {
    const auto child = spawn_shim(data_dir_, to_text("run", run.value), secret);
    if (!child) return fail(child.error());
    children_.emplace(*child, run);
    return {};
}

void ShimChildren::drop(core::RunId run, const shim::ShimState& other) {
    if (other.pid != 0) shim::send_signal({.pid = other.pid, .start = other.start}, SIGKILL);
    for (auto& [pid, whose] : children_) {
        if (whose != run) continue;
        shim::send_signal({.pid = pid, .start = shim::start_time(pid)}, SIGKILL);
        whose = {};
    }
}

std::vector<ShimChildren::Ended> ShimChildren::bury() {
    std::vector<Ended> ended;
    for (auto it = children_.begin(); it != children_.end();) {
        int status = 0;
        if (::waitpid(it->first, &status, WNOHANG) == 0) {
            ++it;
            continue;
        }
        const bool another_has_it = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (it->second != core::RunId()) ended.push_back({.run = it->second, .another_has_the_run = another_has_it});
        it = children_.erase(it);
    }
    return ended;
}

}  // namespace interlock::supervisor
