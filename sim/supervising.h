// The server's part of a supervised story: the real machine of supervisor/watch.h, and a thin supervisor around it that
// reads rows, hears shims and carries actions out in virtual time. It dies between any two actions and starts again.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/event.h"
#include "engine/engine.h"
#include "sim/machine.h"
#include "supervisor/watch.h"

namespace interlock::sim {

// What no supervisor may do, done so that a checker can be seen to notice.
enum class SupervisorFault {
    none,
    frees_places_early,    // It says that nothing is left of a run without a look.
    believes_second_shim,  // Any process that says it is a run's shim is taken for the one that is known.
    reports_end_twice,
    forgets_timeouts,  // After a restart the time that a run may take begins anew.
};

class Supervising {
 public:
    struct Hooks {
        std::function<void(SteadyDuration, std::function<void()>)> after;
        std::function<void(engine::Submission)> submit;
        std::function<std::optional<core::Run>(core::RunId)> run;
        std::function<std::optional<core::Launch>(core::RunId)> launch;
        std::function<std::vector<core::Run>()> unfinished;  // Of this node.
        std::function<void(core::RunId, const std::string& secret)> spawn;
        std::function<std::uint32_t()> lost_answers;  // Percent.
        std::function<const std::deque<core::Event>&()> feed;
        std::function<Moment()> now;
        // A command that says how a run ended.
        std::function<void(core::RunId, core::Fence, bool asked_again)> says_end;
        std::function<bool()> dies;  // Between two actions.
        std::function<void()> died;
        std::function<void(const std::string&)> note;  // For a trace.
    };
    Supervising(std::string node, Random& random, Machine& machine, SupervisorFault fault, Hooks hooks)
        : node_(std::move(node)), random_(random), machine_(machine), fault_(fault), hooks_(std::move(hooks)) {}

    bool is_up() const { return up_; }
    void start();
    void die();
    void stand_still(Moment until) { stands_until_ = until; }
    // From the database that all nodes share: it hears of no commit, and learns nothing of its commands.
    void cut_off(Moment until) { cut_off_until_ = until; }
    bool is_cut_off() const { return hooks_.now() < cut_off_until_; }
    bool stands_still() const { return hooks_.now() < stands_until_; }
    void step();
    std::string issue(core::RunId run);
    void hear(supervisor::ConnectionId connection, pid_t pid, const std::optional<shim::FromShim>& message);
    void child_ended(core::RunId run, bool another_has_it);
    std::size_t watched() const { return watches_.size(); }
    std::size_t kept() const { return kept_.size(); }

 private:
    struct Happened {
        core::RunId run;
        supervisor::WatchEvent event;
    };
    struct Heard {
        supervisor::ConnectionId connection;
        pid_t pid = 0;
        std::optional<shim::FromShim> message;
    };

    void follow();
    void look_up(core::RunId run);
    void look_whether_back_in_line(core::RunId run);
    void take_on(const core::Run& row);
    void take(const Heard& heard);
    void greet(const Heard& heard, const shim::Hello& hello);
    supervisor::ShimSeen look_at(const supervisor::Watch& watch) const;
    supervisor::Proof prove(core::RunId run, const std::string& secret) const;
    void happens(core::RunId run, supervisor::WatchEvent event) { happened_.push_back({run, std::move(event)}); }
    // After a while, if this server is still there and the run has this fence.
    void later(core::RunId run, core::Fence fence, SteadyDuration after, std::function<supervisor::WatchEvent()> event);
    void alive_after(SteadyDuration after, std::function<void()> what);
    void settle();
    void apply(core::RunId run, supervisor::Step step);
    void see_gone(core::RunId run, const shim::ShimState& shim, supervisor::ItsShim its_shim);
    void free(core::RunId run);
    bool is_kept(const std::vector<core::Place>& places) const;
    SteadyDuration moment() { return std::chrono::milliseconds(random_.between(1, 300)); }

    void carry_out(const supervisor::Watch& watch, const supervisor::action::LookForRoom&);
    void carry_out(const supervisor::Watch& watch, const supervisor::action::LookAtPlace&);
    void carry_out(const supervisor::Watch&, const supervisor::action::HoldAgain&) {}
    void carry_out(const supervisor::Watch&, const supervisor::action::GiveUpPlace&) {}
    void carry_out(const supervisor::Watch& watch, const supervisor::action::DropShims&);
    void carry_out(const supervisor::Watch& watch, const supervisor::action::LookAtLine&);
    void carry_out(const supervisor::Watch& watch, const supervisor::action::Prepare&);
    void carry_out(const supervisor::Watch& watch, const supervisor::action::Spawn&);
    void carry_out(const supervisor::Watch& watch, const supervisor::action::LookAtEnd& look);
    void carry_out(const supervisor::Watch& watch, const supervisor::action::EndLeftovers& end);
    void carry_out(const supervisor::Watch& watch, const supervisor::action::LookAgain& look);
    void carry_out(const supervisor::Watch& watch, const supervisor::action::Submit& submit);
    void carry_out(const supervisor::Watch&, const supervisor::action::Tell& tell);
    void carry_out(const supervisor::Watch&, const supervisor::action::TellEnd& tell);
    void carry_out(const supervisor::Watch&, const supervisor::action::Admit&) {}
    void carry_out(const supervisor::Watch&, const supervisor::action::ShowOut& out);
    void carry_out(const supervisor::Watch&, const supervisor::action::WakeShim& wake);
    void carry_out(const supervisor::Watch& watch, const supervisor::action::KeepPlaces& keep);
    void carry_out(const supervisor::Watch& watch, const supervisor::action::LookForRemains& look);
    void carry_out(const supervisor::Watch& watch, const supervisor::action::SeeGone& see);
    void carry_out(const supervisor::Watch&, const supervisor::action::PublishKeeper&) {}
    void carry_out(const supervisor::Watch&, const supervisor::action::LogLine&) {}
    void carry_out(const supervisor::Watch& watch, const supervisor::action::Forget&);

    const std::string node_;
    Random& random_;
    Machine& machine_;
    const SupervisorFault fault_;
    const Hooks hooks_;
    bool up_ = false;
    std::uint64_t life_ = 0;
    std::uint64_t secrets_ = 0;
    Moment stands_until_ = {};
    Moment cut_off_until_ = {};
    Moment looked_ = {};
    std::size_t cursor_ = 0;  // Of the feed.
    std::map<core::RunId, supervisor::Watch> watches_;
    std::map<std::uint64_t, core::RunId> by_connection_;
    std::map<core::RunId, std::vector<core::Place>> kept_;
    std::deque<Happened> happened_;
    std::deque<Heard> heard_;
    std::set<core::RunId> unknown_ends_;  // Submitted, with no answer that says what came of it.
};

}  // namespace interlock::sim
