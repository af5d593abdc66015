// What the API is made of: the parts that server/ builds and lends to every request.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "api/problem.h"
#include "api/wire.h"
#include "base/log.h"
#include "base/result.h"
#include "core/rows.h"
#include "engine/engine.h"
#include "net/http.h"
#include "store/cluster.h"
#include "store/read_pool.h"

namespace interlock::net {
class WorkerPool;
struct Peer;
}  // namespace interlock::net

namespace interlock::api {

class FeedTails;
class KeyRing;
struct Principal;
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

// How an upstream does, as this node sees it.
enum class UpstreamState {
    healthy,
    failing,  // Its last request failed.
    cooling,  // It has failed so often in a row that it is asked last for a while.
    idle,     // It got no request within the hour.
};
BOOST_DESCRIBE_ENUM(UpstreamState, healthy, failing, cooling, idle)

struct UpstreamMinute {
    Instant at;
    std::int64_t calls = 0;
    std::int64_t errors = 0;
};
BOOST_DESCRIBE_STRUCT(UpstreamMinute, (), (at, calls, errors))

// An upstream that calls can go to, and its last hour. Times are of answers, from the sending of their request.
struct UpstreamFacts {
    std::string name;
    std::string dialect;
    std::string url;
    std::string provider;
    JsonText key;  // Where its key is found, never the key.
    std::vector<std::string> models;
    std::int32_t priority = 0;
    std::int32_t weight = 0;
    bool enabled = true;
    bool simulated = false;
    bool key_found = true;
    UpstreamState state = UpstreamState::idle;
    std::int32_t failures_in_a_row = 0;
    Instant failing_since;
    Instant cooling_until;
    std::optional<std::string> last_error;
    std::int64_t calls = 0;
    std::int64_t errors = 0;
    std::optional<std::int64_t> first_byte_ms_p50;
    std::optional<std::int64_t> first_byte_ms_p95;
    std::optional<std::int64_t> duration_ms_p50;
    std::optional<std::int64_t> duration_ms_p95;
    std::vector<UpstreamMinute> minutes;  // Those in which there was something, the oldest first.
};
BOOST_DESCRIBE_STRUCT(UpstreamFacts, (),
                      (name, dialect, url, provider, key, models, priority, weight, enabled, simulated, key_found,
                       state, failures_in_a_row, failing_since, cooling_until, last_error, calls, errors,
                       first_byte_ms_p50, first_byte_ms_p95, duration_ms_p50, duration_ms_p95, minutes))

struct ModelName {
    std::string provider;
    std::string model;
    friend auto operator<=>(const ModelName&, const ModelName&) = default;
};

// The price by which calls of a model are settled at present.
struct UsedPrice {
    std::string name;  // Of the price, which may be a pattern: "provider/model".
    std::string document;
    std::string version;
    std::string list_date = {};  // Of the price list that it is from; empty: somebody has set it.
};

// The last check of all promises.
struct LastVerify {
    Instant at = far_past;    // far_past: there was none yet.
    std::string report = {};  // As JSON.
};

// Something that the server has looked at in itself.
enum class FindingLevel { ok, warn, fail };
BOOST_DESCRIBE_ENUM(FindingLevel, ok, warn, fail)

struct SelfFinding {
    FindingLevel level = FindingLevel::ok;
    std::string what;
    std::string detail;
    std::string advice = {};  // What to do; empty where all is well.
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
    net::WorkerPool& bodies;  // Reads large bodies. A client that sends many of them keeps no reads waiting.
    FeedTails& feeds;

    // The org of those who run the server. Processes, directories and the server as a whole are theirs alone.
    core::OrgId home;
    // Every org there is, by number; the error is a sentence. Blocks.
    std::function<Result<std::vector<OrgFacts>, std::string>()> orgs;
    KeyRing& keys;
    // Whom a request of the page is from, if a browser has logged in.
    std::function<std::optional<Principal>(const net::Request& request)> page_caller;
    // Whether a request comes from inside of a run. Asked for those that act as operator or admin.
    std::function<net::Task<Sender>(net::Peer* peer)> sender_of;
    // Whether a path means to the program that sends a request what it means to the server.
    std::function<net::Task<bool>(net::Peer* peer)> shares_files;
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
    // Follows the directories of a live run that its client owns, from now on. Blocks.
    std::function<void(const core::Run& run)> hold_places;
    // What worktrees of the directory at this path are made of, the working tree and git's own directory; the error
    // says why none can be made. Blocks.
    std::function<Result<std::vector<std::string>, std::string>(const std::string& path)> repository;
    // Makes the place that a run was given to stay out of another's way, and says where it is. Blocks.
    std::function<Result<std::string, std::string>(core::RunId run, const std::string& workspace)> make_worktree;
    // A new secret for the shim of a run in a terminal: with it the shim proves that it speaks for the run. Blocks.
    std::function<std::string(core::RunId run)> shim_secret;
    // What the run's process wrote, at most `limit` bytes of it from `offset` on; so many from the end where that is
    // negative. Nothing, and no error, where nothing is yet. Blocks.
    std::function<Result<LogPiece, std::string>(core::RunId run, std::int64_t offset, std::int64_t limit)> run_log;
    // Why this machine or its operator does not let such a process start, if it does not.
    std::function<std::optional<std::string>(const core::ProcessSpec& process)> sandbox_refusal;
    // The level that such a process gets here.
    std::function<core::SandboxLevel(const core::ProcessSpec& process)> sandbox_level;
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
    // The upstreams that the org's calls can go to. Does not block.
    std::function<std::vector<UpstreamFacts>(core::OrgId org)> upstreams;
    // What calls of these models cost at present, in their order; nothing for those that have no price. Does not block.
    std::function<std::vector<std::optional<UsedPrice>>(core::OrgId org, const std::vector<ModelName>& models)>
        used_prices;
    // Takes a new price list in place of the one that the binary carries, and says as JSON what is in it.
    std::function<Result<std::string, std::string>(const std::string& text)> update_catalog;
    // The checker's report as JSON. Blocks, and may take long.
    std::function<Result<std::string, std::string>()> verify;
    std::function<LastVerify()> last_verify;  // Of this server, since it was started.
    // What the server sees when it looks at itself. Blocks.
    std::function<std::vector<SelfFinding>()> run_self_check;
    // A copy of the store in a new file, as JSON facts about it. Blocks, and may take long.
    std::function<Result<std::string, std::string>(const std::string& to)> backup;
    std::function<engine::EngineStats()> engine_stats;
    std::function<std::size_t()> queue_depth;
    std::function<void(std::string& out)> engine_histograms;  // Batch sizes and commit times, in Prometheus' text.
    // What became of the org's calls to models, in Prometheus' text.
    std::function<void(std::string& out, core::OrgId org)> gateway_metrics;
    // Why no request can be answered at present, or nothing: what was read before may not hold any more.
    std::function<std::optional<std::string>()> block_reason;
    // Reads keys that another node may have made; empty where there is no other. Blocks.
    std::function<void()> refresh_keys;
    std::function<Result<std::vector<store::Node>, std::string>()> nodes;  // Blocks.
    std::function<std::optional<std::string>()> ready;                     // Why not, or nothing. Blocks.
};

}  // namespace interlock::api
