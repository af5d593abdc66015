// Random histories of runs against a model that knows no index, no incremental step and no shortcut: after every
// command it works out from scratch who must be live and who in line, and both must agree on all of it.
//
// The model shares no code with the rules. To see a failing story again, look for its seed in the message.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/core_runs_support.h"

namespace interlock::core {
namespace {

class Dice {
 public:
    explicit Dice(std::uint64_t seed) : state_(seed) {}
    std::uint64_t below(std::uint64_t end) {
        state_ += 0x9E3779B97F4A7C15ull;
        std::uint64_t z = (state_ ^ (state_ >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return (z ^ (z >> 31)) % end;
    }
    bool one_in(std::uint64_t n) { return below(n) == 0; }
    template <class T>
    T pick(const std::vector<T>& from) {
        return from[below(from.size())];
    }

 private:
    std::uint64_t state_;
};

// ---- the model ------------------------------------------------------------------------------------------------------

struct ModelRun {
    RunId id;
    std::string agent;
    std::string provider;
    std::string node;
    std::vector<Place> places;
    std::int32_t priority = 0;
    std::int64_t arrival = 0;  // Negative for who replaces: before everybody of the priority.
    std::int64_t hold = 0;
    RunState state = RunState::queued;
    std::int32_t lease_s = 0;
    Instant lease_until;
    Instant queued_until;
    bool asked_to_stop = false;
};

struct Model {
    std::map<RunId, ModelRun> runs;
    std::map<std::string, std::int32_t> agent_caps;
    std::set<std::string> paused;
    std::optional<std::int32_t> provider_cap;
    std::optional<std::int32_t> node_cap;
    std::optional<std::int32_t> org_cap;
    std::int64_t limit = 0;
    std::int64_t arrivals = 0;

    static bool contains(const Place& outer, const Place& inner) {
        const std::string inside = outer.path == "/" ? "/" : outer.path + '/';
        if (inner.path == outer.path || inner.path.starts_with(inside)) return true;
        return std::ranges::find(inner.chain, outer.chain.front()) != inner.chain.end();
    }
    static bool in_the_way(const Place& a, const Place& b) {
        if (a.kind != b.kind || (a.mode == ClaimMode::read && b.mode == ClaimMode::read)) return false;
        return a.kind == ClaimKind::resource ? a.path == b.path : contains(a, b) || contains(b, a);
    }
    static bool in_the_way(const ModelRun& a, const ModelRun& b) {
        for (const Place& x : a.places) {
            for (const Place& y : b.places) {
                if (in_the_way(x, y)) return true;
            }
        }
        return false;
    }

    std::vector<const ModelRun*> live() const {
        std::vector<const ModelRun*> found;
        for (const auto& [id, run] : runs) {
            if (is_live(run.state)) found.push_back(&run);
        }
        return found;
    }
    static bool before(const ModelRun& a, const ModelRun& b) {
        return a.priority != b.priority ? a.priority > b.priority : a.arrival < b.arrival;
    }
    std::vector<const ModelRun*> line() const {
        std::vector<const ModelRun*> found;
        for (const auto& [id, run] : runs) {
            if (run.state == RunState::queued) found.push_back(&run);
        }
        std::ranges::sort(found, [](const ModelRun* a, const ModelRun* b) { return before(*a, *b); });
        return found;
    }

    // Whether somebody has a place of this run, or has its turn there before it.
    bool place_taken(const ModelRun& run) const {
        for (const ModelRun* other : live()) {
            if (in_the_way(*other, run)) return true;
        }
        std::vector<const ModelRun*> waiting_for_places;
        for (const ModelRun* other : line()) {
            if (!before(*other, run)) break;
            bool waits = false;
            for (const ModelRun* holder : live()) waits = waits || in_the_way(*holder, *other);
            for (const ModelRun* ahead : waiting_for_places) waits = waits || in_the_way(*ahead, *other);
            if (waits) waiting_for_places.push_back(other);
        }
        return std::ranges::any_of(waiting_for_places, [&](const ModelRun* ahead) { return in_the_way(*ahead, run); });
    }

    AdmitStatus verdict(const ModelRun& run) const {
        if (paused.contains(run.agent)) return AdmitStatus::agent_paused;
        std::int64_t held = 0;
        std::map<std::string, std::int32_t> of_agent;
        std::int32_t of_provider = 0;
        std::int32_t on_node = 0;
        std::int32_t all = 0;
        for (const ModelRun* other : live()) {
            held += other->hold;
            of_agent[other->agent] += 1;
            of_provider += other->provider == "p" ? 1 : 0;
            on_node += other->node == "n" ? 1 : 0;
            all += 1;
        }
        if (held + std::max<std::int64_t>(1, run.hold) > limit) return AdmitStatus::budget_exceeded;
        if (place_taken(run)) return AdmitStatus::workspace_busy;
        const bool full = of_agent[run.agent] >= agent_caps.at(run.agent) ||
                          (run.provider == "p" && provider_cap && of_provider >= *provider_cap) ||
                          (run.node == "n" && node_cap && on_node >= *node_cap) || (org_cap && all >= *org_cap);
        return full ? AdmitStatus::concurrency_limit : AdmitStatus::admitted;
    }

    void grant(ModelRun& run, Instant now) const {
        run.state = RunState::starting;
        run.lease_until = now + std::chrono::seconds(run.lease_s);
    }

    // The first in line that can start does; then everything is looked at anew.
    void settle(Instant now) {
        for (bool moved = true; moved;) {
            moved = false;
            for (const ModelRun* next : line()) {
                if (verdict(*next) != AdmitStatus::admitted) continue;
                grant(runs.at(next->id), now);
                moved = true;
                break;
            }
        }
    }

    void pass_time(Instant now) {
        for (auto& [id, run] : runs) {
            if (is_live(run.state) && run.lease_until <= now) run.state = RunState::lost;
            if (run.state == RunState::queued && run.queued_until <= now) run.state = RunState::timed_out;
        }
        settle(now);
    }
};

// ---- the stories ----------------------------------------------------------------------------------------------------

class RunsPropertyTest : public RunsTest {
 protected:
    void tell_a_story(std::uint64_t seed, int steps) {
        Dice dice(seed);
        batching = true;
        begin();
        for (int step = 0; step < steps && !HasFailure(); ++step) {
            SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(step));
            act(dice);
            commit();
            compare();
        }
        for (const auto& [id, state] : past)
            EXPECT_EQ(source.orgs[org].find<Run>(id)->state, state) << "what is over is over";
    }

    // What there was to decide, over all steps: a story in which nothing collides proves nothing.
    std::map<AdmitStatus, int> verdicts;
    int promoted = 0;
    int lost = 0;

 private:
    template <class Body>
    ReplyTo<Body> send(const Body& body) {
        if (reads_ledger(body)) commit();
        const CommandKey key(reads_ledger(body) ? Id{} : fresh_id());
        return std::get<ReplyTo<Body>>(machine.apply({now}, command_of(key, body)).reply);
    }

    void begin() {
        for (const std::string name : {"ada", "bob", "cy"}) {
            make_agent(name, 3);
            model.agent_caps[name] = 3;
        }
        model.limit = 20;
        put_limit();
        commit();
    }
    void put_limit() {
        PutBudget budget = budget_of("all", Money::nanos(model.limit));
        budget.window = WindowKind::total;
        send(budget);
    }

    // One tree of directories, one of which is mounted a second time.
    static Place a_place(Dice& dice) {
        static const std::vector<std::pair<std::string, std::vector<std::string>>> directories = {
            {"/", {"r"}},
            {"/a", {"a", "r"}},
            {"/a/b", {"b", "a", "r"}},
            {"/a/b/c", {"c", "b", "a", "r"}},
            {"/a/d", {"d", "a", "r"}},
            {"/e", {"e", "r"}},
            {"/e/f", {"f", "e", "r"}},
            {"/m", {"b", "r"}},
            {"/m/c", {"c", "b", "r"}},
        };
        const ClaimMode mode = dice.one_in(3) ? ClaimMode::read : ClaimMode::write;
        if (dice.one_in(4)) return resource(dice.one_in(2) ? "x" : "y", mode);
        const auto& [path, chain] = directories[dice.below(20) == 0 ? 0 : 1 + dice.below(directories.size() - 1)];
        Place place = workspace(path, mode);
        place.chain = chain;
        return place;
    }

    void act(Dice& dice) {
        const auto what = dice.below(100);
        if (what < 35) return ask(dice);
        if (what < 80) return speak(dice);
        if (what < 88) return let_time_pass(dice);
        if (what < 98) return change_the_rules(dice);
        restart();
    }

    void ask(Dice& dice) {
        if (model.live().size() + model.line().size() >= 16) return;
        AdmitRun command = asking(dice.pick<std::string>({"ada", "bob", "cy"}));
        command.who.provider = dice.one_in(2) ? "p" : "";
        command.node = dice.one_in(2) ? "n" : "";
        for (auto count = dice.below(3); count > 0; --count) {
            Place place = a_place(dice);
            const bool named =
                std::ranges::any_of(command.places, [&](const Place& other) { return other.path == place.path; });
            if (!named) command.places.push_back(std::move(place));
        }
        command.on_conflict = dice.pick<OnConflict>({OnConflict::refuse, OnConflict::queue, OnConflict::queue,
                                                     OnConflict::queue, OnConflict::replace, OnConflict::isolate});
        if (command.on_conflict == OnConflict::isolate) {
            command.isolate_into = a_place(dice);
            if (command.isolate_into->kind == ClaimKind::resource) command.isolate_into = workspace("/tree");
            command.isolate_into->chain = {
                command.isolate_into->path == "/tree" ? "t" : command.isolate_into->chain.front(), "r"};
        }
        command.priority = static_cast<std::int32_t>(dice.below(4)) / 2 - (dice.one_in(6) ? 1 : 0);
        command.hold.usd = dice.pick<std::int64_t>({0, 0, 0, 3, 6});
        command.metered = true;
        command.lease_s = dice.pick<std::int32_t>({30, 60});
        command.queue_s = dice.pick<std::int64_t>({0, 0, 20});
        expect_admission(command);
    }

    void expect_admission(const AdmitRun& command) {
        const bool replaces = command.on_conflict == OnConflict::replace;
        ModelRun run;
        run.id = command.run;
        run.agent = command.who.agent;
        run.provider = command.who.provider;
        run.node = command.node;
        run.places = command.places;
        run.priority = command.priority;
        run.arrival = (replaces ? -1 : 1) * (model.arrivals + 1);
        run.hold = command.hold.usd;
        run.lease_s = command.lease_s;
        run.queued_until = command.queue_s == 0 ? far_future : now + std::chrono::seconds(command.queue_s);
        AdmitStatus verdict = model.verdict(run);
        const bool isolates = verdict == AdmitStatus::workspace_busy && command.on_conflict == OnConflict::isolate;
        if (isolates) {
            std::erase_if(run.places, [](const Place& place) { return place.kind == ClaimKind::workspace; });
            run.places.insert(run.places.begin(), *command.isolate_into);
            verdict = model.verdict(run);
        }
        const bool waits = (verdict == AdmitStatus::workspace_busy || verdict == AdmitStatus::concurrency_limit) &&
                           (command.on_conflict == OnConflict::queue || replaces);
        const std::size_t ahead = static_cast<std::size_t>(
            std::ranges::count_if(model.line(), [&](const ModelRun* other) { return Model::before(*other, run); }));

        const AdmitReply reply = send(command);

        EXPECT_EQ(reply.status, waits ? AdmitStatus::queued : verdict) << reply.detail;
        verdicts[verdict] += 1;
        if (reply.status == AdmitStatus::admitted) EXPECT_EQ(reply.isolated, isolates);
        if (waits) EXPECT_EQ(reply.place_in_line, static_cast<std::int64_t>(ahead) + 1);
        if (waits || verdict == AdmitStatus::admitted) model.arrivals += 1;
        if (waits && replaces && verdict == AdmitStatus::workspace_busy) {
            for (auto& [id, other] : model.runs) {
                if (is_live(other.state) && Model::in_the_way(other, run)) other.asked_to_stop = true;
            }
        }
        if (waits) model.runs[run.id] = run;
        if (verdict == AdmitStatus::admitted) {
            model.grant(run, now);
            model.runs[run.id] = run;
        }
    }

    // Somebody says something about a run: its owner, or one who thinks so.
    void speak(Dice& dice) {
        if (!past.empty() && dice.one_in(20)) return speak_of_the_past(dice);
        if (model.runs.empty()) return;
        const RunId id =
            std::next(model.runs.begin(), static_cast<std::ptrdiff_t>(dice.below(model.runs.size())))->first;
        ModelRun& run = model.runs.at(id);
        const Fence right = source.orgs[org].find<Run>(id)->fence;
        const bool lies = dice.one_in(8);
        const Fence fence = lies ? Fence(right.value + (dice.one_in(2) ? 1 : -1)) : right;
        const bool owner = fence == right && right.value != 0 && is_live(run.state);
        const auto expect = [&](RunStatus status, bool ok) { EXPECT_EQ(status == RunStatus::done, ok); };
        const auto renewed = now + std::chrono::seconds(run.lease_s);
        switch (dice.below(11)) {
            case 0:
                expect(send(StartRun{id, fence}).status, owner && run.state != RunState::paused);
                if (owner && run.state == RunState::starting) {
                    run.state = RunState::running;
                    run.lease_until = renewed;
                }
                break;
            case 1:
            case 2: {
                const RunReply reply = send(HeartbeatRun{id, fence});
                expect(reply.status, owner);
                if (!owner) break;
                EXPECT_EQ(reply.stop_requested.empty(), !run.asked_to_stop);
                run.lease_until = renewed;
                if (run.state == RunState::starting) run.state = RunState::running;
                break;
            }
            case 3:
                expect(send(PauseRun{id, fence}).status, owner && run.state != RunState::starting);
                if (owner && run.state == RunState::running) run.state = RunState::paused;
                break;
            case 4:
                expect(send(ResumeRun{id, fence}).status, owner && run.state != RunState::starting);
                if (owner && run.state == RunState::paused) run.state = RunState::running;
                break;
            case 5:
            case 6:
            case 7:
            case 8: {
                const RunState outcome =
                    dice.pick<RunState>({RunState::succeeded, RunState::failed, RunState::timed_out});
                expect(send(FinishRun{id, fence, outcome, "", {}}).status, owner);
                if (owner) run.state = outcome;
                break;
            }
            case 9:
                expect(send(LoseRun{id, fence, ""}).status, owner);
                if (owner) run.state = RunState::lost;
                break;
            default: {
                const RunStatus status = send(CancelRun{id, {}, "", {}}).status;
                if (run.state == RunState::queued) {
                    EXPECT_EQ(status, RunStatus::done);
                    run.state = RunState::cancelled;
                } else {
                    EXPECT_EQ(status, RunStatus::stop_requested);
                    run.asked_to_stop = true;
                }
            }
        }
        settle();
    }

    void speak_of_the_past(Dice& dice) {
        const RunId id = dice.pick(past).first;
        const Fence fence = source.orgs[org].find<Run>(id)->fence;
        EXPECT_NE(send(HeartbeatRun{id, fence}).status, RunStatus::done);
        EXPECT_NE(send(FinishRun{id, fence, RunState::failed, "", {}}).status, RunStatus::done);
        EXPECT_EQ(send(CancelRun{id, {}, "", {}}).status, RunStatus::run_ended);
    }

    void let_time_pass(Dice& dice) {
        now += std::chrono::seconds(dice.below(25));
        send(Tick{});
        for (const ModelRun* run : model.live()) lost += run->lease_until <= now ? 1 : 0;
        model.pass_time(now);
    }

    void change_the_rules(Dice& dice) {
        const std::string agent = dice.pick<std::string>({"ada", "bob", "cy"});
        const auto maybe = [&] {
            return dice.one_in(3) ? std::nullopt : std::optional(static_cast<std::int32_t>(1 + dice.below(6)));
        };
        switch (dice.below(6)) {
            case 0:
                if (model.paused.empty()) {
                    send(PauseAgent{agent, ""});
                    model.paused.insert(agent);
                    break;
                }
                [[fallthrough]];
            case 1:
                send(ResumeAgent{agent});
                model.paused.erase(agent);
                break;
            case 2: {
                model.agent_caps[agent] = static_cast<std::int32_t>(1 + dice.below(5));
                PutAgent command;
                command.name = agent;
                command.max_concurrent_runs = model.agent_caps[agent];
                send(command);
                break;
            }
            case 3:
                send(SetCap{CapKind::provider, "p", model.provider_cap = maybe()});
                break;
            case 4:
                if (dice.one_in(2)) {
                    send(SetCap{CapKind::node, "n", model.node_cap = maybe()});
                } else {
                    const auto max = maybe();
                    model.org_cap = max ? std::optional(*max + 2) : max;
                    send(SetCap{CapKind::org, "", model.org_cap});
                }
                break;
            default:
                model.limit = 6 + static_cast<std::int64_t>(dice.below(25));
                put_limit();
        }
        settle();
    }

    void restart() {
        reload();
        send(Reopened{});
        for (auto& [id, run] : model.runs) {
            if (is_live(run.state))
                run.lease_until = std::max(run.lease_until, now + std::chrono::seconds(run.lease_s));
        }
        settle();
    }

    void settle() {
        const auto before = model.live().size();
        model.settle(now);
        promoted += model.live().size() > before ? 1 : 0;
    }

    void compare() {
        const OrgRows& rows_now = source.orgs[org];
        std::map<RunId, std::vector<Place>> claimed;
        for (const auto& [key, claim] : rows_now.of<Claim>()) claimed[claim.run].push_back(claim.place);
        std::vector<const Run*> live;
        for (const auto& [id, expected] : model.runs) {
            const auto found = rows_now.of<Run>().find(id);
            ASSERT_NE(found, rows_now.of<Run>().end());
            const Run& run = found->second;
            EXPECT_EQ(run.state, expected.state) << to_text("run", id.value);
            if (has_ended(expected.state)) continue;
            EXPECT_EQ(run.wanted, expected.places);
            EXPECT_EQ(!run.stop_requested.empty(), expected.asked_to_stop);
            if (!is_live(run.state)) continue;
            live.push_back(&run);
            EXPECT_EQ(run.lease_until, expected.lease_until);
            EXPECT_EQ(claimed[id], expected.places) << "claims are what the live run wanted";
            claimed.erase(id);
        }
        for (const auto& [run, places] : claimed) EXPECT_TRUE(places.empty()) << "a claim without a live run";
        EXPECT_EQ(rows_now.of<Run>().size(), model.runs.size() + past.size());
        for (std::size_t i = 0; i < live.size(); ++i) {
            for (std::size_t j = i + 1; j < live.size(); ++j) {
                EXPECT_FALSE(Model::in_the_way(model.runs.at(live[i]->id), model.runs.at(live[j]->id)));
            }
        }
        for (const auto& [id, run] : model.runs) {
            if (has_ended(run.state)) past.emplace_back(id, run.state);
        }
        std::erase_if(model.runs, [](const auto& entry) { return has_ended(entry.second.state); });
    }

    Model model;
    std::vector<std::pair<RunId, RunState>> past;
};

TEST_F(RunsPropertyTest, every_random_history_agrees_with_the_model) {
    tell_a_story(1, 2000);

    EXPECT_GT(verdicts[AdmitStatus::admitted], 50);
    EXPECT_GT(verdicts[AdmitStatus::workspace_busy], 50);
    EXPECT_GT(verdicts[AdmitStatus::concurrency_limit], 20);
    EXPECT_GT(verdicts[AdmitStatus::budget_exceeded], 5);
    EXPECT_GT(verdicts[AdmitStatus::agent_paused], 5);
    EXPECT_GT(promoted, 50);
    EXPECT_GT(lost, 10);
}

class RunsPropertySeeds : public RunsPropertyTest, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(RunsPropertySeeds, agrees_with_the_model) { tell_a_story(GetParam(), 2000); }

INSTANTIATE_TEST_SUITE_P(Seeds, RunsPropertySeeds, testing::Range<std::uint64_t>(2, 8));

}  // namespace
}  // namespace interlock::core
