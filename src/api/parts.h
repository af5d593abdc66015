// What the API is made of: the parts that server/ builds and lends to every request.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe/class.hpp>

#include "api/wire.h"
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

class FeedTails;
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

// A piece of what a run's process wrote. Positions are bytes since its beginning.
struct LogPiece {
    std::string bytes;
    std::int64_t offset = 0;  // Of the first of `bytes`.
    std::int64_t next = 0;    // Where to go on.
    std::int64_t end = 0;     // So much was written up to now.
    std::int64_t hole_begin = 0;
    std::int64_t hole_end = 0;  // What lies between was given up to keep the log in bounds; equal: nothing was.
    bool kept = false;          // Whether there is a log at all.
};

// Why a worktree stays where it is.
struct WorktreeReason {
    std::string keeps;   // A word for programs: modified, process_inside, …
    std::string detail;  // A sentence.
    friend bool operator==(const WorktreeReason&, const WorktreeReason&) = default;
};
BOOST_DESCRIBE_STRUCT(WorktreeReason, (), (keeps, detail))

// What is seen of a worktree on the disk.
struct WorktreeLook {
    std::int64_t bytes = 0;
    std::vector<WorktreeReason> reasons;  // None: nothing would be lost with it.
};

struct WorktreeRemoval {
    bool removed = false;
    std::vector<WorktreeReason> reasons = {};  // When it was not.
    std::string saved_as = {};                 // The ref that has what was in it; empty: all of it is elsewhere.
    std::string detail = {};                   // What went wrong on the way and stopped nothing.
};

// A model's price: its document as JSON.
struct PriceText {
    std::string name;  // "provider/model"
    std::string document;
};

// An org, as those see it who run the server.
struct OrgFacts {
    core::OrgId number;
    std::string name;
    Instant created_at;
};

struct Parts {
    // Commands. `submit` takes them in order, from any thread.
    std::function<void(std::vector<engine::Submission>)> submit;
    std::function<Instant()> now;
    std::function<Id()> fresh_id;

    // Reads.
    store::ReadPool& reads;
    net::WorkerPool& workers;
    FeedTails& feeds;

    // The org of those who run the server. Processes, directories and the server as a whole are theirs alone.
    core::OrgId home;
    // Every org there is, by number; the error is a sentence. Blocks.
    std::function<Result<std::vector<OrgFacts>, std::string>()> orgs;
    KeyRing& keys;
    // Whom a browser's cookies log in, if anybody.
    std::function<std::optional<Caller>(std::string_view cookies)> page_caller;
    // A link that logs a browser in with the key of this id, once.
    std::function<std::string(const std::string& key_id)> login_link;
    Metrics& metrics;
    Log& log;
    ServerFacts facts;

    std::string host;       // Which machine this is, in places.
    std::string node;       // How people call this server, and so where its runs are.
    core::Place worktrees;  // The directory in which worktrees are made.
    // What a path names on this machine; the error is a sentence. Blocks: called on a worker.
    std::function<Result<core::Place, std::string>(const std::string& path, core::ClaimMode mode)> workspace;
    // Whether worktrees can be made of what is at this path; the error is a sentence. Blocks.
    std::function<Result<void, std::string>(const std::string& path)> repository;
    // Makes the place that a run was given to stay out of another's way, and says where it is. Blocks.
    std::function<Result<std::string, std::string>(core::RunId run, const std::string& workspace)> make_worktree;
    // What the run's process wrote, at most `limit` bytes of it from `offset` on; so many from the end where that is
    // negative. Nothing, and no error, where nothing is yet. Blocks.
    std::function<Result<LogPiece, std::string>(core::RunId run, std::int64_t offset, std::int64_t limit)> run_log;
    // Worktrees of this node; the errors are sentences. All three block, and may take long.
    std::function<Result<WorktreeLook, std::string>(core::RunId run)> worktree_reasons;
    std::function<Result<WorktreeRemoval, std::string>(core::RunId run, bool force)> remove_worktree;
    std::function<Result<void, std::string>(core::RunId run)> restore_worktree;
    // What is set for the gateway. All of these block.
    // Something was set: from now on it is gone by.
    std::function<void(core::OrgId org)> settings_changed;
    // The document as it is stored, or which of its members is wrong.
    std::function<Result<std::string, BadMember>(core::OrgId org, std::string_view kind, const std::string& name,
                                                 const std::string& document)>
        check_setting;
    // Every model's price at present, in order of its name; `filter` is a part of that. The errors are sentences.
    std::function<Result<std::vector<PriceText>, std::string>(core::OrgId org, const std::string& filter)> prices;
    // The one that holds for a model, if any does.
    std::function<Result<std::optional<PriceText>, std::string>(core::OrgId org, const std::string& provider,
                                                                const std::string& model)>
        price;
    // Takes a new price list in place of the one that the binary carries, and says as JSON what is in it.
    std::function<Result<std::string, std::string>(const std::string& text)> update_catalog;
    // The checker's report as JSON. Blocks, and may take long.
    std::function<Result<std::string, std::string>()> verify;
    // A copy of the store in a new file, as JSON facts about it. Blocks, and may take long.
    std::function<Result<std::string, std::string>(const std::string& to)> backup;
    std::function<engine::EngineStats()> engine_stats;
    std::function<std::size_t()> queue_depth;
    std::function<void(std::string& out)> engine_histograms;  // Batch sizes and commit times, in Prometheus' text.
    // What became of the org's calls to models, in Prometheus' text.
    std::function<void(std::string& out, core::OrgId org)> gateway_metrics;
    // Why no request can be answered at present, or nothing: what was read before may not hold any more.
    std::function<std::optional<std::string>()> objection;
    // Reads keys that another node may have made; empty where there is no other. Blocks.
    std::function<void()> refresh_keys;
    std::function<Result<std::vector<store::Node>, std::string>()> nodes;  // Blocks.
    std::function<std::optional<std::string>()> ready;                     // Why not, or nothing. Blocks.
};

}  // namespace interlock::api
