#include "supervisor/run_rows.h"

#include "core/feed.h"
#include "store/read_rows.h"

namespace interlock::supervisor {
namespace {

constexpr std::size_t pages_per_read = 256;

}  // namespace

std::optional<RunRows::Unfinished> RunRows::unfinished() const {
    Unfinished found;
    const auto head = reads_.with([&](store::Snapshot& snapshot) -> Result<std::int64_t, store::ReadError> {
        auto runs = store::read_rows<core::Run>(
            snapshot, org_,
            "and state in ('queued', 'starting', 'running', 'paused') and (supervised = 1 and node = $2 or "
            "supervised = 0 and state <> 'queued')",
            {node_});
        if (!runs) return fail(runs.error());
        found.runs = std::move(*runs);
        return store::read_number(snapshot, org_, "select max(last_seq) from feed_pages where org = $1");
    });
    if (!head) return std::nullopt;
    found.head = core::Seq(*head);
    return found;
}

Result<std::optional<core::Run>, store::ReadError> RunRows::run(core::RunId id) const {
    return reads_.with([&](store::Snapshot& snapshot) { return store::read_row<core::Run>(snapshot, org_, id.value); });
}

std::optional<core::Launch> RunRows::launch(core::RunId id) const {
    auto row =
        reads_.with([&](store::Snapshot& snapshot) { return store::read_row<core::Launch>(snapshot, org_, id.value); });
    return row ? std::move(*row) : std::nullopt;
}

std::optional<RunRows::News> RunRows::after(core::Seq cursor) const {
    const auto pages = reads_.with([&](store::Snapshot& snapshot) {
        return store::read_rows<core::FeedPage>(snapshot, org_, "and last_seq > $2 order by last_seq limit $3",
                                                {cursor.value, static_cast<std::int64_t>(pages_per_read)});
    });
    if (!pages) return std::nullopt;
    News news{.events = {}, .cursor = cursor, .more = pages->size() == pages_per_read};
    for (const core::FeedPage& page : *pages) {
        auto events = core::events_of(page);
        if (events) std::ranges::move(*events, std::back_inserter(news.events));
        news.cursor = page.last_seq;
    }
    return news;
}

}  // namespace interlock::supervisor
