#include "supervisor/run_orders.h"

#include <set>

#include "supervisor/observed.h"
#include "supervisor/run_end.h"

namespace interlock::supervisor {
namespace {

constexpr std::chrono::milliseconds read_again_after{200};

}  // namespace

bool RunOrders::read_everything(const RunDirectories& directories) {
    const auto unfinished = rows_.unfinished();
    if (!unfinished) return false;

    // What an earlier server, or another node, gave up while no server was here to end it. A shim that only waits comes
    // by itself, and is told.
    std::set<std::string> known;
    for (const core::Run& run : unfinished->runs) known.insert(to_text("run", run.id.value));
    for (const auto& [name, state] : directories.unfinished_but(known)) {
        const auto id = id_from_text("run", name);
        if (!id) continue;
        const auto row = rows_.run(core::RunId(*id));
        if (!row) return false;
        hooks_.left_over(core::RunId(*id), state, *row ? (*row)->wanted : std::vector<core::Place>());
    }
    cursor_ = unfinished->head;
    for (const core::Run& run : unfinished->runs) unfinished_at_start_.insert(run.id.value);
    for (const core::Run& run : unfinished->runs) run.supervised ? take_on(run) : hooks_.clients_run(run);
    hooks_.settle();
    options_.held.all_are_expected();
    return true;
}

bool RunOrders::follow() {
    for (bool more = true; more;) {
        const auto news = rows_.after(cursor_);
        if (!news) return false;
        for (const core::Event& event : news->events) {
            on_event(event);
            hooks_.settle();
        }
        cursor_ = news->cursor;
        more = news->more;
    }
    return true;
}

void RunOrders::on_event(const core::Event& event) {
    if (const auto* changed = std::get_if<core::RunChanged>(&event)) {
        if (changed->state == core::RunState::starting) return look_up(changed->run);
        if (changed->state == core::RunState::queued) return look_whether_back_in_line(changed->run);
        hooks_.happens(changed->run, event::StateChanged{changed->state});
    } else if (const auto* stopped = std::get_if<core::RunStopRequested>(&event)) {
        hooks_.happens(stopped->run, event::StopRequested{stopped->reason});
    } else if (const auto* ended = std::get_if<core::RunEnded>(&event)) {
        if (!hooks_.watched(ended->run)) {
            options_.held.give_up(ended->run);
            options_.secrets.forget(ended->run);
        }
        hooks_.happens(ended->run, event::RunIsOver{ended->reason});
    }
}

void RunOrders::look_up(core::RunId id) {
    const auto row = rows_.run(id);
    if (!row) return hooks_.later(read_again_after, [this, id] { look_up(id); });
    if (*row) (*row)->supervised ? take_on(**row) : hooks_.clients_run(**row);
}

// The run may have been granted its places again since. Then it was found under its new fence.
void RunOrders::look_whether_back_in_line(core::RunId id) {
    const auto fence = hooks_.watched(id);
    if (!fence) return;
    const auto row = rows_.run(id);
    if (!row) return hooks_.later(read_again_after, [this, id] { look_whether_back_in_line(id); });
    if (*row && (*row)->fence != *fence) hooks_.happens(id, event::BackInLine{});
}

// From now on this run is looked after, from wherever it stands.
void RunOrders::take_on(const core::Run& row) {
    if (!row.supervised || row.node != options_.node || core::has_ended(row.state)) return;
    if (hooks_.watched(row.id) == row.fence) return;
    const auto launch = rows_.launch(row.id);
    if (!launch) return hooks_.later(read_again_after, [this, id = row.id] { look_up(id); });
    const bool queued = row.state == core::RunState::queued;
    const std::string run = to_text("run", row.id.value);
    auto file = look_at_shim_file(options_.data_dir + "/runs/" + run);
    if (queued && !launch->process.foreground && !(file && file->of_another_turn(row.fence))) return;

    event::Found found{.order = {.id = row.id,
                                 .parent = row.parent,
                                 .fence = row.fence,
                                 .places = row.wanted,
                                 .lease_s = row.lease_s,
                                 .foreground = launch->process.foreground,
                                 .of_earlier_server = unfinished_at_start_.contains(row.id.value),
                                 .ends_within = ends_within(launch->process),
                                 .cgroup = cgroups_.empty() ? "" : cgroups_ + "/" + run},
                       .state = row.state,
                       .stop = row.stop_requested,
                       .file = std::move(file)};
    if (!queued) (void)options_.open_key(row);  // The process of an earlier server's run has it already.
    hooks_.found(std::move(found));
}

}  // namespace interlock::supervisor
