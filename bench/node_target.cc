#include "bench/node_target.h"

#include <unistd.h>

#include <fmt/format.h>

#include "engine/id_source.h"
#include "store/postgres_cluster.h"

namespace interlock::bench {
namespace {

net::Task<net::Response> nothing_here() { co_return net::problem(404, "not_found", "only nodes speak here"); }

}  // namespace

NodeTarget::NodeTarget(const std::string& uri)
    : log_({.level_min = LogLevel::warn,
            .clock = [] { return engine::Clock().now(); },
            .write = [](std::string_view line) { (void)!::write(STDERR_FILENO, line.data(), line.size()); }}) {
    server_.uri = uri;
    pool_ = std::make_shared<store::PostgresPool>(store::PostgresPool::Options{.server = server_});
    store::PostgresStore::Options reading;
    reading.server = server_;
    reading.pool = pool_;
    reader_ = std::make_unique<store::PostgresStore>(std::move(reading));
}

NodeTarget::~NodeTarget() {
    http_.reset();
    router_.reset();
}

std::unique_ptr<NodeTarget> NodeTarget::open(const std::string& uri, std::string& problem) {
    std::unique_ptr<NodeTarget> target(new NodeTarget(uri));
    engine::IdSource ids;
    const Instant now = engine::Clock().now();
    nodes::CommandRouter::Options how;
    how.me = {.id = ids.next(now), .boot = ids.next(now), .name = "bench", .url = {}, .version = "bench"};
    how.connect = [self = target.get()] { return std::make_unique<store::PostgresCluster>(self->server_); };
    how.open_store = [self = target.get(), node = how.me.id, boot = how.me.boot](core::OrgId org, std::int64_t epoch) {
        store::PostgresStore::Options lane;
        lane.server = self->server_;
        lane.org = org;
        lane.node = node;
        lane.boot = boot;
        lane.from_epoch = epoch;
        lane.pool = self->pool_;
        return std::make_unique<store::PostgresStore>(std::move(lane));
    };
    how.on_step = [self = target.get()](core::OrgId, const engine::BatchStats&) { ++self->batches_; };
    target->router_ = std::make_unique<nodes::CommandRouter>(std::move(how), target->log_);
    if (auto started = target->router_->start(); !started) {
        problem = started.error();
        return nullptr;
    }
    nodes::CommandRouter& router = *target->router_;
    target->inbound_ = std::make_unique<nodes::Inbound>(router.door());
    net::HttpServerOptions listening;
    listening.host = "127.0.0.1";
    listening.port = 0;
    listening.threads = 1;
    target->http_ = std::make_unique<net::HttpServer>(
        std::move(listening),
        [inbound = target->inbound_.get()](net::Request request) -> net::Task<net::Response> {
            if (auto answer = inbound->answer(request)) return std::move(*answer);
            return nothing_here();
        },
        target->log_);
    const auto port = target->http_->start();
    if (!port) {
        problem = port.error().detail;
        return nullptr;
    }
    router.set_url(fmt::format("http://127.0.0.1:{}", *port));
    return target;
}

}  // namespace interlock::bench
