#include "bench/ours.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "engine/clock.h"
#include "store/sqlite_store.h"

namespace interlock::bench {

std::unique_ptr<Ours> Ours::open(const std::string& directory, Ids& ids, std::string& problem) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) {
        problem = error.message();
        return nullptr;
    }
    std::unique_ptr<Ours> ours(new Ours());
    store::SqliteStore::Options options;
    options.directory = directory;
    ours->store_ = std::make_unique<store::SqliteStore>(std::move(options));
    ours->engine_ = std::make_unique<engine::Engine>(*ours->store_, engine::Engine::Options{});
    if (const auto opened = ours->engine_->open(engine::Clock().now()); !opened) {
        problem = opened.error().detail;
        return nullptr;
    }
    ours->lane_ = std::make_unique<engine::Lane>(*ours->engine_);
    if (run_once(*ours, {core::CreateOrg{"bench"}}, ids) > 0) {
        problem = "the org was refused";
        return nullptr;
    }
    return ours;
}

Ours::~Ours() {
    lane_.reset();
    engine_.reset();
    if (store_ != nullptr) store_->close();
}

void check_rows(Ours& ours, Workload& workload, std::vector<std::string>& problems) {
    const auto rows = ours.store().snapshot();
    if (!rows) {
        problems.push_back(fmt::format("{}: no snapshot: {}", workload.name(), rows.error().detail));
        return;
    }
    for (const std::string& difference : workload.differences(**rows)) {
        problems.push_back(fmt::format("{}: {}", workload.name(), difference));
    }
}

}  // namespace interlock::bench
