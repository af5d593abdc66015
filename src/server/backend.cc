#include "server/backend.h"

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "engine/embedded.h"
#include "server/node.h"
#include "server/version.h"

namespace interlock::server {
namespace {

class EmbeddedBackend final : public Backend {
 public:
    explicit EmbeddedBackend(std::unique_ptr<engine::Embedded> engine)
        : engine_(std::move(engine)),
          me_{.id = fresh_id(), .boot = fresh_id(), .name = "this server", .url = {}, .version = version} {
        me_.started_at = now();
        me_.alive = true;
    }

    void submit(std::vector<engine::Submission> submissions) override { engine_->submit(std::move(submissions)); }
    Instant now() override { return engine_->now(); }
    store::Store& store() override { return engine_->store(); }
    std::size_t queue_depth() const override { return engine_->queue_depth(); }
    void stop() override { engine_->stop(); }

    void set_url(const std::string& url) override { me_.url = url; }
    Result<std::vector<store::Node>, std::string> nodes() override {
        store::Node me = me_;
        me.seen_at = now();
        me.lease_until = far_future;  // Nobody could take its place.
        return std::vector{std::move(me)};
    }

 private:
    std::unique_ptr<engine::Embedded> engine_;
    store::Node me_;
};

Result<std::unique_ptr<Backend>, std::string> open_embedded(BackendOptions options) {
    engine::Embedded::Options how;
    how.directory = options.data_dir;
    how.on_step = [on_step = std::move(options.on_step), on_news = std::move(options.on_news),
                   run_commits = std::uint64_t{0}](const engine::Step& step) mutable {
        on_step(step);
        const bool runs = std::exchange(run_commits, step.stats.run_commits) != step.stats.run_commits;
        on_news(std::nullopt, runs ? News::about_anything : News::about_no_run);
    };
    auto opened = engine::Embedded::open(std::move(how));
    if (!opened) return fail(opened.error().detail);
    return std::unique_ptr<Backend>(std::make_unique<EmbeddedBackend>(std::move(*opened)));
}

}  // namespace

engine::Answer Backend::ask(core::CommandBody body) {
    constexpr std::chrono::seconds patience{15};
    constexpr std::chrono::milliseconds pause{200};
    const core::CommandKey key(fresh_id());
    const auto until = std::chrono::steady_clock::now() + patience;
    while (true) {
        engine::Answer answer = try_to_ask(body, key, patience);
        const bool settled = answer || answer.error() == engine::SubmitError::key_reused;
        if (settled || std::chrono::steady_clock::now() > until) return answer;
        std::this_thread::sleep_for(pause);  // Whoever could answer is away for a moment.
    }
}

engine::Answer Backend::try_to_ask(core::CommandBody body, core::CommandKey key, std::chrono::seconds patience) {
    const auto promise = std::make_shared<std::promise<engine::Answer>>();
    auto answer = promise->get_future();
    std::vector<engine::Submission> one(1);
    one.front().command.org = engine::Embedded::default_org;
    one.front().command.key = key;
    one.front().command.body = std::move(body);
    one.front().deadline = now() + patience;
    one.front().on_answer = [promise](engine::Answer outcome) { promise->set_value(std::move(outcome)); };
    submit(std::move(one));
    if (answer.wait_for(patience) == std::future_status::timeout) return fail(engine::SubmitError::outcome_unknown);
    return answer.get();
}

Result<std::unique_ptr<Backend>, std::string> open_backend(BackendOptions options, Log& log) {
    if (options.store.empty()) return open_embedded(std::move(options));
    return open_node(std::move(options), log);
}

}  // namespace interlock::server
