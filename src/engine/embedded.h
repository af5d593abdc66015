// Interlock inside a program: a store in a directory, an engine and its thread, behind four calls.
//
//     auto interlock = engine::Embedded::open({.directory = "data"});
//     interlock->ask({.body = core::Charge{.who = {.agent = "writer"}, .cost = Money::nanos(750'000)}});
//
// Thread-safe. The destructor answers everybody who is still waiting, then closes the store.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "engine/id_source.h"
#include "engine/lane.h"
#include "store/store.h"

namespace interlock::engine {

class Embedded {
 public:
    struct Options {
        std::string directory;  // Made if it is not there.
        Engine::Options engine;
        std::chrono::milliseconds ask_timeout{30'000};
        OnStep on_step = {};
        // The newest time that the store has. The clock goes on from there: the core's time never goes back, and would
        // stand still until the clock has caught up.
        Instant newest_stored = far_past;
    };

    // Opens the store, reads its state and makes the org "default" (number 1) where there is none.
    static Result<std::unique_ptr<Embedded>, store::OpenError> open(Options options);
    // The same on a store that the caller brings, for tests.
    static Result<std::unique_ptr<Embedded>, store::OpenError> open_on(std::unique_ptr<store::Store> store,
                                                                       Options options);
    ~Embedded();

    // Carries out what is queued and ends the thread; the store can be read on. Nothing is asked of it afterwards.
    void stop() { lane_.reset(); }

    static constexpr core::OrgId default_org{1};

    // Carries out one command and waits for it. An empty org means the default one, an empty key a fresh one. When the
    // wait runs out the answer is outcome_unknown: ask again with the same key.
    SubmitResult ask(core::Command command);
    // The same without waiting; `on_answer` is called on the lane's thread and must not block.
    void submit(core::Command command, OnAnswer on_answer);
    // Many at once, as they are: org, keys and deadlines are the caller's.
    void submit(std::vector<Submission> submissions) { lane_->submit(std::move(submissions)); }

    Id fresh_id() { return ids_.next(now()); }
    Instant now() { return lane_->now(); }
    store::Store& store() { return *store_; }
    Lane& lane() { return *lane_; }
    std::size_t queue_depth() const { return engine_->queue_depth(); }

 private:
    Embedded(std::unique_ptr<store::Store> store, Options options);

    core::Command completed(core::Command command);

    Options options_;
    IdSource ids_;
    std::unique_ptr<store::Store> store_;
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<Lane> lane_;
};

}  // namespace interlock::engine
