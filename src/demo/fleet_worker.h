// One simulated client: a program that asks for runs of its agent, calls models in them through the gateway, and ends
// them well, badly, late or not at all.
//
// What it does next follows from its number alone. Being refused is part of it.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <random>
#include <string>

#include "demo/client.h"
#include "demo/fleet_cast.h"
#include "demo/pace.h"

namespace interlock::demo {

// What the whole fleet has in common.
struct DemoFleet {
    DemoFleet(std::string its_url, std::string key, double factor)
        : url(std::move(its_url)), admin_key(std::move(key)), pace(factor) {}

    const std::string url;
    const std::string admin_key;
    DemoSurroundings around;
    DemoPace pace;
    std::atomic<std::int64_t> runs = 0, calls = 0, refusals = 0;

    // What should not have been answered. The first one is kept for people.
    void odd(std::string what) {
        const std::lock_guard lock(mutex_);
        if (++odd_ == 1) first_oddity_ = std::move(what);
    }
    std::int64_t oddities() const {
        const std::lock_guard lock(mutex_);
        return odd_;
    }
    std::string first_oddity() const {
        const std::lock_guard lock(mutex_);
        return first_oddity_;
    }

 private:
    mutable std::mutex mutex_;
    std::int64_t odd_ = 0;
    std::string first_oddity_;
};

class Worker {
 public:
    // The key is bound to the role's agent.
    Worker(DemoFleet& fleet, const DemoRole& role, std::string key, unsigned number);

    // Until the fleet stops.
    void live();

 private:
    enum class DemoEnding { succeeds, fails, takes_too_long, is_forgotten };
    struct DemoRun {
        std::string id;
        std::int64_t fence = 0;
        int steps = 0;
        int pauses_at = -1;  // Which step; -1: never.
        DemoEnding ending = DemoEnding::succeeds;
    };

    void work();
    void take_key_of(const DemoRun& run);
    Result<DemoRun, int> admit();  // The error is the status of a refusal; 0: the fleet stops.
    bool stand_in_line(DemoRun& run);
    void carry_out(const DemoRun& run);
    bool still_wanted(const DemoRun& run);  // A heartbeat; false: it has ended.
    bool rest(const DemoRun& run);          // Paused for a while.
    void end(const DemoRun& run);
    void cancel(const DemoRun& run, const char* why);

    bool open_session();
    void talk_on(const std::string& run);
    // Whether the call was answered with a 2xx.
    bool call_model(const std::string& run, const DemoTurn& exchange, bool with_tool);
    json::value body_of_call(bool with_tool) const;
    json::array conversation_for_gemini() const;
    std::string target_of_call() const;
    void read_a_file(const json::value& answer);

    DemoFleet& fleet_;
    const DemoRole& role_;
    DemoClient client_;
    std::optional<DemoClient> run_client_;  // With a key that is bound to the run, as long as it is there.
    bool had_run_key_ = false;
    std::mt19937_64 random_;
    int number_ = 0;  // Of its runs.
    std::string session_;
    std::size_t turn_ = 0;  // How much of the talk the session has seen.
    json::array conversation_;
};

}  // namespace interlock::demo
