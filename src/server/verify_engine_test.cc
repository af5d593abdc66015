// Whatever the engine does, verify agrees with it: random commands of every kind, in virtual time, with restarts, on a
// real store. Each part knows the rules on its own, so a disagreement is a mistake in one of them.
//
// To see a failing story again: VERIFY_SEED=<seed> ./server_tests --gtest_filter='VerifyEngine.*'
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>

#include "engine/engine.h"
#include "store/sqlite_store.h"
#include "verify/verify.h"

namespace interlock::server {
namespace {

using namespace core;  // The commands are the language of this file.

class Story {
 public:
    Story(std::uint64_t seed, std::string directory) : random_(seed), directory_(std::move(directory)) { open(); }

    void tell(int commands) {
        for (int i = 0; i < commands; ++i) {
            submit(next());
            if (one_in(4)) step();
            if (one_in(300)) {  // A restart, sometimes with the clock set back.
                if (one_in(2)) now_ -= std::chrono::minutes(below(300));
                open();
            }
        }
        step();
    }

    verify::Report verify() {
        const auto snapshot = store::open_snapshot(directory_);
        EXPECT_TRUE(snapshot) << snapshot.error().detail;
        auto report = verify::verify(**snapshot, {.examples_max = 5, .progress = {}});
        EXPECT_TRUE(report) << report.error().detail;
        return std::move(*report);
    }
    std::int64_t done() const { return done_; }

 private:
    std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
    bool one_in(std::uint64_t n) { return below(n) == 0; }
    template <class T>
    const T& any(const std::vector<T>& choices) {
        static const T none{};
        return choices.empty() ? none : choices[below(choices.size())];
    }
    Id fresh() { return time_ordered_id(now_, random_(), random_()); }
    std::string agent() { return fmt::format("agent{}", below(4)); }

    void open() {
        engine_.reset();
        store_.reset();
        store::SqliteStore::Options options;
        options.directory = directory_;
        // The story is not about power loss, and a thousand syncs would be most of it.
        options.synchronous = store::SqliteStore::Synchronous::off_for_negative_control;
        store_ = std::make_unique<store::SqliteStore>(options);
        engine_ = std::make_unique<engine::Engine>(*store_, engine::Engine::Options{});
        const auto opened = engine_->open(now_);
        ASSERT_TRUE(opened) << opened.error().detail;
    }

    void submit(CommandBody body) {
        Command command;
        command.org = OrgId(1 + static_cast<std::uint32_t>(below(2)));
        command.key = CommandKey(fresh());
        command.body = std::move(body);
        engine_->submit({std::move(command), [this](const engine::SubmitResult& answer) { heard(answer); }});
    }
    void step() {
        // Mostly seconds pass, now and then most of a day: leases end, holds expire, windows turn, schedules are due.
        now_ += std::chrono::milliseconds(one_in(120) ? below(20) * 3'600'000 : one_in(3) ? below(40'000) : below(50));
        while (engine_->has_work(now_)) engine_->step(now_);
    }
    void heard(const engine::SubmitResult& answer) {
        if (!answer) return;
        ++done_;
        if (const auto* admit = std::get_if<AdmitReply>(&answer->reply);
            admit && admit->status == AdmitStatus::admitted) {
            live_.emplace_back(admit->run, admit->fence);
        }
    }

    Attribution who() {
        Attribution who;
        who.agent = agent();
        if (one_in(3)) who.provider = one_in(2) ? "anthropic" : "openai";
        if (one_in(4)) who.model = "opus";
        if (one_in(5)) who.workflow = "release";
        if (one_in(5)) who.tags = {{"team", one_in(2) ? "blue" : "red"}};
        if (one_in(4)) who.session = SessionId(any(sessions_));
        if (one_in(3)) who.run = any(live_).first;
        if (!who.run.value.empty() && one_in(2)) who.agent.clear();  // Inherited.
        return who;
    }
    Usage usage() {
        return {.input_tokens = static_cast<std::int64_t>(below(90)),
                .output_tokens = static_cast<std::int64_t>(below(9))};
    }
    Money money() { return Money::nanos(static_cast<std::int64_t>(one_in(5) ? 0 : below(1'000))); }
    Place place() {
        if (one_in(3)) {
            return {.kind = ClaimKind::resource,
                    .host = {},
                    .path = one_in(2) ? "deploy" : "gpu",
                    .chain = {},
                    .mode = one_in(2) ? ClaimMode::read : ClaimMode::write};
        }
        std::vector<std::string> chain{"8:1"};
        std::string path;
        for (std::uint64_t depth = 1 + below(3); depth > 0; --depth) {
            const std::uint64_t name = below(2);
            path += fmt::format("/d{}", name);
            chain.insert(chain.begin(), fmt::format("8:{}{}", chain.front().substr(2), name));
        }
        return {.kind = ClaimKind::workspace,
                .host = "mill",
                .path = path,
                .chain = chain,
                .mode = one_in(3) ? ClaimMode::read : ClaimMode::write};
    }

    CommandBody next() {
        if (!started_) return started_ = true, setup_ = 0, CommandBody(CreateOrg{"acme"});
        if (setup_ < 8) return ++setup_, CommandBody(setup_ % 2 == 0 ? CommandBody(CreateOrg{"acme"}) : put_agent());
        switch (below(28)) {
            case 0:
                return put_agent();
            case 1:
                return one_in(3) ? CommandBody(PauseAgent{agent(), "rest"}) : CommandBody(ResumeAgent{agent()});
            case 2:
                return one_in(6) ? CommandBody(ArchiveAgent{agent()}) : put_agent();
            case 3:
                return set_cap();
            case 4:
            case 5:
                return put_budget();
            case 6:
                return one_in(3) ? CommandBody(DeleteBudget{budget()}) : CommandBody(UnfreezeBudget{budget()});
            case 7:
            case 8:
            case 9:
            case 10:
                return charge();
            case 11:
            case 12:
                return reserve();
            case 13:
                return ExtendHold{HoldId(any(holds_)), static_cast<std::int64_t>(1 + below(90)), one_in(2)};
            case 14:
            case 15:
                return settle();
            case 16:
                return ReleaseHold{HoldId(any(holds_))};
            case 17:
                return create_session();
            case 18:
            case 19:
                return append();
            case 20:
                return fork();
            case 21:
            case 22:
                return admit();
            case 23:
                return HeartbeatRun{any(live_).first, any(live_).second};
            case 24:
                return owner_says();
            case 25:
                return end_run();
            case 26:
                return schedule();
            default:
                return Wake{"nightly", RunId(fresh())};
        }
    }

    CommandBody put_agent() {
        return PutAgent{
            .name = agent(), .command = {}, .max_concurrent_runs = static_cast<std::int32_t>(below(4)), .tags = {}};
    }
    CommandBody set_cap() {
        SetCap cap;
        cap.kind = static_cast<CapKind>(below(3));
        if (cap.kind == CapKind::provider) cap.name = "anthropic";
        if (cap.kind == CapKind::node) cap.name = "mill";
        if (!one_in(4)) cap.max_live = static_cast<std::int32_t>(below(6));
        return cap;
    }
    std::string budget() { return fmt::format("budget{}", below(10)); }
    CommandBody put_budget() {
        // Shape by name, since it cannot change.
        const std::uint64_t n = below(10);
        PutBudget put;
        put.name = fmt::format("budget{}", n);
        put.metric = static_cast<Metric>(n % 4);
        put.window = static_cast<WindowKind>((n / 2) % 4);
        put.zone = n % 3 == 0 ? "Europe/Berlin" : "UTC";
        if (n % 5 == 1) put.scope.agent = "agent1";
        if (n % 5 == 2) put.scope.tags = {{"team", "blue"}};
        if (n % 5 == 3) put.scope.provider = "anthropic";
        if (n == 9) put.scope.workflow = "release";
        put.limit_units = static_cast<std::int64_t>(put.metric == Metric::runs ? below(40) : below(200'000));
        put.hard = !one_in(4);
        if (one_in(2)) put.warn = {50, 90};
        put.on_exhausted = static_cast<OnExhausted>(below(3));
        return put;
    }
    CommandBody charge() {
        Charge charge;
        charge.who = who();
        charge.cost = money();
        charge.usage = usage();
        charge.calls = static_cast<std::int64_t>(below(3));
        charge.incurred = one_in(4);
        return charge;
    }
    CommandBody reserve() {
        Reserve reserve;
        reserve.hold = HoldId(fresh());
        reserve.who = who();
        reserve.bound = {.usd = money().nanos(),
                         .tokens = static_cast<std::int64_t>(below(200)),
                         .calls = static_cast<std::int64_t>(below(2))};
        reserve.ttl_s = static_cast<std::int64_t>(1 + below(120));
        reserve.dispatched = one_in(2);
        holds_.push_back(reserve.hold.value);
        if (holds_.size() > 20) holds_.erase(holds_.begin());
        return reserve;
    }
    CommandBody settle() {
        return SettleHold{.hold = HoldId(any(holds_)),
                          .cost = money(),
                          .usage = usage(),
                          .calls = 1,
                          .price = {},
                          .estimated = one_in(5)};
    }
    CommandBody create_session() {
        sessions_.push_back(fresh());
        return CreateSession{.session = SessionId(sessions_.back()), .agent = agent(), .title = {}, .metadata = {}};
    }
    CommandBody append() {
        Append append;
        append.session = SessionId(any(sessions_));
        for (std::uint64_t i = 0; i <= below(3); ++i) {
            append.messages.push_back({.id = MessageId(fresh()),
                                       .role = "user",
                                       .content = "hello",
                                       .metadata = {},
                                       .input_tokens = static_cast<std::int64_t>(below(9))});
        }
        if (one_in(3)) append.run = any(live_).first;
        return append;
    }
    CommandBody fork() {
        sessions_.push_back(fresh());
        return ForkSession{.from = SessionId(any(sessions_)),
                           .at_seq = static_cast<std::int64_t>(below(6)),
                           .session = SessionId(sessions_.back()),
                           .title = {}};
    }
    CommandBody admit() {
        AdmitRun admit;
        admit.run = RunId(fresh());
        admit.who.agent = agent();
        if (one_in(2)) admit.who.provider = "anthropic";
        if (one_in(3)) admit.who.tags = {{"team", "blue"}};
        if (one_in(2)) admit.node = "mill";
        for (std::uint64_t i = below(3); i > 0; --i) admit.places.push_back(place());
        admit.on_conflict = static_cast<OnConflict>(below(4));
        admit.isolate_into = place();
        admit.priority = static_cast<std::int32_t>(below(3));
        if (one_in(2)) admit.hold = {.usd = money().nanos(), .tokens = static_cast<std::int64_t>(below(500))};
        admit.metered = one_in(2);
        admit.lease_s = static_cast<std::int32_t>(1 + below(300));
        admit.queue_s = one_in(2) ? 0 : static_cast<std::int64_t>(1 + below(300));
        return admit;
    }
    CommandBody owner_says() {
        const auto [run, fence] = any(live_);
        switch (below(3)) {
            case 0:
                return StartRun{run, fence};
            case 1:
                return PauseRun{run, fence};
            default:
                return ResumeRun{run, fence};
        }
    }
    CommandBody end_run() {
        if (live_.empty()) return Tick{};
        const std::size_t which = below(live_.size());
        const auto [run, fence] = live_[which];
        live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
        std::optional<FinalCharge> charge;
        if (one_in(2))
            charge = FinalCharge{.provider = "openai", .model = {}, .cost = money(), .usage = usage(), .price = {}};
        switch (below(4)) {
            case 0:
                return CancelRun{.run = run, .fence = fence, .reason = "enough", .charge = charge};
            case 1:
                return LoseRun{.run = run, .fence = fence, .reason = {}};
            case 2:
                return CancelRun{.run = run, .fence = {}, .reason = "please", .charge = {}};
            default:
                return FinishRun{
                    .run = run, .fence = fence, .outcome = RunState::succeeded, .reason = {}, .charge = charge};
        }
    }
    CommandBody schedule() {
        PutSchedule put;
        put.name = one_in(2) ? "nightly" : "hourly";
        put.agent = agent();
        one_in(2) ? void(put.every_s = 600) : void(put.cron = "*/20 * * * *");
        put.overlap = static_cast<Overlap>(below(4));
        put.missed = static_cast<Missed>(below(3));
        return put;
    }

    std::mt19937_64 random_;
    std::string directory_;
    Instant now_ = from_micros(1'793'000'000'000'000);  // Autumn 2026, so that clocks are set back on the way.
    std::unique_ptr<store::SqliteStore> store_;
    std::unique_ptr<engine::Engine> engine_;
    bool started_ = false;
    int setup_ = 0;
    std::vector<std::pair<RunId, Fence>> live_;
    std::vector<Id> holds_;
    std::vector<Id> sessions_;
    std::int64_t done_ = 0;
};

using Checked = std::map<std::string, std::int64_t>;  // How often, for each promise.

void tell(std::uint64_t seed, Checked& checked) {
    std::string pattern = (std::filesystem::temp_directory_path() / "interlock_story_XXXXXX").string();
    const std::string directory = mkdtemp(pattern.data());
    Story story(seed, directory);
    for (int chapter = 0; chapter < 20 && !testing::Test::HasFailure(); ++chapter) {
        story.tell(100);
        for (const verify::PromiseReport& promise : story.verify().promises) {
            checked[promise.id] += promise.checked;
            for (const verify::Finding& finding : promise.examples) {
                ADD_FAILURE() << "VERIFY_SEED=" << seed << " chapter " << chapter << ": " << promise.id << " "
                              << finding.row << "\n    " << finding.what;
            }
        }
    }
    EXPECT_GT(story.done(), 1'500);
    std::filesystem::remove_all(directory);
}

TEST(VerifyEngine, verify_agrees_with_whatever_the_engine_does) {
    Checked checked;
    if (const char* seed = std::getenv("VERIFY_SEED")) return tell(std::strtoull(seed, nullptr, 10), checked);
    for (std::uint64_t seed = 1; seed <= 6 && !testing::Test::HasFailure(); ++seed) tell(seed, checked);

    // A story in which nothing of a kind happens would agree with anything.
    for (const auto& [promise, count] : checked) EXPECT_GT(count, 20) << promise;
}

}  // namespace
}  // namespace interlock::server
