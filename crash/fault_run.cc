#include "crash/fault_run.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "base/codec.h"
#include "base/ensure.h"
#include "crash/examples.h"
#include "crash/history.h"
#include "crash/power_loss.h"
#include "crash/power_loss_vfs.h"
#include "crash/stored_state.h"
#include "crash/workload.h"
#include "engine/engine.h"

namespace interlock::crash {

namespace {

constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

// Where every run begins: a store with something in it, and the client in the middle of its work.
struct Beginning {
    std::uint64_t seed = 0;
    Image closed;   // As the store was closed in order.
    Image crashed;  // As a kill left it, the log full of commits.
    StoredState state;
    Workload workload{0};
};

// What goes on when the fault strikes.
enum class Scene { working, opening, creating, closing };

std::string_view to_text(Scene scene) {
    switch (scene) {
        case Scene::working:
            return "while working";
        case Scene::opening:
            return "while opening what a kill left";
        case Scene::creating:
            return "while a store is made";
        case Scene::closing:
            return "while closing";
    }
    ensure(false, "every scene has a name");
}

Result<Beginning, std::string> make_beginning(std::uint64_t seed) {
    PowerLossVfs vfs(Overwrite::powersafe);
    Disk disk;
    vfs.mount(disk);
    Beginning beginning{.seed = seed, .closed = {}, .crashed = {}, .state = {}, .workload = Workload(seed)};
    const auto store = make_store(vfs);
    if (const auto opened = store->open(); !opened) return fail(opened.error().detail);
    engine::Engine engine(*store, {});
    if (const auto opened = engine.open(beginning.workload.now()); !opened) return fail(opened.error().detail);
    for (std::size_t i = 0; i < 6; ++i) {
        for (const auto& command : i == 0 ? beginning.workload.setup() : beginning.workload.next_batch()) {
            engine.submit({.command = command, .on_answer = [&, command](const engine::SubmitResult& answer) {
                               if (answer) beginning.workload.heard(command, answer->reply);
                           }});
        }
        engine.step(beginning.workload.now());
    }
    auto state = read_state(*store);
    if (!state) return fail(state.error());
    beginning.state = std::move(*state);
    beginning.crashed = disk.contents();
    store->close();
    beginning.closed = disk.contents();
    return beginning;
}

// One client, one engine, one fault.
class Run {
 public:
    Run(const Beginning& beginning, Scene scene, Fault fault, std::size_t batches, FaultTally& tally)
        : beginning_(beginning),
          scene_(scene),
          fault_(fault),
          batches_(batches),
          tally_(tally),
          mounted_(scene == Scene::creating  ? Image()
                   : scene == Scene::opening ? beginning.crashed
                                             : beginning.closed),
          workload_(scene == Scene::creating ? Workload(beginning.seed) : beginning.workload),
          vfs_(Overwrite::powersafe),
          disk_(mounted_) {
        vfs_.mount(disk_);
        store_ = make_store(vfs_);
    }

    // What went wrong; empty: nothing.
    std::string run();

    std::array<std::uint64_t, call_kinds> calls = {};  // That the disk saw while it could fail.

 private:
    std::string work();
    std::string open_up();
    std::string close_down();
    std::string send(engine::Engine& engine, const std::vector<core::Command>& commands);
    void hear(const core::Command& command, const engine::SubmitResult& answer);
    std::string check_what_is_left();
    std::string check_image(const Image& image, std::string_view what);
    std::string recover(engine::Engine& engine);
    std::string ask_again(engine::Engine& engine);
    void fault_is_over();

    const Beginning& beginning_;
    const Scene scene_;
    const Fault fault_;
    const std::size_t batches_;
    FaultTally& tally_;
    const Image mounted_;  // What the disk began with.
    Workload workload_;
    PowerLossVfs vfs_;
    Disk disk_;
    std::unique_ptr<store::Store> store_;
    std::map<Id, std::pair<core::Command, std::string>> acknowledged_;  // With the answer, encoded.
    std::map<Id, core::Command> not_done_;
    std::map<Id, core::Command> unknown_;
};

std::string Run::run() {
    switch (scene_) {
        case Scene::working:
            return work();
        case Scene::opening:
        case Scene::creating:
            return open_up();
        case Scene::closing:
            return close_down();
    }
    ensure(false, "every scene is played");
}

std::string Run::work() {
    engine::Engine engine(*store_, {});
    if (const auto opened = engine.open(workload_.now()); !opened) return "it does not open: " + opened.error().detail;

    disk_.set_fault(fault_);
    for (std::size_t i = 0; i < batches_; ++i) {
        const bool struck_before = disk_.fault_has_struck();
        if (auto wrong = send(engine, workload_.next_batch()); !wrong.empty()) return wrong;
        if (disk_.fault_has_struck() && !struck_before) {
            if (auto wrong = check_what_is_left(); !wrong.empty()) return wrong;
        }
    }
    if (fault_.lasting) {
        if (auto wrong = check_what_is_left(); !wrong.empty()) return "at the end: " + wrong;
    }
    fault_is_over();
    return recover(engine);
}

std::string Run::open_up() {
    disk_.set_fault(fault_);
    engine::Engine engine(*store_, {});
    if (engine.open(workload_.now())) {
        const auto commands = scene_ == Scene::creating ? workload_.setup() : workload_.next_batch();
        if (auto wrong = send(engine, commands); !wrong.empty()) return wrong;
    }
    if (auto wrong = check_what_is_left(); !wrong.empty()) return wrong;
    fault_is_over();
    if (const auto opened = engine.open(workload_.now()); !opened) {
        return "the disk is well again, but it does not open: " + opened.error().detail;
    }
    return recover(engine);
}

std::string Run::close_down() {
    engine::Engine engine(*store_, {});
    if (const auto opened = engine.open(workload_.now()); !opened) return "it does not open: " + opened.error().detail;
    if (auto wrong = send(engine, workload_.next_batch()); !wrong.empty()) return wrong;

    disk_.set_fault(fault_);
    store_->close();
    if (auto wrong = check_what_is_left(); !wrong.empty()) return wrong;
    fault_is_over();
    if (const auto opened = engine.open(workload_.now()); !opened) {
        return "the disk is well again, but it does not open: " + opened.error().detail;
    }
    return recover(engine);
}

void Run::fault_is_over() {
    for (std::size_t i = 0; i < call_kinds; ++i) calls[i] = disk_.calls(static_cast<Call>(i));
    if (disk_.fault_has_struck()) ++tally_.struck;
    disk_.clear_fault();
}

std::string Run::recover(engine::Engine& engine) {
    if (auto wrong = ask_again(engine); !wrong.empty()) return wrong;
    if (auto wrong = check_what_is_left(); !wrong.empty()) return "asked again: " + wrong;
    return verify_text(*store_);
}

std::string Run::send(engine::Engine& engine, const std::vector<core::Command>& commands) {
    std::size_t heard = 0;
    for (const core::Command& command : commands) {
        engine.submit({.command = command, .on_answer = [&, command](const engine::SubmitResult& answer) {
                           ++heard;
                           hear(command, answer);
                       }});
    }
    for (std::size_t steps = 0; heard < commands.size() && steps < 100; ++steps) engine.step(workload_.now());
    return heard == commands.size() ? "" : fmt::format("{} of {} commands were answered", heard, commands.size());
}

void Run::hear(const core::Command& command, const engine::SubmitResult& answer) {
    const Id key = command.key.value;
    if (answer) {
        ++tally_.done;
        unknown_.erase(key);
        not_done_.erase(key);
        workload_.heard(command, answer->reply);
        if (answer->repeated || says_done(answer->reply)) {
            acknowledged_.emplace(key, std::pair(command, encode(answer->reply)));
        }
    } else if (answer.error() == engine::SubmitError::outcome_unknown) {
        ++tally_.unknown;
        unknown_.emplace(key, command);
    } else {
        ++tally_.not_done;
        not_done_.emplace(key, command);
    }
}

std::string Run::check_what_is_left() {
    if (auto wrong = check_image(disk_.contents(), "killed"); !wrong.empty()) return wrong;
    Medium medium(mounted_, Overwrite::powersafe);
    for (const Change& change : disk_.log()) medium.follow(change);
    Random random(fault_.at);
    for (const Loss loss : {Loss::dropped, Loss::torn}) {
        if (auto wrong = check_image(medium.after(loss, random), to_text(loss)); !wrong.empty()) return wrong;
    }
    return "";
}

std::string Run::check_image(const Image& image, std::string_view what) {
    PowerLossVfs vfs(Overwrite::powersafe);
    Disk disk(image);
    vfs.mount(disk);
    const auto store = make_store(vfs);
    if (const auto opened = store->open(); !opened)
        return fmt::format("{}: does not open: {}", what, opened.error().detail);
    auto snapshot = store->snapshot();
    if (!snapshot) return fmt::format("{}: cannot be read: {}", what, snapshot.error().detail);
    const auto state = read_state(**snapshot);
    if (!state) return fmt::format("{}: cannot be read: {}", what, state.error());
    const std::vector<Id> of_beginning = scene_ == Scene::creating ? std::vector<Id>() : beginning_.state.keys;
    for (const Id key : of_beginning) {
        if (!state->remembers(key)) return fmt::format("{}: {} of the beginning is lost", what, to_text("key", key));
    }
    for (const auto& [key, _] : acknowledged_) {
        if (!state->remembers(key))
            return fmt::format("{}: {} was acknowledged and is lost", what, to_text("key", key));
    }
    for (const auto& [key, _] : not_done_) {
        if (!acknowledged_.contains(key) && !beginning_.state.remembers(key) && state->remembers(key)) {
            return fmt::format("{}: {} was answered as not done and is there", what, to_text("key", key));
        }
    }
    if (auto wrong = counters_that_disagree(**snapshot); !wrong.empty()) return fmt::format("{}: {}", what, wrong);
    return "";
}

std::string Run::ask_again(engine::Engine& engine) {
    for (std::size_t attempt = 0; attempt < 3 && !(not_done_.empty() && unknown_.empty()); ++attempt) {
        std::vector<core::Command> commands;
        for (const auto& [_, command] : not_done_) commands.push_back(command);
        for (const auto& [_, command] : unknown_) commands.push_back(command);
        if (auto wrong = send(engine, commands); !wrong.empty()) return "the disk is well again: " + wrong;
    }
    if (!not_done_.empty() || !unknown_.empty()) return "the disk is well again, but the engine is not";

    std::string wrong;
    for (const auto& [acknowledged, first] : acknowledged_) {
        engine.submit(
            {.command = first.first, .on_answer = [&, key = acknowledged](const engine::SubmitResult& answer) {
                 if (answer && answer->repeated && encode(answer->reply) == acknowledged_.at(key).second) return;
                 wrong = fmt::format("{} did not get its first answer again", to_text("key", key));
             }});
    }
    for (std::size_t steps = 0; engine.has_work(workload_.now()) && steps < 100; ++steps) engine.step(workload_.now());
    return wrong;
}

struct Job {
    Scene scene;
    Fault fault;
};

std::string carry_out(const Job& job, const Beginning& beginning, const FaultOptions& options, FaultTally& tally) {
    ++tally.runs[static_cast<std::size_t>(job.fault.kind)];
    return Run(beginning, job.scene, job.fault, options.batches, tally).run();
}

void note(FaultTally& tally, const Job& job, const std::string& wrong) {
    if (wrong.empty()) return;
    ++tally.violations;
    if (tally.examples.size() < examples_max) {
        tally.examples.push_back(fmt::format("{} at its call {}{}, {}: {}", to_text(job.fault.kind), job.fault.at,
                                             job.fault.lasting ? " and from then on" : "", to_text(job.scene), wrong));
    }
}

// As many faults as a run without one makes calls.
std::vector<Job> jobs_for(const Beginning& beginning, const FaultOptions& options) {
    std::vector<Job> jobs;
    for (const Scene scene : {Scene::working, Scene::opening, Scene::creating, Scene::closing}) {
        FaultTally unused;
        Run dry(beginning, scene, {.kind = FaultKind::read_error, .at = never}, options.batches, unused);
        dry.run();
        for (std::size_t kind = 0; kind < fault_kinds; ++kind) {
            const auto fault = static_cast<FaultKind>(kind);
            const std::uint64_t calls = dry.calls[static_cast<std::size_t>(call_of(fault))];
            // Writes are many and syncs are few, so only where there are many, some are left out.
            const std::uint64_t stride = calls > 60 ? options.stride : 1;
            for (std::uint64_t at = 0; at < calls; at += stride) {
                for (const bool lasting : {false, true}) jobs.push_back({scene, {fault, at, lasting}});
            }
        }
    }
    return jobs;
}

FaultTally failed_before(const std::string& why) {
    FaultTally tally;
    tally.violations = 1;
    tally.examples.push_back("without any fault: " + why);
    return tally;
}

}  // namespace

FaultTally run_faults(const FaultOptions& options) {
    const auto beginning = make_beginning(options.seed);
    if (!beginning) return failed_before(beginning.error());
    const std::vector<Job> jobs = jobs_for(*beginning, options);

    std::atomic<std::size_t> next = 0;
    std::atomic<unsigned> at_work = options.threads;
    std::mutex mutex;
    FaultTally total;
    const auto work = [&] {
        FaultTally tally;
        for (std::size_t i = next++; i < jobs.size(); i = next++) {
            note(tally, jobs[i], carry_out(jobs[i], *beginning, options, tally));
        }
        const std::lock_guard lock(mutex);
        total.add(tally);
        --at_work;
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < options.threads; ++i) threads.emplace_back(work);
    while (options.progress && at_work > 0) {
        options.progress(std::min(next.load(), jobs.size()), jobs.size());
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    for (std::thread& thread : threads) thread.join();
    return total;
}

FaultTally run_fault(const FaultOptions& options, Fault fault) {
    const auto beginning = make_beginning(options.seed);
    if (!beginning) return failed_before(beginning.error());
    FaultTally tally;
    const Job job{Scene::working, fault};
    note(tally, job, carry_out(job, *beginning, options, tally));
    return tally;
}

std::uint64_t FaultTally::all_runs() const { return std::accumulate(runs.begin(), runs.end(), std::uint64_t{0}); }

void FaultTally::add(const FaultTally& other) {
    for (std::size_t i = 0; i < fault_kinds; ++i) runs[i] += other.runs[i];
    struck += other.struck;
    done += other.done;
    not_done += other.not_done;
    unknown += other.unknown;
    violations += other.violations;
    for (const std::string& example : other.examples) {
        if (examples.size() < examples_max) examples.push_back(example);
    }
}

}  // namespace interlock::crash
