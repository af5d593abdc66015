// What the API is made of: the parts that server/ builds and lends to every request.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "core/rows.h"
#include "engine/engine.h"
#include "store/cluster.h"
#include "store/read_pool.h"

namespace interlock::net {
class WorkerPool;
}

namespace interlock::api {

class FeedTail;
class KeyRing;
struct Caller;
class Metrics;

struct ServerFacts {
    std::string version;
    std::string store;
    std::string data_dir;
    std::string address;
    Instant started_at;
};

struct Parts {
    // Commands. `submit` takes them in order, from any thread.
    std::function<void(std::vector<engine::Submission>)> submit;
    std::function<Instant()> now;
    std::function<Id()> fresh_id;

    // Reads.
    store::ReadPool& reads;
    net::WorkerPool& workers;
    FeedTail& feed;

    KeyRing& keys;
    // Whom a browser's cookies log in, if anybody.
    std::function<std::optional<Caller>(std::string_view cookies)> page_caller;
    // A link that logs a browser in, once.
    std::function<std::string()> login_link;
    Metrics& metrics;
    Log& log;
    ServerFacts facts;

    std::string host;       // Which machine this is, in places.
    std::string node;       // How people call this server, and so where its runs are.
    core::Place worktrees;  // The directory in which worktrees are made.
    // What a path names on this machine; the error is a sentence. Blocks: called on a worker.
    std::function<Result<core::Place, std::string>(const std::string& path, core::ClaimMode mode)> workspace;
    // A directory of this name for a run that has to stay out of another's way; made if it is not there. Blocks.
    std::function<Result<std::string, std::string>(const std::string& name)> isolated_directory;
    // The checker's report as JSON. Blocks, and may take long.
    std::function<Result<std::string, std::string>()> verify;
    // A copy of the store in a new file, as JSON facts about it. Blocks, and may take long.
    std::function<Result<std::string, std::string>(const std::string& to)> backup;
    std::function<engine::EngineStats()> engine_stats;
    std::function<std::size_t()> queue_depth;
    std::function<void(std::string& out)> engine_histograms;  // Batch sizes and commit times, in Prometheus' text.
    // Why no request can be answered at present, or nothing: what was read before may not hold any more.
    std::function<std::optional<std::string>()> objection;
    // Reads keys that another node may have made; empty where there is no other. Blocks.
    std::function<void()> refresh_keys;
    std::function<Result<std::vector<store::Node>, std::string>()> nodes;  // Blocks.
    std::function<std::optional<std::string>()> ready;                     // Why not, or nothing. Blocks.
};

}  // namespace interlock::api
