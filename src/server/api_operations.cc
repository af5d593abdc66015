#include "server/api_operations.h"

#include <fmt/format.h>

#include "nodes/history.h"
#include "server/data_dir.h"
#include "server/node.h"
#include "server/self_check.h"
#include "server/verify_command.h"
#include "server/version.h"
#include "store/read_every_org.h"
#include "store/sqlite_backup.h"
#include "supervisor/host_facts.h"

namespace interlock::server {

Result<std::vector<api::OrgFacts>, std::string> ApiOperations::orgs() {
    const auto rows = options_.reads.with(
        [](store::Snapshot& snapshot) { return store::read_every_org<core::Org>(snapshot, "order by org"); });
    if (!rows) return fail(rows.error().detail);
    std::vector<api::OrgFacts> facts;
    for (const auto& [org, row] : *rows) facts.push_back({org, row.name, row.created_at});
    return facts;
}

Result<std::string, std::string> ApiOperations::verify() {
    auto remembered =
        nodes::History::read(options_.embedded ? head_path(options_.data_dir) : history_path(options_.data_dir));
    if (!remembered) return fail(std::move(remembered).error());
    auto snapshot = options_.backend.store().snapshot();
    if (!snapshot) return fail(snapshot.error().detail);
    auto report = verify_as_json(**snapshot, {.store = {},
                                              .json = true,
                                              .seal_keys = read_seal_keys(options_.data_dir),
                                              .remembered = std::move(*remembered)});
    if (!report) return report;
    const std::lock_guard lock(mutex_);
    last_verify_ = {options_.backend.now(), *report};
    return report;
}

api::LastVerify ApiOperations::last_verify() {
    const std::lock_guard lock(mutex_);
    return last_verify_;
}

std::vector<api::SelfFinding> ApiOperations::self_check() {
    const auto nodes = options_.backend.nodes();
    auto [price_list, price_list_date] = options_.gateway.price_list(options_.home);
    const supervisor::Supervisor* supervisor = options_.supervisor.load(std::memory_order_acquire);
    return run_self_check(
        {.version = version,
         .data_dir = options_.data_dir,
         .now = options_.backend.now(),
         .wall_clock = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()),
         .started_at = options_.started_at,
         .not_ready = why_not_ready(),
         .engine = options_.engine.stats(),
         .price_list = std::move(price_list),
         .price_list_date = std::move(price_list_date),
         .upstreams = options_.gateway.upstreams(options_.home),
         .last_verify = last_verify(),
         .memory_pressure = supervisor::memory_pressure(),
         .memory_pressure_max = options_.memory_pressure_max,
         .sandbox = options_.sandbox.policy(),
         .nodes = nodes ? *nodes : std::vector<store::Node>(),
         .kept_places = supervisor != nullptr ? supervisor->kept_places() : std::map<std::string, std::string>()});
}

Result<std::string, std::string> ApiOperations::back_up(const std::string& to) {
    if (!options_.embedded) {
        return fail(std::string("the store is a PostgreSQL database; back it up with pg_dump or pg_basebackup"));
    }
    const auto begun = std::chrono::steady_clock::now();
    const auto facts = store::back_up(options_.data_dir, to);
    if (!facts) return fail(facts.error().detail);
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun);
    return fmt::format(R"({{"to":{},"bytes":{},"sha256":"{}","head":"{}","milliseconds":{}}})", api::to_json(to),
                       facts->bytes, facts->sha256, facts->head, took.count());
}

std::optional<std::string> ApiOperations::why_not_ready() {
    if (auto why = options_.backend.block_reason()) return why;
    const auto read =
        options_.reads.with([](store::Snapshot& snapshot) { return snapshot.query("select 1", [](const auto&) {}); });
    return read ? std::nullopt : std::optional("the store cannot be read: " + read.error().detail);
}

}  // namespace interlock::server
