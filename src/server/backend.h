// What carries commands out: the embedded store in this process, or this node among several on a PostgreSQL database.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/id_source.h"
#include "engine/lane.h"
#include "net/http.h"
#include "store/cluster.h"
#include "store/store.h"

namespace interlock::server {

// What a feed may have grown by. Most of it is money, and who follows runs need not look at that.
enum class News { about_no_run, about_anything };

struct BackendOptions {
    std::string data_dir;
    std::string store;      // "postgres://…"; empty: the embedded one, in the data directory.
    std::string node_name;  // How people call this node.
    std::string peer_ca;    // Believed for the certificates of other nodes.
    Duration lease{};       // Of a node.
    store::SealKey seal_key = store::SealKey::from_text({});  // Of commits.
    bool accept_clock = false;  // Serve an embedded store whose newest time is ahead of the machine's clock.
    std::function<void(const engine::BatchStats&)> on_step;  // On a lane's thread.
    // The org's feed may have grown; of none in particular: any org's.
    std::function<void(std::optional<core::OrgId>, News)> on_news;
};

class Backend {
 public:
    virtual ~Backend() = default;

    virtual void submit(std::vector<engine::Submission> submissions) = 0;
    virtual Instant now() = 0;
    virtual store::Store& store() = 0;  // For its snapshots.
    virtual std::size_t queue_depth() const = 0;
    // Carries out what is queued and lets go of what others could do; the store can be read on.
    virtual void stop() = 0;

    // The newest time that was stored before this start; far_past where there was none.
    Instant stored_before() const { return stored_before_; }
    // Why nothing may be served at present, or nothing.
    virtual std::optional<std::string> block_reason() { return std::nullopt; }
    // Whether others may change the store, so that what was read is old after a while.
    virtual bool shared() const { return false; }
    virtual Result<std::vector<store::Node>, std::string> nodes() = 0;
    // Where this node is reached, once it is known.
    virtual void set_url(const std::string& url) = 0;
    // The answer to a request that another node sends; empty for everybody else's.
    virtual std::optional<net::Task<net::Response>> answer(const net::Request&) { return std::nullopt; }

    // Whether another node sends this, by its head.
    virtual bool is_of_a_node(const net::Request&) const { return false; }

    Id fresh_id() { return ids_.next(now()); }
    // Carries out one command of the default org under a fresh key, and waits for it; asks again for some seconds.
    engine::SubmitResult ask(core::CommandBody body);

 protected:
    Instant stored_before_ = far_past;

 private:
    engine::SubmitResult try_to_ask(core::CommandBody body, core::CommandKey key, std::chrono::seconds timeout);

    engine::IdSource ids_;
};

// What the server of a data directory remembers of the embedded store's history (nodes/history.h).
std::string head_path(const std::string& data_dir);

// When the last event of any feed was committed; far_past where there is none.
Result<Instant, store::ReadError> newest_stored(store::Snapshot& snapshot);

// The error is a sentence: what, why and what to do.
Result<std::unique_ptr<Backend>, std::string> open_backend(BackendOptions options, Log& log);

}  // namespace interlock::server
