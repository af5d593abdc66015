#include "store/memory_store.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "store/ledger_sum.h"

namespace interlock::store {
namespace {

// Calls `visit` with a tag of each kind of row, in the order in which they are written.
template <class List, class Visit>
void for_each_kind(Visit visit) {
    boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, List>>(visit);
}

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

    if (inserts_twice(writes)) return close_with(rolled_back, "a key is there already");

    constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
    std::size_t puts = 0;
    for (const OrgWrites& of_org : writes.orgs) {
        std::apply([&](const auto&... kind) { ((puts += kind.put.size()), ...); }, of_org.rows);
    }
    switch (fault_of_this_commit()) {
        case CommitFault::none:
            write(writes, all);
            return {};
        case CommitFault::fail_before:
            return close_with(rolled_back, "asked to fail");
        case CommitFault::lose_answer:
            write(writes, all);
            return close_with(unknown, "asked to lose the answer");
        case CommitFault::lose_write:
            return close_with(unknown, "asked to lose the write");
        case CommitFault::forget:
            return {};
        case CommitFault::tear:
            write(writes, puts / 2);
            return {};
        case CommitFault::tear_unsure:
            write(writes, puts / 2);
            return close_with(unknown, "asked to tear");
    }
    return {};
}

CommitFault MemoryStore::fault_of_this_commit() {
    const CommitFault next = std::exchange(next_commit_, CommitFault::none);
    if (next != CommitFault::none) return next;
    return faults_.at_commit ? faults_.at_commit() : CommitFault::none;
}

// Invariant (3) of every store: whether a row of an appended kind would be written where there is one.
bool MemoryStore::inserts_twice(const WriteSet& writes) const {
    bool twice = false;
    for (const OrgWrites& of_org : writes.orgs) {
        for_each_kind<core::AllRows>([&]<class Tag>(Tag) {
            using Row = typename Tag::type;
            if constexpr (Row::life == core::Life::appended) {
                const RowWrites<Row>& of_kind = of_org.of<Row>();
                std::vector<core::KeyOf<Row>> keys;
                keys.reserve(of_kind.put.size());
                for (const Row* row : of_kind.put) keys.push_back(core::key_of(*row));
                for (const auto& key : keys) {
                    const bool erased = std::ranges::find(of_kind.erased, key) != of_kind.erased.end();
                    twice = twice || (!erased && rows<Row>().contains({of_org.org, key}));
                }
                std::ranges::sort(keys);
                twice = twice || std::ranges::adjacent_find(keys) != keys.end();
            }
        });
    }
    return twice;
}

void MemoryStore::write(const WriteSet& writes, std::size_t rows_max) {
    for (const OrgWrites& of_org : writes.orgs) {
        for_each_kind<core::AllRows>([&]<class Tag>(Tag) {
            using Row = typename Tag::type;
            auto& stored = std::get<Rows<Row>>(rows_);
            for (const auto& key : of_org.of<Row>().erased) stored.erase({of_org.org, key});
            for (const Row* row : of_org.of<Row>().put) {
                if (rows_max == 0) return;
                --rows_max;
                stored.insert_or_assign({of_org.org, core::key_of(*row)}, *row);
            }
        });
    }
}

// ---- reading ------------------------------------------------------------------------------------------------------

// A failed load closes the store, and so does every one after it fail.
bool MemoryStore::load_fails() {
    const bool fails = !open_ || std::exchange(next_load_fails_, false) || (faults_.at_load && faults_.at_load());
    if (fails) {
        if (open_) why_closed_ = "asked to fail a load";
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

Result<void, ReadError> MemoryStore::load_live(const OnLiveRow& on_row) {
    if (load_fails()) return fail(ReadError{"the store is closed: " + why_closed_});
    for_each_kind<LiveRow>([&]<class Tag>(Tag) {
        using Row = typename Tag::type;
        const Rows<Row>& all = rows<Row>();
        for (auto at = all.begin(); at != all.end(); ++at) {
            const auto& [key, row] = *at;
            if constexpr (std::is_same_v<Row, core::Run>) {
                if (core::has_ended(row.state)) continue;
            } else if constexpr (std::is_same_v<Row, core::Hold>) {
                if (row.state != core::HoldState::open) continue;
            } else if constexpr (std::is_same_v<Row, core::FeedPage>) {
                const auto next = std::next(at);
                if (next != all.end() && next->first.first == key.first) continue;  // Not the last of its org.
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
        for (auto end = all.end(); end != all.begin();) {
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
    look(rows<core::Answer>());
    return newest;
}

// ---- opening and closing ------------------------------------------------------------------------------------------

Result<void, OpenError> MemoryStore::open() {
    if (open_) return {};
    if (faults_.at_open) {
        if (auto error = faults_.at_open()) return fail(std::move(*error));
    }
    open_ = true;
    failed_ = false;
    return {};
}

void MemoryStore::close() {
    open_ = false;
    why_closed_ = "it was closed";
}

Result<std::unique_ptr<Snapshot>, ReadError> MemoryStore::snapshot() {
    return fail(ReadError{"a store in memory has no SQL"});
}

}  // namespace interlock::store
