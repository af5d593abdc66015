#include "supervisor/observed.h"

#include "base/ensure.h"
#include "shim/process.h"
#include "supervisor/host_facts.h"
#include "supervisor/leftovers.h"

namespace interlock::supervisor {

Proof proof_of(ShimSecrets::Verdict verdict) {
    switch (verdict) {
        case ShimSecrets::Verdict::proven:
            return Proof::proven;
        case ShimSecrets::Verdict::none_issued:
            return Proof::none_issued;
        case ShimSecrets::Verdict::refused:
            break;
    }
    return Proof::refused;
}

WatchEvent event_of(const shim::FromShim& message, const std::function<Proof(const std::string& secret)>& prove) {
    struct Translator {
        const std::function<Proof(const std::string& secret)>& prove;

        WatchEvent operator()(const shim::Hello&) const {
            ensure(false, "a hello is judged by itself");
            return event::HasBeaten{};
        }
        WatchEvent operator()(const shim::Entrance&) const {
            ensure(false, "an entrance is the server's, and no event of the run");
            return event::HasBeaten{};
        }
        WatchEvent operator()(const shim::Beat&) const { return event::HasBeaten{}; }
        WatchEvent operator()(const shim::Started& started) const { return event::HasStarted{started}; }
        WatchEvent operator()(const shim::Paused&) const { return event::HasPaused{}; }
        WatchEvent operator()(const shim::Resumed&) const { return event::HasResumed{}; }
        WatchEvent operator()(const shim::Ended& ended) const { return event::HasEnded{ended, prove(ended.secret)}; }
    };
    return std::visit(Translator{prove}, message);
}

event::Answered answered_with(RunCommandKind question, const engine::SubmitResult& answer) {
    if (const auto* reply = answer ? std::get_if<core::RunReply>(&answer->reply) : nullptr) return {question, *reply};
    // Another end was said under the key of this one.
    if (!answer && answer.error() != engine::SubmitError::key_reused) return {question, std::nullopt};
    core::RunReply over;
    over.status = core::RunStatus::run_ended;
    return {question, over};
}

std::optional<ShimFile> look_at_shim_file(const std::string& home) {
    auto state = shim::read_state(home);
    if (!state) return std::nullopt;
    ShimFile file{.state = std::move(*state)};
    file.this_boot = file.state.boot == shim::boot_id();
    if (!file.this_boot) return file;
    file.shim_alive = shim_is_alive(file.state);
    const auto shim = shim::look_at(file.state.pid);
    file.shim_stopped = shim && shim->state == 'T';
    if (file.state.child_pid != 0) file.main_age = age_of_process(file.state.child_start);
    return file;
}

ShimSeen look_at_shim(const shim::ShimState& shim, const std::string& home) {
    if (shim.pid == 0) return {};
    if (shim_is_alive(shim)) return {.alive = true};
    return {.alive = false, .file = shim::read_state(home)};
}

event::EndLooked look_at_end(const shim::ShimState& shim, const std::string& run) {
    if (shim.boot != shim::boot_id()) return {.shim = ShimNow::of_earlier_boot};
    if (!shim_is_alive(shim)) return {.shim = ShimNow::gone};
    return {.shim = ShimNow::alive, .held = still_held(shim, run)};
}

}  // namespace interlock::supervisor
