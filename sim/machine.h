// A machine of the supervised stories: its processes and shims, as the kernel has them, and the files of its runs. A
// restart of the server changes none of that.
//
// What a process may do behind the server's back is what docs/internals/supervisor.md says the server finds: a process
// of a run is below its shim, in its control group, or has the run in its environment. A daemon that is none of that is
// left only by a run that kills its shim.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/rows.h"
#include "shim/protocol.h"
#include "shim/state.h"
#include "sim/random.h"
#include "supervisor/watch.h"

namespace interlock::sim {

using supervisor::Moment;
using supervisor::SteadyDuration;

// What a run is going to do. Drawn when it is asked for, so that it does not depend on who starts it.
struct Conduct {
    enum class Mishap {
        none,
        kills_shim,       // It may leave a daemon, which nothing but its directory connects with the run.
        stops_shim,       // For good. The shim keeps no timeout and says nothing.
        stops_shim_once,  // And lets it go on later.
        leaves_child,     // Below the shim, which waits for it.
        leaves_job,       // As `at` does: not below the shim, but with the run in its environment.
        stuck_process,    // Cannot be killed for a while.
        forged_shim,      // Another process says it is the shim, without the secret.
        twin_shim,        // Another process has the secret, and says that it is the shim.
        forged_end,       // Another process writes to the connection of the shim.
        lying_shim,       // Says that the run has ended while its main process works on.
        away,             // Stopped in its terminal, and brought back.
    };
    Mishap mishap = Mishap::none;
    SteadyDuration takes = {};
    SteadyDuration mishap_after = {};  // From the start of the main process.
    SteadyDuration lasts = {};         // What the mishap leaves.
    bool after_kill = false;           // Of its shim: then a twin speaks.
    int code = 0;                      // With which the main process exits.
    bool foreground = false;
    std::int64_t timeout_s = 0;
    std::int32_t lease_s = 60;
    std::string place = {};
};

struct SimProcess {
    pid_t pid = 0;
    core::RunId run;
    pid_t shim = 0;  // Below that one; 0: below none.
    bool main = false;
    bool marked = false;   // Has the run in its environment.
    bool grouped = false;  // In the run's control group.
    std::string place = {};
    Moment ends = {};
    Moment stuck_until = {};
};

class Machine {
 public:
    struct Hooks {
        std::function<void(SteadyDuration, std::function<void()>)> after;
        std::function<void(core::RunId, const SimProcess&)> process_began;
        // To the server; nothing happens if there is none.
        std::function<void(supervisor::ConnectionId, pid_t, std::optional<shim::FromShim>)> to_server;
        std::function<bool()> server_is_up;
        std::function<void(core::RunId, bool another_has_it)> child_ended;
    };
    Machine(Random& random, bool has_cgroups, Hooks hooks)
        : random_(random), has_cgroups_(has_cgroups), hooks_(std::move(hooks)) {}

    void step(Moment now);
    void server_died();

    // ---- for users and servers ----
    void start_shim(core::RunId run, const Conduct& conduct, const std::string& secret);
    void to_shim(supervisor::ConnectionId connection, const shim::FromServer& message);
    void show_out(supervisor::ConnectionId connection);

    // ---- what the kernel says and does ----
    bool shim_is_alive(pid_t pid) const;
    bool shim_is_stopped(pid_t pid) const;
    std::string held(core::RunId run, const shim::ShimState& shim) const;  // Empty: nothing.
    bool end_leftovers(core::RunId run, const shim::ShimState& shim, supervisor::ItsShim its_shim);
    bool has_daemon_of(core::RunId run, const std::string& place) const;
    bool has_marked(core::RunId run) const;
    void drop(core::RunId run);  // Shims that the server has started and that wait for their launch.
    void wake(pid_t shim);
    void wake_all();  // As a person does who finds stopped shims.
    SteadyDuration age_of_main(core::RunId run) const;

    std::map<core::RunId, shim::ShimState> files;
    std::map<core::RunId, std::set<std::string>> secrets;  // Issued, as the server's files have them.
    const std::map<pid_t, SimProcess>& processes() const { return processes_; }
    std::size_t shim_count() const;
    bool has_cgroups() const { return has_cgroups_; }
    const std::map<core::RunId, Moment>& mains_began() const { return mains_began_; }
    bool has_spoken(core::RunId run) const { return impersonated_.contains(run); }  // A process that is not its shim.
    bool is_away(core::RunId run) const { return away_.contains(run); }
    // A server that dies before its look at what a run left, or is not there when the run ends, does not look again for
    // jobs that other programs started for the run.
    void excuse_jobs(const std::set<core::RunId>& but_of = {});
    bool is_excused(pid_t pid) const { return excused_.contains(pid); }

 private:
    struct SimShim {
        pid_t pid = 0;
        core::RunId run;
        Conduct conduct = {};
        std::string secret = {};
        shim::ShimPhase phase = shim::ShimPhase::waiting;
        std::uint64_t connection = 0;  // 0: none.
        std::deque<shim::FromServer> inbox = {};
        bool stopped = false;
        bool had_mishap = false;
        bool asked_to_stop = false;
        bool fenced = false;
        bool lied = false;
        bool of_server = false;
        Moment born = {}, launched = {}, connect_at = {}, beat_at = {}, ended = {}, heard = {};
        std::optional<Moment> goes_on = {};
    };

    void act(SimShim& shim);
    void connect(SimShim& shim);
    void say(const SimShim& shim, shim::FromShim message);
    void hear(SimShim& shim, const shim::FromServer& message);
    void launch(SimShim& shim);
    void have_mishap(SimShim& shim);
    void end(SimShim& shim, shim::How how, int code);
    void leave(SimShim& shim, bool another_has_it = false);
    void impersonate(const SimShim& shim, const std::string& secret);
    shim::Hello hello_of(const SimShim& shim) const;
    SimProcess& begin(const SimShim& shim, SteadyDuration lasts, bool main = false);
    void kill_below(const SimShim& shim);
    bool has_below(const SimShim& shim) const;
    void save(const SimShim& shim, shim::How how = shim::How::none, int code = 0);

    Random& random_;
    const bool has_cgroups_;
    const Hooks hooks_;
    Moment now_ = {};
    pid_t last_pid_ = 100;
    std::uint64_t last_connection_ = 0;
    std::map<pid_t, SimProcess> processes_;
    std::map<pid_t, SimShim> shims_;
    std::map<core::RunId, Moment> mains_began_;
    std::set<core::RunId> away_;
    std::set<core::RunId> impersonated_;
    std::set<pid_t> impostors_;  // That are alive.
    std::set<pid_t> excused_;
};

}  // namespace interlock::sim
