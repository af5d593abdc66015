#include "sim/supervised_story.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/id.h"
#include "core/feed.h"
#include "store/memory_database.h"
#include "store/memory_store.h"

namespace interlock::sim {
namespace {

using namespace std::chrono_literals;
using namespace core;
using Mishap = Conduct::Mishap;

constexpr OrgId the_org(1);
constexpr SteadyDuration step_length = 50ms;
constexpr std::size_t supervised_violations_shown = 5;
constexpr std::uint64_t calm_supervised_steps_max = 40'000;
constexpr std::int64_t grace_s = 1;
// Beyond the deadline of a run: the server looks every 250 ms, and to kill takes a moment.
constexpr SteadyDuration deadline_slack = 6s;

class SupervisedWorld {
 public:
    explicit SupervisedWorld(const SupervisedOptions& options);

    SupervisedResult tell();

 private:
    struct Node {
        std::string name;
        std::unique_ptr<Machine> machine;
        std::unique_ptr<Supervising> server;
        Moment back_at = {};
        SteadyDuration down = {};  // In all, asleep or not there.
        Moment down_since = {};
    };
    struct Wish {  // A run that a user has asked for.
        Conduct conduct;
        std::size_t node = 0;
        bool disturbed = false;  // By others than itself, so that its end is not known beforehand.
        std::uint64_t mains = 0;
        SteadyDuration down_before = {};  // When its main process began.
    };

    void make_node(std::size_t number);
    void step();
    void use();
    void ask(std::size_t node);
    void disturb_someone();
    void move_someone();
    void trouble(Node& node);
    void run_agenda();
    void submit(engine::Submission submission);
    void ask_until_answered(engine::Submission submission);
    void open_engine();
    void after(SteadyDuration delay, std::function<void()> what) { agenda_.emplace(now_ + delay, std::move(what)); }
    std::optional<Run> row(RunId run) const;
    std::optional<Launch> launch_of(RunId run) const;
    Instant instant() const {
        return from_micros(1'767'225'000'000'000) + std::chrono::duration_cast<Duration>(now_ - Moment());
    }

    void process_began(std::size_t node, RunId run, const SimProcess& process);
    void says_end(RunId run, Fence fence, bool asked_again);
    void check_deadlines();
    void check_the_end();
    void violated(Promise promise, std::string text);
    void note(const std::string& line);
    std::string text(RunId run) const { return to_text("run", run.value); }

    const SupervisedOptions options_;
    Random random_;
    Moment now_ = Moment(1000h);
    bool calm_ = false;
    std::uint64_t steps_ = 0;
    const std::uint32_t commit_faults_, lost_answers_, dying_, freezes_;
    std::shared_ptr<store::MemoryDatabase> database_ = std::make_shared<store::MemoryDatabase>();
    std::unique_ptr<store::MemoryStore> store_;
    std::unique_ptr<engine::Engine> engine_;
    std::deque<Event> feed_;
    std::multimap<Moment, std::function<void()>> agenda_;
    std::vector<Node> nodes_;
    std::map<RunId, Wish> wishes_;
    std::map<RunId, std::map<Fence, int>> ends_said_;
    std::uint64_t asked_ = 0;
    std::map<CommandKey, engine::Submission> unanswered_;  // Of users.
    Findings findings_;
    SupervisedResult result_;
};

SupervisedWorld::SupervisedWorld(const SupervisedOptions& options)
    : options_(options),
      random_(options.seed ^ 0x5AFE5AFE5AFE5AFEull),
      commit_faults_(random_.percent(50) ? 0 : 40'000),
      lost_answers_(random_.percent(50) ? 0 : 15),
      dying_(random_.percent(30)   ? 0
             : random_.percent(50) ? 2'000
                                   : 20'000),
      freezes_(random_.percent(60)   ? 0
               : random_.percent(50) ? 500
                                     : 4'000) {
    result_.seed = options.seed;
    result_.hash = 0xCBF29CE484222325ull;
    database_->on_written = [this](const store::WriteSet& writes) {
        for (const store::OrgWrites& of_org : writes.orgs) {
            for (const FeedPage* page : of_org.of<FeedPage>().put) {
                const auto events = events_of(*page);
                if (events) feed_.insert(feed_.end(), events->begin(), events->end());
            }
        }
    };
    store_ = std::make_unique<store::MemoryStore>(database_);
    store_->set_faults({.at_commit =
                            [this] {
                                if (calm_ || !random_.chance(commit_faults_)) return store::CommitFault::none;
                                return random_.pick({store::CommitFault::fail_before, store::CommitFault::lose_answer,
                                                     store::CommitFault::lose_write});
                            },
                        .at_load = {},
                        .at_open = {}});
    open_engine();
    calm_ = true;
    const auto set_up = [&](CommandBody body) {
        engine::Submission submission;
        submission.command.org = the_org;
        submission.command.key = CommandKey(Id{7, ++asked_});
        submission.command.body = std::move(body);
        submit(std::move(submission));
        engine_->step(instant());
    };
    set_up(CreateOrg{"org"});
    PutAgent agent;
    agent.name = "agent";
    agent.max_concurrent_runs = 8;  // Places keep runs apart, not the agent.
    set_up(agent);
    calm_ = false;
    asked_ = 0;
    const std::uint64_t count = random_.pick({1u, 1u, 2u, 3u});
    for (std::size_t i = 0; i < count; ++i) nodes_.emplace_back();
    for (std::size_t i = 0; i < count; ++i) make_node(i);
}

// What was queued is lost with the server. Users ask again.
void SupervisedWorld::open_engine() {
    engine_ = std::make_unique<engine::Engine>(*store_, engine::Engine::Options{});
    (void)engine_->open(instant());
    for (const auto& [key, submission] : unanswered_) engine_->submit(submission);
}

void SupervisedWorld::make_node(std::size_t number) {
    Node& node = nodes_[number];
    node.name = fmt::format("node-{}", number + 1);
    // With several nodes a run can be given up while its server is away. What nothing but its directory connects with
    // the run is then not found.
    const bool has_cgroups = nodes_.size() > 1 || random_.percent(50);
    node.machine = std::make_unique<Machine>(
        random_, has_cgroups,
        Machine::Hooks{
            .after = [this](SteadyDuration delay, auto what) { after(delay, std::move(what)); },
            .process_began = [this, number](RunId run,
                                            const SimProcess& process) { process_began(number, run, process); },
            .to_server =
                [&node](supervisor::ConnectionId connection, pid_t pid, std::optional<shim::FromShim> message) {
                    if (node.server) node.server->hear(connection, pid, message);
                },
            .server_is_up = [&node] { return node.server != nullptr && node.server->is_up(); },
            .child_ended = [&node](RunId run, bool another_has_it) { node.server->child_ended(run, another_has_it); }});
    node.server = std::make_unique<Supervising>(
        node.name, random_, *node.machine, options_.fault,
        Supervising::Hooks{
            .after = [this](SteadyDuration delay, auto what) { after(delay, std::move(what)); },
            .submit = [this](engine::Submission submission) { submit(std::move(submission)); },
            .run = [this](RunId run) { return row(run); },
            .launch = [this](RunId run) { return launch_of(run); },
            .unfinished =
                [this, &node] {
                    std::vector<Run> runs;
                    for (const auto& [key, run] : database_->rows<Run>()) {
                        if (run.supervised && run.node == node.name && !has_ended(run.state)) runs.push_back(run);
                    }
                    return runs;
                },
            .spawn =
                [this, &node](RunId run, const std::string& secret) {
                    if (const auto wish = wishes_.find(run); wish != wishes_.end()) {
                        node.machine->start_shim(run, wish->second.conduct, secret);
                    }
                },
            .lost_answers = [this] { return calm_ ? 0 : lost_answers_; },
            .feed = [this]() -> const std::deque<Event>& { return feed_; },
            .now = [this] { return now_; },
            .says_end = [this](RunId run, Fence fence, bool asked_again) { says_end(run, fence, asked_again); },
            .dies = [this] { return !calm_ && random_.chance(dying_ / 10); },
            .died =
                [this, &node] {
                    ++result_.restarts;
                    for (const auto& [run, wish] : wishes_) {
                        if (&nodes_[wish.node] == &node) ends_said_.erase(run);
                    }
                    node.down_since = now_;
                    node.back_at = now_ + std::chrono::milliseconds(random_.spread(15'000) + 50);
                    note(node.name + " dies");
                },
            .note =
                [this, &node](const std::string& line) {
                    if (options_.trace) note(node.name + ": " + line);
                }});
    node.server->start();
}

std::optional<Run> SupervisedWorld::row(RunId run) const {
    const auto& rows = database_->rows<Run>();
    const auto found = rows.find({the_org, run});
    return found == rows.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Launch> SupervisedWorld::launch_of(RunId run) const {
    const auto& rows = database_->rows<Launch>();
    const auto found = rows.find({the_org, run});
    return found == rows.end() ? std::nullopt : std::optional(found->second);
}

// ---- the story -----------------------------------------------------------------------------------------------------

SupervisedResult SupervisedWorld::tell() {
    while (asked_ < options_.runs && findings_.count() == 0) step();
    // Some more time for what goes on, and then no more troubles.
    for (int i = 0; i < 400 && findings_.count() == 0; ++i) step();
    calm_ = true;
    const auto idle = [&] {
        const bool ended =
            std::ranges::all_of(database_->rows<Run>(), [](const auto& each) { return has_ended(each.second.state); });
        return ended && std::ranges::all_of(nodes_, [](const Node& node) {
                   return node.server->is_up() && node.server->watched() == 0 && node.server->kept() == 0 &&
                          node.machine->shim_count() == 0 && node.machine->processes().empty();
               });
    };
    for (std::uint64_t i = 0; i < calm_supervised_steps_max && !idle() && findings_.count() == 0; ++i) {
        step();
        // The shim of a run that was lost may stand still for as long as no person wakes it.
        const bool watched = std::ranges::any_of(nodes_, [](const Node& node) { return node.server->watched() > 0; });
        if (!watched) std::ranges::for_each(nodes_, [](const Node& node) { node.machine->wake_all(); });
    }
    if (findings_.count() == 0) check_the_end();
    result_.steps = steps_;
    result_.violation_count = findings_.count();
    result_.violations = findings_.violations();
    return result_;
}

void SupervisedWorld::step() {
    findings_.at_step(++steps_);
    now_ += step_length;
    run_agenda();
    for (Node& node : nodes_) {
        trouble(node);
        node.machine->step(now_);
        node.server->step();
    }
    if (!calm_) use();
    // A server that is alone takes its engine with it. Of several, another one goes on.
    const bool served = nodes_.size() > 1 || (nodes_[0].server->is_up() && !nodes_[0].server->stands_still());
    if (served) engine_->step(instant());
    check_deadlines();
}

void SupervisedWorld::run_agenda() {
    while (!agenda_.empty() && agenda_.begin()->first <= now_) {
        const auto due = agenda_.extract(agenda_.begin());
        due.mapped()();
    }
}

void SupervisedWorld::trouble(Node& node) {
    Supervising& server = *node.server;
    const auto is_away = [&] { return !server.is_up() || server.stands_still(); };
    if (is_away()) node.down += step_length;
    if (is_away() || server.is_cut_off()) {
        for (auto& [run, wish] : wishes_) {
            const SteadyDuration away = now_ - node.down_since;
            if (&nodes_[wish.node] == &node && away > std::chrono::seconds(wish.conduct.lease_s) / 2) {
                wish.disturbed = true;
            }
        }
    }
    if (!server.is_up()) {
        if (now_ < node.back_at && !calm_) return;
        note(node.name + " is back");
        if (nodes_.size() == 1) {
            open_engine();
        }
        return server.start();
    }
    if (calm_ || is_away() || server.is_cut_off()) return;
    if (random_.chance(dying_)) return server.die();
    if (!random_.chance(freezes_)) return;
    if (nodes_.size() > 1 && random_.percent(60)) {
        node.down_since = now_;
        note(node.name + " is cut off");
        return server.cut_off(now_ + std::chrono::milliseconds(random_.spread(30'000)));
    }
    node.down_since = now_;
    server.stand_still(now_ + std::chrono::milliseconds(random_.spread(20'000)));
    if (nodes_.size() == 1) engine_->stood_still();
    note(node.name + " stands still");
}

// ---- users ---------------------------------------------------------------------------------------------------------

void SupervisedWorld::use() {
    if (asked_ < options_.runs && random_.percent(4)) ask(random_.below(nodes_.size()));
    if (random_.chance(3'000)) disturb_someone();
    if (random_.chance(6'000)) move_someone();
}

void SupervisedWorld::ask(std::size_t node) {
    const RunId id(Id{0x1000 + ++asked_, random_.next()});
    Wish wish{.conduct = {}, .node = node};
    Conduct& conduct = wish.conduct;
    if (random_.percent(65)) {
        conduct.mishap = static_cast<Mishap>(random_.below(static_cast<std::uint64_t>(Mishap::away) + 1));
        ++result_.mishaps;
    }
    conduct.foreground = random_.percent(30);
    conduct.takes = std::chrono::milliseconds(random_.between(100, 20'000));
    conduct.mishap_after = std::chrono::milliseconds(random_.between(0, 8'000));
    conduct.lasts = std::chrono::milliseconds(random_.between(100, 40'000));
    conduct.after_kill = random_.percent(50);
    conduct.code = random_.percent(70) ? 0 : 3;
    conduct.timeout_s = random_.percent(50) ? 0 : random_.between(3, 12);
    conduct.lease_s = random_.pick({10, 60, 600});
    conduct.place = fmt::format("/w/{}", random_.below(2));
    if (conduct.mishap == Mishap::kills_shim && !nodes_[node].machine->has_cgroups() && nodes_.size() > 1) {
        conduct.mishap = Mishap::none;
    }
    AdmitRun admit;
    admit.run = id;
    admit.who.agent = "agent";
    admit.node = nodes_[node].name;
    admit.places = {{ClaimKind::workspace, nodes_[node].name, conduct.place, {}, ClaimMode::write}};
    admit.on_conflict = random_.percent(85) ? OnConflict::queue : OnConflict::refuse;
    admit.lease_s = conduct.lease_s;
    admit.process = ProcessSpec{};
    admit.process->command = {"agent"};
    admit.process->timeout_s = conduct.timeout_s;
    admit.process->grace_s = grace_s;
    admit.process->foreground = conduct.foreground;
    wishes_[id] = wish;
    note(fmt::format("{} is asked for on {}: mishap {}{}", text(id), admit.node, static_cast<int>(conduct.mishap),
                     conduct.foreground ? ", in a terminal" : ""));
    engine::Submission submission;
    submission.command.org = the_org;
    submission.command.key = CommandKey(Id{9, asked_});
    submission.command.body = admit;
    submission.on_answer = [this, id](const engine::SubmitResult& answer) {
        const Wish& wish = wishes_[id];
        const bool refused = answer && std::get<AdmitReply>(answer->reply).status == AdmitStatus::workspace_busy;
        if (!wish.conduct.foreground || refused) return;
        // The terminal's shim has its secret from the answer.
        Machine& machine = *nodes_[wish.node].machine;
        const std::string secret = fmt::format("of the terminal of {}", text(id));
        machine.secrets[id].insert(secret);
        machine.start_shim(id, wish.conduct, secret);
    };
    ask_until_answered(std::move(submission));
}

void SupervisedWorld::ask_until_answered(engine::Submission submission) {
    const CommandKey key = submission.command.key;
    const auto then = submission.on_answer;
    submission.on_answer = [this, key, then](const engine::SubmitResult& answer) {
        const auto found = unanswered_.find(key);
        if (found == unanswered_.end()) return;
        if (!answer) return after(500ms, [this, again = found->second] { submit(again); });
        unanswered_.erase(found);
        then(answer);
    };
    unanswered_[key] = submission;
    submit(submission);
}

void SupervisedWorld::disturb_someone() {
    if (wishes_.empty()) return;
    auto wish = wishes_.begin();
    std::advance(wish, static_cast<std::ptrdiff_t>(random_.below(wishes_.size())));
    wish->second.disturbed = true;
    engine::Submission submission;
    submission.command.org = the_org;
    submission.command.key = CommandKey(Id{11, random_.next()});
    switch (random_.below(3)) {
        case 0:
            submission.command.body = CancelRun{wish->first, {}, "no more need", {}};
            break;
        case 1:
            submission.command.body = PauseRun{wish->first, {}};
            break;
        default:
            submission.command.body = ResumeRun{wish->first, {}};
    }
    submission.on_answer = [](const engine::SubmitResult&) {};
    ask_until_answered(std::move(submission));
}

// A directory is moved while its run works, into the one that some runs have by now. Those that have not begun there
// lose it.
void SupervisedWorld::move_someone() {
    std::vector<Run> running;
    for (const auto& [key, run] : database_->rows<Run>()) {
        if (run.state == RunState::running) running.push_back(run);
    }
    if (running.empty()) return;
    const Run& moved = random_.pick(running);
    for (auto& [id, wish] : wishes_) {
        const auto run = row(id);
        wish.disturbed = wish.disturbed || id == moved.id || (run && run->state == RunState::starting);
    }
    RestatePlaces restate{moved.id, moved.fence, moved.wanted, "it was moved"};
    restate.workspaces.front().chain = {"moved", "another directory"};
    engine::Submission submission;
    submission.command.org = the_org;
    submission.command.body = std::move(restate);
    submit(std::move(submission));
}

void SupervisedWorld::submit(engine::Submission submission) {
    ++result_.commands;
    if (!submission.on_answer) submission.on_answer = [](const engine::SubmitResult&) {};
    engine_->submit(std::move(submission));
}

// ---- what is checked -----------------------------------------------------------------------------------------------

// P5 over the lives of processes.
void SupervisedWorld::process_began(std::size_t node, RunId run, const SimProcess& process) {
    Wish& wish = wishes_[run];
    const Machine& machine = *nodes_[node].machine;
    for (const auto& [pid, other] : machine.processes()) {
        if (other.run == run || other.place != process.place || machine.is_excused(pid)) continue;
        violated(Promise::one_worker_per_place,
                 fmt::format("{} began in {} of {} while process {} of {} was there", text(run), process.place,
                             nodes_[node].name, pid, text(other.run)));
    }
    if (process.main) {
        ++result_.began;
        wish.down_before = nodes_[node].down;
        if (++wish.mains > 1) violated(Promise::nothing_twice, text(run) + " was started twice");
    }
    note(fmt::format("process {} of {} begins", process.pid, text(run)));
}

// P3: a server reports the end of a turn once, and again only if it is not known what came of the report. A server that
// was asleep reports an end under the old fence. Then it learns that the run has another turn, and reports its end too.
void SupervisedWorld::says_end(RunId run, Fence fence, bool asked_again) {
    if (asked_again) return;
    if (++ends_said_[run][fence] > 1) violated(Promise::nothing_twice, text(run) + " was said to have ended twice");
}

// P9: no run works on for long after its time.
void SupervisedWorld::check_deadlines() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const Machine& machine = *nodes_[i].machine;
        for (const auto& [pid, process] : machine.processes()) {
            const Wish& wish = wishes_[process.run];
            if (!process.main || wish.conduct.timeout_s == 0 || machine.is_away(process.run)) continue;
            if (wish.conduct.mishap == Mishap::stuck_process) continue;
            const SteadyDuration down = nodes_[i].down - wish.down_before;
            const SteadyDuration allowed =
                std::chrono::seconds(wish.conduct.timeout_s + grace_s + 5) + deadline_slack + down;
            if (machine.age_of_main(process.run) <= allowed) continue;
            violated(Promise::nobody_forgotten, text(process.run) + " works on long after its timeout");
        }
    }
}

// P9: every run has ended, and nothing of it is left. P10: where nothing was in the way, as its process did.
void SupervisedWorld::check_the_end() {
    for (const auto& [key, run] : database_->rows<Run>()) {
        if (!has_ended(run.state)) {
            violated(Promise::nobody_forgotten, text(run.id) + " never ends");
            continue;
        }
        const Wish& wish = wishes_[run.id];
        const bool harmless = wish.conduct.mishap == Mishap::none || wish.conduct.mishap == Mishap::forged_shim ||
                              wish.conduct.mishap == Mishap::twin_shim || wish.conduct.mishap == Mishap::forged_end ||
                              wish.conduct.mishap == Mishap::leaves_child;
        // A process with the secret does not speak for a run whose shim was killed.
        const bool killed = wish.conduct.mishap == Mishap::twin_shim && wish.conduct.after_kill;
        if (killed && wish.mains > 0 && nodes_[wish.node].machine->has_spoken(run.id) &&
            run.state == RunState::succeeded) {
            violated(Promise::honest_answers, text(run.id) + " ended as a process said that was not its shim");
        }
        const bool in_time = wish.conduct.timeout_s == 0 ||
                             wish.conduct.takes + wish.conduct.lasts < std::chrono::seconds(wish.conduct.timeout_s);
        if (wish.disturbed || !harmless || killed || !in_time || wish.conduct.foreground || wish.mains == 0) continue;
        const RunState truly = wish.conduct.code == 0 ? RunState::succeeded : RunState::failed;
        if (run.state != truly) {
            violated(Promise::honest_answers,
                     fmt::format("{} ended as its process did not: {}", text(run.id), run.reason));
        }
        ++result_.told_truly;
    }
    for (const Node& node : nodes_) {
        for (const auto& [pid, process] : node.machine->processes()) {
            violated(Promise::nobody_forgotten, fmt::format("process {} of {} is left", pid, text(process.run)));
        }
        if (node.machine->shim_count() > 0) violated(Promise::nobody_forgotten, "a shim is left on " + node.name);
        if (node.server->watched() > 0) violated(Promise::nobody_forgotten, node.name + " watches a run for ever");
        if (node.server->kept() > 0) violated(Promise::nobody_forgotten, node.name + " keeps a place for ever");
    }
}

void SupervisedWorld::violated(Promise promise, std::string text) {
    note("VIOLATED " + text);
    findings_.violated(promise, std::move(text));
}

void SupervisedWorld::note(const std::string& line) {
    for (const char byte : line) {
        result_.hash = (result_.hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3ull;
    }
    if (options_.trace) {
        fmt::print("{:6} {:9.2f} {}\n", steps_, std::chrono::duration<double>(now_ - Moment(1000h)).count(), line);
    }
}

}  // namespace

SupervisedResult tell_supervised_story(const SupervisedOptions& options) { return SupervisedWorld(options).tell(); }

std::string describe_violations(const SupervisedResult& result) {
    std::string text = fmt::format("supervised seed {}: {} violations\n", result.seed, result.violation_count);
    for (std::size_t i = 0; i < std::min(result.violations.size(), supervised_violations_shown); ++i) {
        const Violation& violation = result.violations[i];
        text += fmt::format("  step {}: {}: {}\n", violation.step,
                            boost::describe::enum_to_string(violation.promise, "?"), violation.text);
    }
    return text + fmt::format("  to see it again: ./dev sim --seed {} --supervised\n", result.seed);
}

}  // namespace interlock::sim
