#include "store/memory_store.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "base/ensure.h"
#include "store/ledger_sum.h"
#include "store/row_kinds.h"

namespace interlock::store {
namespace {

// The rows of one org, as a pair of iterators.
template <class Map>
auto range_of(Map& rows, core::OrgId org) {
    using Key = typename std::remove_cvref_t<Map>::key_type;
    const auto first = rows.lower_bound(Key{org, {}});
    const auto last = org.value == std::numeric_limits<std::uint32_t>::max()
                          ? rows.end()
                          : rows.lower_bound(Key{core::OrgId(org.value + 1), {}});
    return std::pair(first, last);
}
template <class Map>
auto range_of(Map& rows, const std::optional<LaneHolder>& lane) {
    return lane ? range_of(rows, lane->org) : std::pair(rows.begin(), rows.end());
}

}  // namespace

// ---- commit -------------------------------------------------------------------------------------------------------

Result<void, CommitError> MemoryStore::commit(const WriteSet& writes) {
    using enum CommitError::Kind;
    if (!open_) return fail(CommitError{rolled_back, "the store is closed: " + why_closed_});
    const auto close_with = [&](CommitError::Kind kind, std::string why) {
        open_ = false;
        why_closed_ = why;
        return fail(CommitError{kind, std::move(why)});
    };

    for (const OrgWrites& of_org : writes.orgs) {
        ensure(!lane_ || lane_->org == of_org.org, "whoever has a lane writes its org");
    }

    const CommitFault fault = fault_of_this_commit();
    if (fault == CommitFault::late_on_the_wire) {
        database_->add_late(writes, proof().value(), MemoryDatabase::Late::on_the_wire);
        return close_with(unknown, "asked to send it late");
    }
    if (auto why = database_->objection(writes, proof())) return close_with(rolled_back, std::move(*why));

    std::size_t puts = 0;
    for (const OrgWrites& of_org : writes.orgs) {
        std::apply([&](const auto&... kind) { ((puts += kind.put.size()), ...); }, of_org.rows);
    }
    switch (fault) {
        case CommitFault::none:
            write(writes, MemoryDatabase::all_rows);
            return {};
        case CommitFault::fail_before:
            return close_with(rolled_back, "asked to fail");
        case CommitFault::lose_answer:
            write(writes, MemoryDatabase::all_rows);
            return close_with(unknown, "asked to lose the answer");
        case CommitFault::lose_write:
            return close_with(unknown, "asked to lose the write");
        case CommitFault::late_on_the_wire:
            break;  // Above.
        case CommitFault::late_in_the_database:
            database_->add_late(writes, proof().value(), MemoryDatabase::Late::begun);
            return close_with(unknown, "asked to take long");
        case CommitFault::forget:
            return {};
        case CommitFault::tear:
            write(writes, puts / 2);
            return {};
        case CommitFault::tear_unsure:
            database_->write(writes, puts / 2);
            return close_with(unknown, "asked to tear");
    }
    return {};
}

CommitFault MemoryStore::fault_of_this_commit() {
    const CommitFault next = std::exchange(next_commit_, CommitFault::none);
    if (next != CommitFault::none) return next;
    return faults_.at_commit ? faults_.at_commit() : CommitFault::none;
}

std::optional<LaneProof> MemoryStore::proof() const {
    return lane_ ? std::optional(LaneProof{.org = lane_->org, .epoch = lane_->epoch}) : std::nullopt;
}

void MemoryStore::write(const WriteSet& writes, std::size_t rows_max) {
    database_->write(writes, rows_max);
    if (database_->on_written) database_->on_written(writes);
}

// ---- reading ------------------------------------------------------------------------------------------------------

// A failed load closes the store, and so does every one after it fail.
bool MemoryStore::load_fails() {
    // Rows of another writer, mixed with what memory has of our own, would make no sense to the core.
    const bool replaced = open_ && lane_ && !database_->is_current(*proof());
    const bool fails =
        !open_ || replaced || std::exchange(next_load_fails_, false) || (faults_.at_load && faults_.at_load());
    if (fails) {
        if (open_) why_closed_ = replaced ? "another node has the lane" : "asked to fail a load";
        open_ = false;
        failed_ = true;
    }
    return fails;
}

bool MemoryStore::load(core::OrgId org, core::ColdRow& row) {
    if (load_fails()) return false;
    return std::visit(
        [&]<class Row>(Row& wanted) {
            const auto found = rows<Row>().find({org, core::key_of(wanted)});
            if (found == rows<Row>().end()) return false;
            wanted = found->second;
            return true;
        },
        row);
}

core::Amounts MemoryStore::sum(core::OrgId org, const core::Scope& scope, WindowSpan span) {
    core::Amounts sum;
    if (load_fails()) return sum;
    const auto inside = [&](Instant at) { return at >= span.start && at < span.end; };

    if (rollups_suffice(scope, span)) {
        const auto& days = rows<core::Rollup>();
        auto at = days.lower_bound({org, {utc_day(span.start), "", "", ""}});
        const auto end = days.lower_bound({org, {utc_day(span.end), "", "", ""}});
        for (; at != end; ++at) {
            const core::Rollup& day = at->second;
            core::Attribution who;
            who.agent = day.agent;
            who.provider = day.provider;
            who.model = day.model;
            if (agrees(scope, who)) add_up(sum, day.cost, day.calls, day.usage);
        }
    } else {
        const auto [first, last] = range_of(rows<core::CostEvent>(), org);
        for (auto at = first; at != last; ++at) {
            const core::CostEvent& event = at->second;
            if (inside(event.counted_at) && agrees(scope, event.who)) add_up(sum, event.cost, event.calls, event.usage);
        }
    }
    const auto [first, last] = range_of(rows<core::Run>(), org);
    for (auto at = first; at != last; ++at) {
        const core::Run& run = at->second;
        if (run.admitted_at > far_past && inside(run.admitted_at) && agrees(scope, run.who)) ++sum.runs;
    }
    return sum;
}

std::vector<core::OpenSessions> MemoryStore::open_sessions(core::OrgId org) {
    if (load_fails()) return {};
    std::map<std::pair<std::string, std::string>, std::int64_t> counts;
    const auto [first, last] = range_of(rows<core::Session>(), org);
    for (auto at = first; at != last; ++at) {
        if (!at->second.closed) ++counts[{at->second.agent, at->second.api_key}];
    }
    std::vector<core::OpenSessions> found;
    for (const auto& [who, count] : counts) found.push_back({who.first, who.second, count});
    return found;
}

Result<void, ReadError> MemoryStore::load_live(const OnLiveRow& on_row) {
    if (load_fails()) return fail(ReadError{"the store is closed: " + why_closed_});
    for_each_kind<LiveRow>([&]<class Tag>(Tag) {
        using Row = typename Tag::type;
        const auto [first, last] = range_of(rows<Row>(), lane_);
        for (auto at = first; at != last; ++at) {
            const auto& [key, row] = *at;
            if constexpr (std::is_same_v<Row, core::Run>) {
                if (core::has_ended(row.state)) continue;
            } else if constexpr (std::is_same_v<Row, core::Hold>) {
                if (row.state != core::HoldState::open) continue;
            } else if constexpr (std::is_same_v<Row, core::FeedPage> || std::is_same_v<Row, core::Seal>) {
                const auto next = std::next(at);
                if (next != last && next->first.first == key.first) continue;  // Not the last of its org.
            }
            on_row(key.first, Row(row));
        }
    });
    return {};
}

Result<Id, ReadError> MemoryStore::newest_key() {
    if (load_fails()) return fail(ReadError{"the store is closed: " + why_closed_});
    Id newest;
    const auto look = [&](const auto& all) {
        const auto [begin, beyond] = range_of(all, lane_);
        for (auto end = beyond; end != begin;) {
            const auto [first, last] = range_of(all, std::prev(end)->first.first);
            for (auto at = last; at != first; --at) {
                const Id key = std::prev(at)->first.second.value;
                if (!is_time_ordered(key)) continue;
                newest = std::max(newest, key);
                break;
            }
            end = first;
        }
    };
    look(rows<core::CostEvent>());
    look(rows<core::StoredReply>());
    return newest;
}

// ---- opening, closing, copying -----------------------------------------------------------------------------------

MemoryStore& MemoryStore::operator=(const MemoryStore& other) {
    if (this == &other) return *this;
    database_ = std::make_shared<MemoryDatabase>(*other.database_);
    lane_ = other.lane_;
    faults_ = other.faults_;
    next_commit_ = other.next_commit_;
    next_load_fails_ = other.next_load_fails_;
    open_ = other.open_;
    failed_ = other.failed_;
    why_closed_ = other.why_closed_;
    return *this;
}

Result<void, OpenError> MemoryStore::open() {
    if (open_) return {};
    auto error = faults_.at_open ? faults_.at_open() : std::nullopt;
    if (error) {
        const bool takes = lane_ && faults_.takes_all_the_same && faults_.takes_all_the_same();
        if (takes) database_->take(*lane_);
        return fail(std::move(*error));
    }
    if (lane_) {
        const auto taken = database_->take(*lane_);
        if (!taken) {
            const LaneHolder lane = database_->lane_of(lane_->org);
            return fail(OpenError{OpenError::Kind::in_use, fmt::format("the lane of org {} is at epoch {} and not {}",
                                                                       lane.org.value, lane.epoch, lane_->epoch)});
        }
        lane_->epoch = *taken;
    }
    open_ = true;
    failed_ = false;
    return {};
}

void MemoryStore::close() {
    if (lane_) database_->give_back(*proof());
    open_ = false;
    why_closed_ = "it was closed";
}

Result<std::unique_ptr<Snapshot>, ReadError> MemoryStore::snapshot() {
    return fail(ReadError{"a store in memory has no SQL"});
}

}  // namespace interlock::store
