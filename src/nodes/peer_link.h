// The way to another node: commands queue here, travel together, and their answers come back.
//
//   (1) What queued up while the last journey was under way is the next one, in order.
//   (2) Each submission is answered, or handed back whole, exactly once. Handed back means: nobody here knows what
//   became
//       of it, and its key makes it safe to ask again.
//
// One thread and one connection for each link.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "nodes/wire.h"

namespace interlock::nodes {

// Why submissions come back.
enum class PeerError {
    gone,         // Nobody is there, the connection broke, or it does not understand us.
    silent,       // No answer in time.
    unavailable,  // It is there, and says that it cannot reach the store.
};

class PeerLink {
 public:
    struct Options {
        std::string url;
        std::string secret;
        std::string ca_file = {};
        std::chrono::milliseconds timeout{4'000};
        std::size_t queue_max = 65'536;
        std::size_t journey_max = 4'096;
        std::size_t journey_bytes_max = 4u << 20;  // Unless it is one command: the other node takes 32 MB.
        std::function<Instant()> now;
        std::function<void(PeerError, std::vector<engine::Submission>)> hand_back;
        std::function<void(const Head&)> on_head = {};       // Before the answers that it stands behind are given.
        std::function<void(core::OrgId)> not_written_there;  // It answered, but only passed the command on.
    };
    explicit PeerLink(Options options);
    ~PeerLink();  // Hands back what has not left yet.

    void submit(std::vector<engine::Submission> submissions);
    std::size_t queue_depth() const;

 private:
    void run();
    void send_batch(std::vector<engine::Submission> batch);

    const Options options_;
    mutable std::mutex mutex_;
    std::condition_variable work_;
    std::vector<engine::Submission> queue_;
    bool stopping_ = false;
    struct Connection;
    std::unique_ptr<Connection> connection_;
    std::thread thread_;
};

}  // namespace interlock::nodes
