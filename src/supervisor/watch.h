// The life of one supervised run on its node, as a pure machine: (state, event) -> (state, actions). It decides what is
// done for the run. The supervisor carries the actions out and reports what came of them, as events.
//
//   (1) No clock, no thread, no input or output. The time, and what the kernel and the files say, come with the event.
//   (2) A run is launched at most once. Before the launch any process with a secret of the run may be its shim, one
//       after the other. After the launch only the process that got it speaks for the run.
//   (3) Each way to the end of a launched run leads through checking or reaping: an end is submitted only after the
//       server has seen that nothing of the run is left.
//   (4) An end is submitted again until it is answered, always with the same content, and is followed by forget.
//   (5) A live run that nothing is heard of within its patience is reaped, and one whose deadline has passed. The
//       deadline of a run that was found running is counted from the start of its main process.
//   (6) Each phase holds what is true in that phase alone. docs/internals/supervisor.md has the diagram.
//   (7) Each launch is made after a look at the run's places that found what the core keeps of them. The open directory
//       that the look leaves is kept beside the watch, and goes with the launch.
//
// The caller drops results of actions that were asked for under another fence of the run.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/log.h"
#include "core/command.h"
#include "core/places.h"
#include "core/reply.h"
#include "shim/protocol.h"
#include "shim/state.h"
#include "supervisor/connection_id.h"

namespace interlock::supervisor {

using Moment = std::chrono::steady_clock::time_point;
using SteadyDuration = std::chrono::steady_clock::duration;

// ---- what is known when a run is taken on ----

// What does not change while the run has this fence.
struct Order {
    core::RunId id;
    core::RunId parent = {};  // The run that started it, and whose places cover its own; empty: none.
    core::Fence fence = {};
    std::vector<core::Place> places = {};
    std::int32_t lease_s = 60;
    bool foreground = false;                         // A terminal starts its shim, not the server.
    bool of_earlier_server = false;                  // It was unfinished when this server started.
    std::optional<SteadyDuration> ends_within = {};  // From its start to its deadline; none: it has no timeout.
    std::string cgroup = {};                         // Where its control group would be; empty: nowhere.
};

// The file that a shim keeps, as the server found it.
struct ShimFile {
    shim::ShimState state = {};
    bool this_boot = false;
    bool shim_alive = false;
    bool shim_stopped = false;     // By a signal.
    SteadyDuration main_age = {};  // For how long the main process has been there.
};

// ---- events ----

// The system's word about the process at the other end of a connection.
struct PeerProcess {
    pid_t pid = 0;
    std::string start = {};
    std::string boot = {};
};

enum class Proof { proven, refused, none_issued };

enum class Obstacle { none, place, memory };
enum class ShimNow { alive, gone, of_earlier_boot };
enum class RunCommandKind { start, beat, pause, resume, cancel, restate, end };
// What the server sees of the run's shim by itself.
struct ShimSeen {
    bool alive = false;
    std::optional<shim::ShimState> file = {};  // Read only if the shim is not alive.
};

namespace event {

// A row of the run was committed, or was there when the server started.
struct Found {
    Order order = {};
    core::RunState state = core::RunState::starting;  // Queued or live.
    std::string stop = {};                            // Why it is to end; empty: it is not.
    std::optional<ShimFile> file = {};
};

struct Greeted {
    ConnectionId connection;
    PeerProcess peer = {};
    shim::Hello hello = {};
    Proof proof = Proof::refused;
    bool known_shim_alive = false;  // That of the process that has been this run's shim until now.
};
struct HasStarted {
    shim::Started message = {};
};
struct HasBeaten {};
struct HasPaused {};
struct HasResumed {};
struct HasEnded {
    shim::Ended message = {};
    Proof proof = Proof::refused;
};
struct ConnectionClosed {
    ShimSeen shim = {};
};
struct ChildEnded {  // A shim that the server had started.
    bool another_has_the_run = false;
};
struct StopRequested {
    std::string reason = {};
};
struct StateChanged {  // To running or paused, by the feed.
    core::RunState to = core::RunState::running;
};
struct BackInLine {};  // By the feed: the run waits for its places again, and this fence is not its fence any more.
struct RunIsOver {     // By the feed.
    std::string reason = {};
};
struct PlacesFreed {};  // Some places that other runs have left.

struct RoomLooked {
    Obstacle obstacle = Obstacle::none;
    std::int64_t memory_pressure = 0;
};
struct PlaceSeen {
    std::string problem = {};              // Why the run cannot begin; empty: it can.
    std::string change = {};               // What is not as it was claimed; empty: nothing.
    std::vector<core::Place> places = {};  // What the claimed workspaces are now.
};
struct PlaceLater {};  // There was no thread for the look.
struct LineLooked {
    std::optional<std::string> text = {};  // None: it could not be read.
};
struct Prepared {
    shim::LaunchOrder launch = {};
    std::string note = {};  // Why its sandbox is weaker than the usual one.
};
struct NotPrepared {
    std::string why = {};
};
struct PrepareLater {};  // What it takes could not be read, or no thread had time.
struct NotSpawned {
    std::string why = {};
};
struct EndLooked {
    ShimNow shim = ShimNow::gone;
    std::optional<std::string> held = {};  // A process that the living shim still holds.
};
struct LeftoversLooked {
    std::string keeper = {};  // A process for which the run keeps its place; empty: nothing is left.
};
struct LeftoversLater {};  // No thread had time.

struct Answered {
    RunCommandKind question = RunCommandKind::beat;
    std::optional<core::RunReply> reply = {};  // None: it is not known what came of it.
};
struct TimePassed {
    ShimSeen shim = {};
    SteadyDuration missed = {};  // For how long the server did not listen.
};

}  // namespace event

using WatchEvent =
    std::variant<event::Found, event::Greeted, event::HasStarted, event::HasBeaten, event::HasPaused, event::HasResumed,
                 event::HasEnded, event::ConnectionClosed, event::ChildEnded, event::StopRequested, event::StateChanged,
                 event::BackInLine, event::RunIsOver, event::PlacesFreed, event::RoomLooked, event::PlaceSeen,
                 event::PlaceLater, event::LineLooked, event::Prepared, event::NotPrepared, event::PrepareLater,
                 event::NotSpawned, event::EndLooked, event::LeftoversLooked, event::LeftoversLater, event::Answered,
                 event::TimePassed>;

// ---- actions ----

// A shim without a run ends by itself, and may have a terminal to tell. One that could still begin is killed first.
enum class ItsShim { spared, killed };

namespace action {

struct LookForRoom {};  // -> RoomLooked
struct LookAtLine {};   // -> LineLooked
// Opens what the claimed paths lead to, and holds it if that is what was claimed.
struct LookAtPlace {};  // -> PlaceSeen, PlaceLater
struct Prepare {};      // -> Prepared, NotPrepared, PrepareLater
struct Spawn {};        // -> NotSpawned, ChildEnded
struct HoldAgain {      // The directories of a run that an earlier server had launched.
    pid_t process = 0;  // The run's main process.
};
struct GiveUpPlace {};  // What was opened for the run is closed.
struct DropShims {      // Kills shims that wait for a launch of this run. Their ends say nothing of its next turn.
    shim::ShimState waiting = {};  // One that another server may have started.
};
struct LookAtEnd {  // -> EndLooked
    shim::ShimState shim = {};
};
struct EndLeftovers {  // -> LeftoversLooked, LeftoversLater
    shim::ShimState shim = {};
    ItsShim its_shim = ItsShim::spared;
    bool looks_for_daemons = false;  // A shim that was killed has not proven that nothing is left.
};
struct LookAgain {  // -> TimePassed
    SteadyDuration after = {};
};
struct Submit {  // -> Answered
    RunCommandKind question = RunCommandKind::beat;
    core::CommandBody body = core::HeartbeatRun{};
};
struct Tell {
    ConnectionId connection;
    shim::FromServer message = shim::Done{};
};
struct TellEnd {  // With the receipt, from the committed row, and the note.
    ConnectionId connection;
    std::string note = {};
    bool has_run = false;  // What never ran is refused, so that its shim says why.
};
struct Admit {
    ConnectionId connection;
};
struct ShowOut {
    ConnectionId connection;
};
struct WakeShim {  // Stopped in its terminal, or by its run. It would hear nothing.
    shim::ShimState shim = {};
};
struct KeepPlaces {  // Nothing is begun there before one of the next two has come to its end.
    std::vector<core::Place> places = {};
};
struct LookForRemains {  // Of a run that has ended.
    shim::ShimState shim = {};
};
struct SeeGone {  // Of a run that is not ours any more.
    shim::ShimState shim = {};
    ItsShim its_shim = ItsShim::spared;
};
struct PublishKeeper {
    std::string process = {};
};
struct LogLine {  // With the run's id and one field more, unless its name is empty.
    LogLevel level = LogLevel::warn;
    std::string event = {};
    std::string field = {};
    std::variant<std::string, std::int64_t> value = {};
};
struct Forget {};

}  // namespace action

using Action =
    std::variant<action::LookForRoom, action::LookAtLine, action::LookAtPlace, action::Prepare, action::Spawn,
                 action::HoldAgain, action::GiveUpPlace, action::DropShims, action::LookAtEnd, action::EndLeftovers,
                 action::LookAgain, action::Submit, action::Tell, action::TellEnd, action::Admit, action::ShowOut,
                 action::WakeShim, action::KeepPlaces, action::LookForRemains, action::SeeGone, action::PublishKeeper,
                 action::LogLine, action::Forget>;

// ---- the state ----

namespace phase {

// A terminal waits for its run to be admitted.
struct InLine {
    Moment looked = {};
    std::string told = {};
};
// Its place is being left, or the machine is short of memory.
struct HeldBack {
    Obstacle obstacle = Obstacle::none;
};
// Its directories are being opened.
struct LookingAtPlace {
    std::optional<Moment> again = {};
};
// They are not what was claimed, and the core is told. It keeps the new ones, or puts the run back in line.
struct Restating {
    std::vector<core::Place> places = {};
    std::optional<Moment> again = {};
};
// Its worktree and its launch are being made.
struct Preparing {
    std::optional<Moment> again = {};
};
// Its launch is ready. Its shim is on the way.
struct Ready {
    shim::LaunchOrder launch = {};
    Moment since = {};
};

// What a launched run has in each of the next phases.
struct Work {
    enum class Motion { going, paused, away };  // Away: stopped in its terminal, with its shim.
    Moment deadline = Moment::max();
    Motion motion = Motion::going;
    std::vector<core::RunState> echoes = {};  // What its terminal did, and the feed is going to say.
};
// Its shim has the launch.
struct Launched {
    Work work = {};
};
// Its main process is there, and the core is told.
struct Starting {
    Work work = {};
    std::string sandbox = {};
    std::optional<Moment> again = {};
};
// The core knows that it runs.
struct Running {
    Work work = {};
};
// It was found running. Its shim is to come back.
struct Returning {
    Work work = {};
    bool core_knows = false;
    Moment since = {};
};

// Its shim said how it ended. The server looks for itself.
struct Checking {
    shim::Ended ended = {};
    ItsShim its_shim = ItsShim::spared;
};
// What is left of it is being killed. It keeps its place.
struct Reaping {
    core::CommandBody end = core::LoseRun{};
    ItsShim its_shim = ItsShim::spared;
    std::string keeper = {};
    std::optional<Moment> again = {};
};
// Nothing of it is left. Its end is on the way to the core.
struct Ending {
    enum class After { its_word, never_began, reaping };
    core::CommandBody end = core::LoseRun{};
    After after = After::its_word;
    std::optional<Moment> again = {};
};
// Nothing is to be done for it any more.
struct Over {};

}  // namespace phase

using Phase = std::variant<phase::InLine, phase::HeldBack, phase::LookingAtPlace, phase::Restating, phase::Preparing,
                           phase::Ready, phase::Launched, phase::Starting, phase::Running, phase::Returning,
                           phase::Checking, phase::Reaping, phase::Ending, phase::Over>;

struct Watch {
    Order order = {};
    Phase phase = phase::Over{};
    std::optional<ConnectionId> connection = {};  // The connection of its shim.
    shim::ShimState shim = {};  // The process that is its shim, and what is known of the run's processes.
    Moment heard = {};          // From its shim.
    Moment renewed = {};        // Its lease.
    std::string stop = {};      // Why it is to end; empty: it is not.
    std::string note = {};      // Why its sandbox is weaker than the usual one.
};

struct Step {
    Watch watch = {};
    std::vector<Action> actions = {};
};

// Whether the run was given room, so that its processes may be in its places now or soon.
bool has_room(const Watch& watch);

// Whether another run on this node has room in the places of this one. The core may have given up that run, and the
// feed may not have said so yet. Runs above and below it are no others. `watches` maps ids to them.
template <class Watches>
bool others_have_room_in_places_of(const Watch& watch, const Watches& watches) {
    core::PlaceIndex places;
    for (const core::Place& place : watch.order.places) places.add(watch.order.id, place);
    const auto parent_of = [&](core::RunId id) {
        const auto found = std::ranges::find_if(watches, [&](const auto& each) { return each.second.order.id == id; });
        return found == watches.end() ? core::RunId() : found->second.order.parent;
    };
    const auto is_above = [&](const Order& above, const Order& below) {
        core::RunId at = below.parent;
        while (!at.value.empty() && at != above.id) at = parent_of(at);
        return at == above.id;
    };
    return std::ranges::any_of(watches, [&](const auto& each) {
        const Watch& other = each.second;
        return other.order.id != watch.order.id && has_room(other) &&
               std::ranges::any_of(other.order.places,
                                   [&](const core::Place& place) { return places.collides(place, other.order.id); }) &&
               !is_above(other.order, watch.order) && !is_above(watch.order, other.order);
    });
}

// For a run that was not watched until now.
Step first_step(const event::Found& found, Moment now);
Step next_step(Watch watch, const WatchEvent& event, Moment now);

}  // namespace interlock::supervisor
