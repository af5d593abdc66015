#include "server/backend.h"

#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/calendar.h"
#include "engine/clock.h"
#include "engine/embedded.h"
#include "nodes/guarded_store.h"
#include "nodes/history.h"
#include "server/node.h"
#include "server/version.h"
#include "store/sqlite_file.h"
#include "store/sqlite_store.h"

namespace interlock::server {
namespace {

class EmbeddedBackend final : public Backend {
 public:
    EmbeddedBackend(std::unique_ptr<nodes::History> history, std::unique_ptr<engine::Embedded> engine,
                    Instant stored_before)
        : history_(std::move(history)),
          engine_(std::move(engine)),
          me_{.id = fresh_id(), .boot = fresh_id(), .name = "this server", .url = {}, .version = version} {
        stored_before_ = stored_before;
        me_.started_at = now();
        me_.alive = true;
    }

    void submit(std::vector<engine::Submission> submissions) override { engine_->submit(std::move(submissions)); }
    Instant now() override { return engine_->now(); }
    store::Store& store() override { return engine_->store(); }
    std::size_t queue_depth() const override { return engine_->queue_depth(); }
    void stop() override {
        engine_->stop();
        history_->sync();
    }

    void set_url(const std::string& url) override { me_.url = url; }
    Result<std::vector<store::Node>, std::string> nodes() override {
        store::Node me = me_;
        me.seen_at = now();
        me.lease_until = far_future;  // Nobody could take its place.
        return std::vector{std::move(me)};
    }

 private:
    std::unique_ptr<nodes::History> history_;
    std::unique_ptr<engine::Embedded> engine_;
    store::Node me_;
};

// Is the store in the directory the one that was served there last, with all that it had? The store is open, so that
// no other process writes.
Result<void, std::string> check_history(nodes::History& history, store::Store& store) {
    const nodes::History::Memory memory = history.memory();
    auto snapshot = store.snapshot();
    if (!snapshot) return fail(snapshot.error().detail);
    const auto look = nodes::look_at({"sqlite", 1}, memory, **snapshot);
    if (!look) return fail(look.error().detail);
    history.conclude(*look);
    if (auto why = history.block_reason()) return fail(std::move(*why));
    history.sync();
    return {};
}

// The newest time in the store. The core's time never goes back, so a time that is far ahead would stay: schedules
// would not be due, and the budgets of a day would be those of another day. A person has to know of it.
Result<Instant, std::string> check_clock(store::Store& store, bool accepted) {
    constexpr std::chrono::minutes ahead_max{5};
    auto snapshot = store.snapshot();
    if (!snapshot) return fail(snapshot.error().detail);
    const auto newest = newest_stored(**snapshot);
    if (!newest) return fail(newest.error().detail);
    const Instant now = engine::Clock().now();
    if (accepted || *newest <= now + ahead_max) return *newest;
    return fail(
        fmt::format("the newest event in the store is dated {}, but this machine's clock shows {}. If the clock is "
                    "wrong, set it. If the clock was ahead when the event was stored, restore a backup from "
                    "before, or start with --accept-clock: the server's time then continues from that event and "
                    "approaches the clock by three minutes per hour",
                    to_iso8601(*newest), to_iso8601(now)));
}

// Before opening makes another one in its place.
Result<void, std::string> refuse_missing_store(const std::string& data_dir, nodes::History& history) {
    const std::string path = store::database_path(data_dir);
    if (::access(path.c_str(), F_OK) == 0 || history.memory().pages.empty()) return {};
    return fail(
        fmt::format("history went backwards: {} is missing, although events were committed to it. Restore it, or start "
                    "with an empty store: interlock accept-history",
                    path));
}

Result<std::unique_ptr<Backend>, std::string> open_embedded(BackendOptions options) {
    auto history = nodes::History::open(head_path(options.data_dir));
    if (!history) return fail(history.error());
    if (auto there = refuse_missing_store(options.data_dir, **history); !there) return fail(there.error());
    store::SqliteStore::Options where;
    where.directory = options.data_dir;
    auto store = std::make_unique<store::SqliteStore>(std::move(where));
    if (auto opened = store->open(); !opened) return fail(opened.error().detail);
    if (auto checked = check_history(**history, *store); !checked) return fail(checked.error());
    const auto newest = check_clock(*store, options.accept_clock);
    if (!newest) return fail(newest.error());

    engine::Embedded::Options how;
    how.directory = options.data_dir;
    how.newest_stored = *newest;
    how.engine.seal_key = options.seal_key;
    how.on_step = [on_step = std::move(options.on_step), on_news = std::move(options.on_news),
                   run_commits = std::uint64_t{0}](const engine::BatchStats& step) mutable {
        on_step(step);
        const bool runs = std::exchange(run_commits, step.stats.run_commits) != step.stats.run_commits;
        on_news(std::nullopt, runs ? News::about_anything : News::about_no_run);
    };
    auto opened =
        engine::Embedded::open_on(std::make_unique<nodes::GuardedStore>(std::move(store), **history), std::move(how));
    if (!opened) return fail(opened.error().detail);
    return std::unique_ptr<Backend>(
        std::make_unique<EmbeddedBackend>(std::move(*history), std::move(*opened), *newest));
}

}  // namespace

Result<Instant, store::ReadError> newest_stored(store::Snapshot& snapshot) {
    Instant newest = far_past;
    auto read = snapshot.query(
        "select page.at from orgs join feed_pages as page on page.org = orgs.org and page.last_seq = "
        "(select max(last_seq) from feed_pages where org = orgs.org)",
        [&](const std::vector<store::Value>& row) {
            newest = std::max(newest, from_micros(std::get<std::int64_t>(row.front())));
        });
    if (!read) return fail(read.error());
    return newest;
}

std::string head_path(const std::string& data_dir) { return data_dir + "/store.head"; }

engine::SubmitResult Backend::ask(core::CommandBody body) {
    constexpr std::chrono::seconds timeout{15};
    constexpr std::chrono::milliseconds pause{200};
    const core::CommandKey key(fresh_id());
    const auto until = std::chrono::steady_clock::now() + timeout;
    while (true) {
        engine::SubmitResult answer = try_to_ask(body, key, timeout);
        const bool settled = answer || answer.error() == engine::SubmitError::key_reused;
        if (settled || std::chrono::steady_clock::now() > until) return answer;
        std::this_thread::sleep_for(pause);  // Whoever could answer is away for a moment.
    }
}

engine::SubmitResult Backend::try_to_ask(core::CommandBody body, core::CommandKey key, std::chrono::seconds timeout) {
    const auto promise = std::make_shared<std::promise<engine::SubmitResult>>();
    auto answer = promise->get_future();
    std::vector<engine::Submission> one(1);
    one.front().command.org = engine::Embedded::default_org;
    one.front().command.key = key;
    one.front().command.body = std::move(body);
    one.front().deadline = now() + timeout;
    one.front().on_answer = [promise](engine::SubmitResult outcome) { promise->set_value(std::move(outcome)); };
    submit(std::move(one));
    if (answer.wait_for(timeout) == std::future_status::timeout) return fail(engine::SubmitError::outcome_unknown);
    return answer.get();
}

Result<std::unique_ptr<Backend>, std::string> open_backend(BackendOptions options, Log& log) {
    if (options.store.empty()) return open_embedded(std::move(options));
    return open_node(std::move(options), log);
}

}  // namespace interlock::server
