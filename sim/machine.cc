#include "sim/machine.h"

#include <algorithm>
#include <utility>

#include "base/id.h"

namespace interlock::sim {
namespace {

using namespace std::chrono_literals;
using Mishap = Conduct::Mishap;

constexpr SteadyDuration connects_every = 1s;
constexpr SteadyDuration waits_for_launch = 30s;
constexpr SteadyDuration waits_for_done = 60s;
constexpr SteadyDuration grace = 1s;
const std::string boot = "boot";

std::string start_of(pid_t pid) { return "start-" + std::to_string(pid); }

}  // namespace

// ---- time ----------------------------------------------------------------------------------------------------------

void Machine::step(Moment now) {
    now_ = now;
    std::erase_if(processes_, [&](const auto& each) { return each.second.ends <= now_; });
    std::vector<pid_t> pids;
    for (const auto& [pid, shim] : shims_) pids.push_back(pid);
    for (const pid_t pid : pids) {
        if (const auto found = shims_.find(pid); found != shims_.end()) act(found->second);
    }
}

void Machine::act(SimShim& shim) {
    const bool runs = shim.phase == shim::ShimPhase::running;
    if (runs && !shim.had_mishap && now_ >= shim.launched + shim.conduct.mishap_after) {
        const pid_t pid = shim.pid;
        shim.had_mishap = true;
        have_mishap(shim);
        if (!shims_.contains(pid)) return;
    }
    if (shim.goes_on && now_ >= *shim.goes_on) {
        shim.goes_on.reset();
        wake(shim.pid);
    }
    if (shim.stopped) return;
    connect(shim);
    while (!shim.inbox.empty()) {
        const shim::FromServer message = std::move(shim.inbox.front());
        shim.inbox.pop_front();
        const pid_t pid = shim.pid;
        hear(shim, message);
        if (!shims_.contains(pid)) return;
    }
    switch (shim.phase) {
        case shim::ShimPhase::waiting:
            if (!shim.conduct.foreground && now_ > shim.born + waits_for_launch) leave(shim);
            return;
        case shim::ShimPhase::running: {
            if (now_ >= shim.beat_at) {
                shim.beat_at = now_ + std::chrono::seconds(shim.conduct.lease_s) / 6;
                say(shim, shim::Beat{});
            }
            if (shim.fenced) {
                kill_below(shim);
                if (has_below(shim)) return;
                shim.phase = shim::ShimPhase::ended;
                save(shim, shim::How::stopped, 15);
                return leave(shim);
            }
            const auto main = std::ranges::find_if(
                processes_, [&](const auto& each) { return each.second.run == shim.run && each.second.main; });
            const bool late = shim.conduct.timeout_s > 0 &&
                              now_ >= shim.launched + std::chrono::seconds(shim.conduct.timeout_s) + grace;
            if (late || shim.asked_to_stop) kill_below(shim);
            if ((main == processes_.end() || late || shim.asked_to_stop) && !has_below(shim)) {
                const shim::How how = shim.asked_to_stop ? shim::How::stopped
                                      : late             ? shim::How::timed_out
                                                         : shim::How::exited;
                end(shim, how, how == shim::How::exited ? shim.conduct.code : 15);
            }
            return;
        }
        case shim::ShimPhase::ended:
            if (now_ > std::max(shim.heard, shim.ended) + waits_for_done) leave(shim);
            return;
    }
}

// ---- shims ---------------------------------------------------------------------------------------------------------

void Machine::start_shim(core::RunId run, const Conduct& conduct, const std::string& secret) {
    // One shim has the lock.
    for (const auto& [pid, shim] : shims_) {
        if (shim.run != run) continue;
        if (!conduct.foreground) hooks_.after(5ms, [this, run] { hooks_.child_ended(run, true); });
        return;
    }
    const auto file = files.find(run);
    if (file != files.end() && file->second.phase == shim::ShimPhase::running) {
        if (!conduct.foreground) hooks_.after(5ms, [this, run] { hooks_.child_ended(run, false); });
        return;
    }
    SimShim shim{.pid = ++last_pid_, .run = run, .conduct = conduct, .secret = secret};
    shim.of_server = !conduct.foreground;
    shim.born = now_;
    if (file != files.end() && file->second.phase == shim::ShimPhase::ended) {
        shim.phase = shim::ShimPhase::ended;
        shim.ended = now_;
    } else {
        save(shim);
    }
    shims_.emplace(shim.pid, shim);
}

shim::Hello Machine::hello_of(const SimShim& shim) const {
    shim::Hello hello;
    hello.run = to_text("run", shim.run.value);
    hello.pid = shim.pid;
    hello.start = start_of(shim.pid);
    hello.boot = boot;
    hello.phase = shim.phase;
    hello.foreground = shim.conduct.foreground;
    hello.secret = shim.secret;
    if (shim.phase != shim::ShimPhase::waiting) {
        hello.child_pid = files.at(shim.run).child_pid;
        hello.child_start = files.at(shim.run).child_start;
    }
    return hello;
}

void Machine::connect(SimShim& shim) {
    if (shim.connection != 0 || now_ < shim.connect_at) return;
    shim.connect_at = now_ + connects_every;
    if (!hooks_.server_is_up()) return;
    shim.connection = ++last_connection_;
    say(shim, hello_of(shim));
    if (shim.phase != shim::ShimPhase::ended) return;
    const shim::ShimState& file = files.at(shim.run);
    shim::Ended ended;
    ended.how = file.how;
    ended.code = file.code;
    ended.code_is = file.code_is;
    ended.secret = shim.secret;
    say(shim, ended);
}

void Machine::say(const SimShim& shim, shim::FromShim message) {
    if (shim.connection == 0) return;
    hooks_.to_server(supervisor::ConnectionId(shim.connection), shim.pid, std::move(message));
}

void Machine::to_shim(supervisor::ConnectionId connection, const shim::FromServer& message) {
    for (auto& [pid, shim] : shims_) {
        if (shim.connection == connection.value) shim.inbox.push_back(message);
    }
}

void Machine::show_out(supervisor::ConnectionId connection) {
    for (auto& [pid, shim] : shims_) {
        if (shim.connection == connection.value) shim.connection = 0;
    }
}

void Machine::server_died() {
    for (auto& [pid, shim] : shims_) {
        shim.connection = 0;
        if (random_.percent(70)) shim.inbox.clear();  // The rest was in its socket.
        shim.of_server = false;
    }
}

void Machine::hear(SimShim& shim, const shim::FromServer& message) {
    shim.heard = now_;
    if (std::holds_alternative<shim::LaunchOrder>(message)) {
        if (shim.phase == shim::ShimPhase::waiting) launch(shim);
    } else if (std::holds_alternative<shim::Refused>(message)) {
        if (shim.phase != shim::ShimPhase::waiting) return;
        shim.phase = shim::ShimPhase::ended;
        save(shim, shim::How::not_started, 1);
        leave(shim);
    } else if (std::holds_alternative<shim::Stop>(message)) {
        if (shim.phase == shim::ShimPhase::waiting) return end(shim, shim::How::not_started, 143);
        shim.asked_to_stop = true;
    } else if (std::holds_alternative<shim::Fenced>(message)) {
        if (shim.phase != shim::ShimPhase::running) return leave(shim);
        shim.fenced = true;
    } else if (std::holds_alternative<shim::Done>(message)) {
        if (shim.phase == shim::ShimPhase::ended) leave(shim);
    } else if (std::holds_alternative<shim::Pause>(message)) {
        if (shim.phase == shim::ShimPhase::running) say(shim, shim::Paused{});
    } else if (std::holds_alternative<shim::Resume>(message)) {
        if (shim.phase == shim::ShimPhase::running) say(shim, shim::Resumed{});
    }
}

void Machine::launch(SimShim& shim) {
    shim.phase = shim::ShimPhase::running;
    shim.launched = now_;
    SimProcess& main = begin(shim, shim.conduct.takes, true);
    if (shim.conduct.mishap == Mishap::stuck_process) main.stuck_until = main.ends = now_ + shim.conduct.lasts;
    mains_began_[shim.run] = now_;
    save(shim);
    files[shim.run].child_pid = main.pid;
    files[shim.run].child_start = start_of(main.pid);
    say(shim, shim::Started{.child_pid = main.pid, .child_start = start_of(main.pid), .level = "guarded"});
}

SimProcess& Machine::begin(const SimShim& shim, SteadyDuration lasts, bool main) {
    SimProcess process{.pid = ++last_pid_, .run = shim.run, .shim = shim.pid, .place = shim.conduct.place};
    process.main = main;
    process.marked = true;
    process.grouped = has_cgroups_;
    process.ends = now_ + lasts;
    hooks_.process_began(shim.run, process);
    return processes_.emplace(process.pid, process).first->second;
}

void Machine::have_mishap(SimShim& shim) {
    switch (shim.conduct.mishap) {
        case Mishap::none:
        case Mishap::stuck_process:
            return;
        case Mishap::kills_shim: {
            if (random_.percent(50)) begin(shim, shim.conduct.lasts).marked = false;
            if (random_.percent(30)) begin(shim, shim.conduct.lasts);
            const bool main_dies = random_.percent(50);
            for (auto& [pid, process] : processes_) {
                if (process.shim != shim.pid) continue;
                process.shim = 0;
                if (process.main && main_dies) process.ends = now_;
            }
            return leave(shim);
        }
        case Mishap::stops_shim:
            shim.stopped = true;
            for (auto& [pid, process] : processes_) {
                if (process.run == shim.run) process.ends = now_ + 3 * shim.conduct.lasts;
            }
            return;
        case Mishap::stops_shim_once:
            shim.stopped = true;
            shim.goes_on = now_ + shim.conduct.lasts;
            return;
        case Mishap::leaves_child:
            begin(shim, shim.conduct.lasts);
            return;
        case Mishap::leaves_job: {
            SimProcess& job = begin(shim, shim.conduct.lasts);
            job.shim = 0;
            job.grouped = false;
            return;
        }
        case Mishap::forged_shim:
            return impersonate(shim, "guessed");
        case Mishap::twin_shim: {
            const SimShim before = shim;
            impersonate(before, before.secret);
            // Before the server hears of it, the shim is dead.
            if (before.conduct.after_kill) leave(shim);
            return;
        }
        case Mishap::forged_end:
            return say(shim, shim::Ended{.how = shim::How::exited, .secret = "guessed"});
        case Mishap::lying_shim:
            return say(shim, shim::Ended{.how = shim::How::exited, .secret = shim.secret});
        case Mishap::away:
            if (!shim.conduct.foreground) return;
            say(shim, shim::Paused{});
            away_.insert(shim.run);
            files[shim.run].suspended = 1;
            shim.stopped = true;
            shim.goes_on = now_ + shim.conduct.lasts;
            return;
    }
}

// It says that the run works below it, and then that the run has ended well.
void Machine::impersonate(const SimShim& shim, const std::string& secret) {
    if (!hooks_.server_is_up()) return;
    SimShim forged = shim;
    forged.pid = ++last_pid_;
    forged.secret = secret;
    const supervisor::ConnectionId connection(++last_connection_);
    impersonated_.insert(shim.run);
    impostors_.insert(forged.pid);
    hooks_.to_server(connection, forged.pid, hello_of(forged));
    shim::Ended ended;
    ended.how = shim::How::exited;
    ended.secret = secret;
    hooks_.to_server(connection, forged.pid, ended);
    hooks_.after(2s, [this, connection, pid = forged.pid] {
        impostors_.erase(pid);
        hooks_.to_server(connection, pid, std::nullopt);
    });
}

void Machine::end(SimShim& shim, shim::How how, int code) {
    shim.phase = shim::ShimPhase::ended;
    shim.ended = now_;
    save(shim, how, code);
    shim::Ended ended;
    ended.how = how;
    ended.code = code;
    ended.code_is = files.at(shim.run).code_is;
    ended.secret = shim.secret;
    say(shim, ended);
}

void Machine::leave(SimShim& shim, bool another_has_it) {
    const SimShim gone = shim;
    for (auto& [pid, process] : processes_) {
        if (process.shim == gone.pid) process.shim = 0;
    }
    shims_.erase(gone.pid);
    away_.erase(gone.run);
    if (gone.connection != 0) hooks_.to_server(supervisor::ConnectionId(gone.connection), gone.pid, std::nullopt);
    if (gone.of_server) {
        hooks_.after(5ms, [this, run = gone.run, another_has_it] { hooks_.child_ended(run, another_has_it); });
    }
}

void Machine::save(const SimShim& shim, shim::How how, int code) {
    shim::ShimState& file = files[shim.run];
    file.pid = shim.pid;
    file.start = start_of(shim.pid);
    file.boot = boot;
    file.suspended = 0;
    file.run = to_text("run", shim.run.value);
    file.phase = shim.phase;
    file.how = how;
    file.code = code;
    file.code_is =
        how == shim::How::exited || how == shim::How::not_started ? shim::CodeIs::exit_code : shim::CodeIs::signal;
}

// ---- the kernel ----------------------------------------------------------------------------------------------------

bool Machine::shim_is_alive(pid_t pid) const { return shims_.contains(pid) || impostors_.contains(pid); }

bool Machine::shim_is_stopped(pid_t pid) const {
    const auto found = shims_.find(pid);
    return found != shims_.end() && found->second.stopped;
}

std::size_t Machine::shim_count() const { return shims_.size(); }

void Machine::wake(pid_t pid) {
    const auto found = shims_.find(pid);
    if (found == shims_.end() || !std::exchange(found->second.stopped, false)) return;
    if (away_.erase(found->second.run) == 0) return;
    files[found->second.run].suspended = 0;
    say(found->second, shim::Resumed{});
}

void Machine::drop(core::RunId run) {
    std::erase_if(shims_, [&](const auto& each) {
        const SimShim& shim = each.second;
        return shim.run == run && shim.of_server && shim.phase == shim::ShimPhase::waiting;
    });
}

void Machine::wake_all() {
    for (const auto& [pid, shim] : shims_) wake(pid);
}

SteadyDuration Machine::age_of_main(core::RunId run) const {
    const auto found = mains_began_.find(run);
    return found == mains_began_.end() ? SteadyDuration{} : now_ - found->second;
}

std::string Machine::held(core::RunId run, const shim::ShimState& shim) const {
    for (const auto& [pid, process] : processes_) {
        const bool below = process.shim != 0 && process.shim == shim.pid;
        if (process.run == run && (process.main || below || process.grouped)) return "process " + std::to_string(pid);
    }
    return "";
}

bool Machine::end_leftovers(core::RunId run, const shim::ShimState& shim, supervisor::ItsShim its_shim) {
    bool stuck = false;
    std::erase_if(processes_, [&](const auto& each) {
        const SimProcess& process = each.second;
        const bool below = process.shim != 0 && process.shim == shim.pid;
        if (process.run != run || !(process.main || below || process.grouped || process.marked)) return false;
        stuck = stuck || process.stuck_until > now_;
        return process.stuck_until <= now_;
    });
    if (its_shim == supervisor::ItsShim::killed) {
        if (const auto found = shims_.find(shim.pid); found != shims_.end()) leave(found->second);
    }
    return !stuck;
}

bool Machine::has_daemon_of(core::RunId run, const std::string& place) const {
    return std::ranges::any_of(processes_, [&](const auto& each) {
        return each.second.run == run && each.second.place == place && each.second.shim == 0;
    });
}

bool Machine::has_marked(core::RunId run) const {
    return std::ranges::any_of(processes_,
                               [&](const auto& each) { return each.second.run == run && each.second.marked; });
}

void Machine::kill_below(const SimShim& shim) {
    std::erase_if(processes_, [&](const auto& each) {
        const SimProcess& process = each.second;
        return process.run == shim.run && (process.shim == shim.pid || process.grouped) && process.stuck_until <= now_;
    });
}

bool Machine::has_below(const SimShim& shim) const {
    return std::ranges::any_of(processes_, [&](const auto& each) {
        return each.second.run == shim.run && (each.second.shim == shim.pid || each.second.grouped);
    });
}

void Machine::excuse_jobs(const std::set<core::RunId>& but_of) {
    for (const auto& [pid, process] : processes_) {
        if (!but_of.contains(process.run) && process.marked && process.shim == 0 && !process.grouped && !process.main)
            excused_.insert(pid);
    }
}

}  // namespace interlock::sim
