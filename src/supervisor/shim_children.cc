#include "supervisor/shim_children.h"

#include <sys/wait.h>

#include "base/id.h"
#include "supervisor/spawn_shim.h"

namespace interlock::supervisor {

Result<void, std::string> ShimChildren::spawn(core::RunId run, const std::string& secret) {
    const auto child = spawn_shim(data_dir_, to_text("run", run.value), secret);
    if (!child) return fail(child.error());
    children_.emplace(*child, run);
    return {};
}

std::vector<ShimChildren::Ended> ShimChildren::bury() {
    std::vector<Ended> ended;
    for (auto it = children_.begin(); it != children_.end();) {
        int status = 0;
        if (::waitpid(it->first, &status, WNOHANG) == 0) {
            ++it;
            continue;
        }
        ended.push_back({.run = it->second, .another_has_the_run = WIFEXITED(status) && WEXITSTATUS(status) == 0});
        it = children_.erase(it);
    }
    return ended;
}

}  // namespace interlock::supervisor
