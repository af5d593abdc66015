#include "supervisor/launch_maker.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "supervisor/launching.h"
#include "supervisor/place_check.h"
#include "supervisor/seen_place.h"

namespace interlock::supervisor {

namespace fs = std::filesystem;

void LaunchMaker::make(const Order& order, const Then& then) const {
    const auto found = rows_.run(order.id);
    const auto row = found ? *found : std::nullopt;
    const auto launch = rows_.launch(order.id);
    // With another fence, the feed is about to say so.
    if (!row || !launch || row->fence != order.fence) return then(event::PrepareLater{});
    const core::ProcessSpec& process = launch->process;
    if (!row->isolated) {
        WorktreeKeeper::Made place;
        const auto workspace = std::ranges::find(order.places, core::ClaimKind::workspace, &core::Place::kind);
        place.directory = workspace != order.places.end() ? workspace->path : process.directory;
        return then(made(*row, process, place));
    }
    const bool taken = options_.elsewhere([this, task_queue = task_queue_, &keeper = options_.worktrees,
                                           &held = options_.held, order, row, process, then] {
        const std::string moved = moved_repository(process.directory);
        auto place = moved.empty() ? keeper.make(order.id, process.directory) : fail(moved);
        const auto directory = std::make_shared<shim::Fd>();
        if (place) *directory = hold_worktree(held, order.id, order.fence, order.places, place->directory);
        task_queue->post([this, order, row, process, place = std::move(place), directory, then] {
            places_.keep(order.id, order.fence, std::move(*directory));
            then(made(*row, process, place));
        });
    });
    if (!taken) then(event::PrepareLater{});
}

WatchEvent LaunchMaker::made(const core::Run& row, const core::ProcessSpec& process,
                             const Result<WorktreeKeeper::Made, std::string>& place) const {
    if (!place) return event::NotPrepared{"no worktree could be made: " + place.error()};
    const std::string run = to_text("run", row.id.value);
    const std::string home = options_.data_dir + "/runs/" + run;
    std::error_code error;
    fs::create_directory(home, error);
    ::chmod(home.c_str(), 0700);
    std::string directory = place->directory;
    if (directory.empty()) {
        directory = home + "/work";
        fs::create_directory(directory, error);
    }
    const auto sandbox = decide_sandbox(process, options_.sandbox());
    if (!sandbox) return event::NotPrepared{sandbox.error()};
    const shim::Adapter* adapter = adapter_of(process);
    const bool gateway = adapter != nullptr && options_.gateway && options_.gateway(adapter->dialect);
    if (gateway && !adapter->gateway_file_name.empty()) {
        const fs::path file = fs::path(home) / adapter->gateway_file_name;
        fs::create_directories(file.parent_path(), error);
        std::ofstream(file) << adapter->gateway_file;
    }
    const std::int64_t lease_ms = std::int64_t{row.lease_s} * 1000;
    shim::ShimMessage launch =
        launch_message(row, process,
                       {.home = home,
                        .directory = directory,
                        .directory_is_held = places_.has(row.id, row.fence),
                        .environment = options_.environment,
                        .url = options_.url(),
                        .key = options_.open_key(row),
                        .port_base = place->port_base,
                        .sandbox = *sandbox,
                        .hidden = {options_.data_dir, options_.socket},
                        .writable = place->writable,
                        .readable = place->readable,
                        .in_worktree = row.isolated,
                        .cgroup = cgroups_.empty() ? "" : cgroups_ + "/" + run,
                        .log_bytes_max = options_.log_bytes_max,
                        .beat_ms = std::clamp<std::int64_t>(lease_ms / 6, 100, 5'000),
                        .gateway = gateway,
                        .output_tokens = gateway && options_.output_tokens ? options_.output_tokens(row) : 0});
    if (shim::encode(launch).size() > shim::message_bytes_max) {
        return event::NotPrepared{"its command and environment are too large"};
    }
    return event::Prepared{.launch = {std::move(launch)}, .note = sandbox->note};
}

}  // namespace interlock::supervisor
