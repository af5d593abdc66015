#include "engine/embedded.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <future>

#include "store/sqlite_store.h"

namespace interlock::engine {

Result<std::unique_ptr<Embedded>, store::OpenError> Embedded::open(Options options) {
    constexpr mode_t owner_only = 0700;  // What agents say and spend is nobody else's business.
    if (::mkdir(options.directory.c_str(), owner_only) != 0 && errno != EEXIST) {
        return fail(
            store::OpenError{store::OpenError::Kind::unavailable,
                             "cannot make the data directory '" + options.directory + "': " + std::strerror(errno)});
    }
    store::SqliteStore::Options store_options;
    store_options.directory = options.directory;
    return open_on(std::make_unique<store::SqliteStore>(std::move(store_options)), std::move(options));
}

Result<std::unique_ptr<Embedded>, store::OpenError> Embedded::open_on(std::unique_ptr<store::Store> store,
                                                                      Options options) {
    std::unique_ptr<Embedded> embedded(new Embedded(std::move(store), std::move(options)));
    Clock clock;
    clock.go_on_from(embedded->options_.newest_stored);
    if (auto opened = embedded->engine_->open(clock.now()); !opened) return fail(opened.error());
    embedded->lane_ = std::make_unique<Lane>(*embedded->engine_, std::move(clock), embedded->options_.on_step);
    const auto answer = embedded->ask({.org = default_org, .key = {}, .body = core::CreateOrg{"default"}});
    if (!answer)
        return fail(store::OpenError{store::OpenError::Kind::unavailable, "the store opened, but cannot be written"});
    return embedded;
}

Embedded::Embedded(std::unique_ptr<store::Store> store, Options options)
    : options_(std::move(options)),
      store_(std::move(store)),
      engine_(std::make_unique<Engine>(*store_, options_.engine)) {}

Embedded::~Embedded() {
    lane_.reset();
    engine_.reset();
    store_->close();
}

SubmitResult Embedded::ask(core::Command command) {
    const auto promise = std::make_shared<std::promise<SubmitResult>>();
    auto answer = promise->get_future();
    Submission submission{.command = completed(std::move(command)),
                          .on_answer = [promise](SubmitResult outcome) { promise->set_value(std::move(outcome)); },
                          .deadline = now() + options_.ask_timeout};
    lane_->submit(std::move(submission));
    if (answer.wait_for(options_.ask_timeout) == std::future_status::timeout) return fail(SubmitError::outcome_unknown);
    return answer.get();
}

void Embedded::submit(core::Command command, OnAnswer on_answer) {
    lane_->submit(Submission{
        .command = completed(std::move(command)), .on_answer = std::move(on_answer), .deadline = far_future});
}

core::Command Embedded::completed(core::Command command) {
    if (command.org.value == 0) command.org = default_org;
    if (command.key.value.empty()) command.key = core::CommandKey(fresh_id());
    return command;
}

}  // namespace interlock::engine
