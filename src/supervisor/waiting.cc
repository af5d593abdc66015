#include "supervisor/waiting.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/describe/enum_to_string.hpp>

#include "base/money.h"
#include "core/places.h"
#include "store/read_rows.h"

namespace interlock::supervisor {
namespace {

std::string duration_text(Duration duration) {
    const double seconds = std::chrono::duration<double>(duration).count();
    if (seconds < 60) return fmt::format("{:.1f} s", seconds);
    const auto whole = static_cast<std::int64_t>(seconds);
    if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
    return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

// What keeps `mine` from its places: a live run, or else one that is ahead of it.
const core::Run* in_the_way(const core::Run& mine, const std::vector<core::Run>& others, bool live) {
    for (const core::Run& other : others) {
        if (other.id == mine.id || core::is_live(other.state) != live) continue;
        for (const core::Place& taken : other.wanted) {
            const auto collides = [&](const core::Place& wanted) { return core::collide(taken, wanted); };
            if (std::ranges::any_of(mine.wanted, collides)) return &other;
        }
    }
    return nullptr;
}

}  // namespace

std::optional<std::string> waiting_text(store::ReadPool& reads, core::OrgId org, core::RunId run) {
    const auto rows = reads.with([&](store::Snapshot& snapshot) {
        return store::read_rows<core::Run>(snapshot, org, "and state in ('queued', 'starting', 'running', 'paused')");
    });
    if (!rows) return std::nullopt;
    const auto mine = std::ranges::find(*rows, run, &core::Run::id);
    if (mine == rows->end()) return std::nullopt;
    const auto before = [&](const core::Run& other) {
        const bool first =
            other.priority != mine->priority ? other.priority > mine->priority : other.ticket < mine->ticket;
        return other.state == core::RunState::queued && other.id != mine->id && first;
    };
    const auto ahead = std::ranges::count_if(*rows, before);
    const std::string line = ahead == 0 ? "next in line" : fmt::format("{} ahead in line", ahead);
    const core::Run* holder = in_the_way(*mine, *rows, true);
    if (holder == nullptr) holder = in_the_way(*mine, *rows, false);
    if (holder == nullptr) return fmt::format("waiting for a free slot or budget; {}", line);
    const auto place = std::ranges::find(mine->wanted, core::ClaimKind::workspace, &core::Place::kind);
    const std::string what = place != mine->wanted.end() ? place->path : mine->wanted.front().path;
    return fmt::format("waiting for {}, which a run of agent '{}' has ({}); {}", what, holder->who.agent,
                       to_text("run", holder->id.value), line);
}

std::string receipt_of(const core::Run& run, const std::string& url) {
    const std::string how = boost::describe::enum_to_string(run.state, "ended");
    std::string text = fmt::format("{} {}", to_text("run", run.id.value), how);
    if (!run.reason.empty() && run.reason != how) text += fmt::format(" ({})", run.reason);
    const Instant from = run.started_at != far_past ? run.started_at : run.created_at;
    text += fmt::format(" after {}", duration_text(run.ended_at - from));
    text += run.events == 1 ? ", 1 model call" : fmt::format(", {} model calls", run.events);
    text += fmt::format(", ${}", to_text(Money::nanos(run.settled)));
    if (run.ceiling > 0) text += fmt::format(" of ${}", to_text(Money::nanos(run.ceiling)));
    if (run.unknown > 0) text += fmt::format(" (${} of it estimated)", to_text(Money::nanos(run.unknown)));
    return text + fmt::format(", {}/#/runs/{}", url, to_text("run", run.id.value));
}

}  // namespace interlock::supervisor
