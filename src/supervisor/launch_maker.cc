#include "supervisor/launch_maker.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "supervisor/launching.h"

namespace interlock::supervisor {

namespace fs = std::filesystem;

void LaunchMaker::make(core::RunId id, core::Fence fence, const Then& then) const {
    const auto found = rows_.run(id);
    const auto row = found ? *found : std::nullopt;
    const auto launch = rows_.launch(id);
    // With another fence, the feed is about to say so.
    if (!row || !launch || row->fence != fence) return then(event::PrepareLater{});
    const core::Process& process = launch->process;
    if (!row->isolated) {
        WorktreeKeeper::Made place;
        place.directory = process.directory;
        const auto workspace = std::ranges::find(row->wanted, core::ClaimKind::workspace, &core::Place::kind);
        if (place.directory.empty() && workspace != row->wanted.end()) place.directory = workspace->path;
        return then(made(*row, process, place));
    }
    const bool taken = options_.elsewhere([this, inbox = inbox_, &keeper = options_.worktrees, id, row, process, then] {
        auto place = keeper.make(id, process.directory);
        inbox->post([this, row, process, place = std::move(place), then] { then(made(*row, process, place)); });
    });
    if (!taken) then(event::PrepareLater{});
}

Event LaunchMaker::made(const core::Run& row, const core::Process& process,
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
    const auto sandbox = decide_sandbox(process, options_.sandbox);
    if (!sandbox) return event::NotPrepared{sandbox.error()};
    const shim::Adapter* adapter = adapter_of(process);
    const bool gateway = adapter != nullptr && options_.gateway && options_.gateway(adapter->dialect);
    if (gateway && !adapter->gateway_file_name.empty()) {
        const fs::path file = fs::path(home) / adapter->gateway_file_name;
        fs::create_directories(file.parent_path(), error);
        std::ofstream(file) << adapter->gateway_file;
    }
    const std::int64_t lease_ms = std::int64_t{row.lease_s} * 1000;
    shim::Message launch =
        launch_message(row, process,
                       {.home = home,
                        .directory = directory,
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
