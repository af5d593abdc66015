// What the handlers ask of the rest of the server. src/server implements each interface by a class of its own.
//
// Every method may be called from several threads at once. "Blocks" says that a handler calls it on a worker
// (net::run_on), because it reads a disk or waits. A std::string error is a sentence for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "api/problem.h"
#include "api/wire.h"
#include "base/result.h"
#include "core/rows.h"
#include "engine/engine.h"
#include "net/http.h"
#include "store/cluster.h"

namespace interlock::net {
struct Peer;
}  // namespace interlock::net

namespace interlock::api {

struct Principal;

// ---- commands -----------------------------------------------------------------------------------------------------

// Carries commands out, in the store of this process or at the node that writes their org.
class Commands {
 public:
    virtual ~Commands() = default;

    // Takes commands in order, from any thread. Each one's on_answer is called once.
    virtual void submit(std::vector<engine::Submission> submissions) = 0;
    virtual Instant now() = 0;
    virtual Id fresh_id() = 0;
    virtual std::size_t queue_depth() const = 0;
    // Why no request can be answered at present, or nothing: what was read before may not hold any more.
    virtual std::optional<std::string> block_reason() = 0;
    virtual Result<std::vector<store::Node>, std::string> nodes() = 0;  // Blocks.
};

// ---- callers ------------------------------------------------------------------------------------------------------

// Tells who sends a request, and from where.
class Callers {
 public:
    virtual ~Callers() = default;

    // The user of a browser's login, if the request shows one.
    virtual std::optional<Principal> page_caller(const net::Request& request) = 0;
    // Whether a request comes from inside of a run. Asked for callers that act as operator or admin.
    virtual net::Task<Sender> sender_of(net::Peer* peer) = 0;
    // Whether a path means to the program that sends a request what it means to the server.
    virtual net::Task<bool> shares_files(net::Peer* peer) = 0;
    // A link that logs a browser in with the key of this id, once.
    virtual std::string login_link(const std::string& key_id) = 0;
    // True if another node may have made keys that this one has not read yet.
    virtual bool keys_are_shared() const = 0;
    virtual void refresh_keys() = 0;  // Reads them. Blocks.
};

// ---- workplaces ---------------------------------------------------------------------------------------------------

// Why a worktree stays where it is.
struct WorktreeReason {
    std::string keeps;   // A word for programs: modified, process_inside, …
    std::string detail;  // A sentence.
    friend bool operator==(const WorktreeReason&, const WorktreeReason&) = default;
};
BOOST_DESCRIBE_STRUCT(WorktreeReason, (), (keeps, detail))

// The size of a worktree on the disk, and why it is kept.
struct WorktreeLook {
    std::int64_t bytes = 0;
    std::vector<WorktreeReason> reasons;  // None: nothing would be lost with it.
};

struct WorktreeRemoval {
    bool removed = false;
    std::vector<WorktreeReason> reasons = {};  // Why it was not removed.
    std::string saved_as = {};                 // The ref that has what was in it; empty: all of it is elsewhere.
    std::string detail = {};                   // What went wrong on the way and stopped nothing.
};

// The directories of this machine: what a path names, and the worktrees that were made here. All methods block.
class Workplaces {
 public:
    virtual ~Workplaces() = default;

    // What a path names on this machine.
    virtual Result<core::Place, std::string> resolve(const std::string& path, core::ClaimMode mode) = 0;
    // Follows the directories of a live run that its client owns, from now on.
    virtual void hold(const core::Run& run) = 0;
    // The parts of the repository that worktrees of the directory at this path are made of: the working tree and git's
    // own directory. The error says why no worktree can be made.
    virtual Result<std::vector<std::string>, std::string> repository(const std::string& path) = 0;
    // Makes the worktree of a run that is isolated, and returns its path.
    virtual Result<std::string, std::string> make_worktree(core::RunId run, const std::string& workspace) = 0;
    virtual Result<WorktreeLook, std::string> look_at_worktree(core::RunId run) = 0;
    // `force` removes it although there are reasons to keep it.
    virtual Result<WorktreeRemoval, std::string> remove_worktree(core::RunId run, bool force) = 0;
    virtual Result<void, std::string> restore_worktree(core::RunId run) = 0;
};

// ---- processes ----------------------------------------------------------------------------------------------------

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

// The processes of runs on this machine: what they wrote, and how they may be started.
class Processes {
 public:
    virtual ~Processes() = default;

    // At most `limit` bytes of the run's log from `offset` on; a negative offset counts from the end. An empty piece if
    // the process has written nothing yet. Blocks.
    virtual Result<LogPiece, std::string> read_log(core::RunId run, std::int64_t offset, std::int64_t limit) = 0;
    // A new secret for the shim of a run in a terminal: with it the shim proves that it speaks for the run. Blocks.
    virtual std::string issue_shim_secret(core::RunId run) = 0;
    // Why this machine or its operator does not let such a process start, if it does not.
    virtual std::optional<std::string> sandbox_refusal(const core::ProcessSpec& process) = 0;
    // The level that such a process gets here.
    virtual core::SandboxLevel sandbox_level(const core::ProcessSpec& process) = 0;
};

// ---- models -------------------------------------------------------------------------------------------------------

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
    std::string list_date = {};  // Of the price list that it is from; empty: a person has set it.
};

// What is set for calls to models, what they cost, and how they went.
class Models {
 public:
    virtual ~Models() = default;

    // The document as it is stored, or which of its members is wrong. Blocks.
    virtual Result<std::string, BadMember> check_setting(core::OrgId org, std::string_view kind,
                                                         const std::string& name, const std::string& document) = 0;
    // Settings of the org were changed: the gateway goes by them when this returns. Blocks.
    virtual void settings_changed(core::OrgId org) = 0;
    // Every model's price at present, in order of its name; `filter` is a part of the name. Blocks.
    virtual Result<std::vector<PriceText>, std::string> prices(core::OrgId org, const std::string& filter) = 0;
    // The price that holds for a model, if any does. Blocks.
    virtual Result<std::optional<PriceText>, std::string> price(core::OrgId org, const std::string& provider,
                                                                const std::string& model) = 0;
    // What calls of these models cost at present, in their order; nothing for a model that has no price.
    virtual std::vector<std::optional<UsedPrice>> used_prices(core::OrgId org,
                                                              const std::vector<ModelName>& models) = 0;
    // Takes a new price list in place of the one that the binary carries, and says as JSON what is in it. Blocks.
    virtual Result<std::string, std::string> update_catalog(const std::string& text) = 0;
    // The upstreams that the org's calls can go to.
    virtual std::vector<UpstreamFacts> upstreams(core::OrgId org) = 0;
    // Appends what became of the org's calls to models, in Prometheus' text.
    virtual void write_metrics(std::string& out, core::OrgId org) = 0;
};

// ---- operations ---------------------------------------------------------------------------------------------------

// An org, as those see it who run the server.
struct OrgFacts {
    core::OrgId number;
    std::string name;
    Instant created_at;
};

// The last check of all promises.
struct LastVerify {
    Instant at = far_past;    // far_past: there was none yet.
    std::string report = {};  // As JSON.
};

// One result of the server's check of itself.
enum class FindingLevel { ok, warn, fail };
BOOST_DESCRIBE_ENUM(FindingLevel, ok, warn, fail)

struct SelfFinding {
    FindingLevel level = FindingLevel::ok;
    std::string what;
    std::string detail;
    std::string advice = {};  // What to do; empty where all is well.
};

// What the people who run the server do with it as a whole.
class Operations {
 public:
    virtual ~Operations() = default;

    // Every org there is, by number. Blocks.
    virtual Result<std::vector<OrgFacts>, std::string> orgs() = 0;
    // The checker's report as JSON. Blocks, and may take long.
    virtual Result<std::string, std::string> verify() = 0;
    virtual LastVerify last_verify() = 0;  // Of this server, since it was started.
    // Blocks.
    virtual std::vector<SelfFinding> self_check() = 0;
    // A copy of the store in a new file, as JSON facts about it. Blocks, and may take long.
    virtual Result<std::string, std::string> back_up(const std::string& to) = 0;
    // Why the server is not ready, or nothing. Blocks.
    virtual std::optional<std::string> why_not_ready() = 0;
    virtual engine::EngineStats engine_stats() = 0;
    // Appends batch sizes and commit times, in Prometheus' text.
    virtual void write_engine_histograms(std::string& out) = 0;
};

}  // namespace interlock::api
