#include "store/memory_database.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ensure.h"
#include "store/row_kinds.h"

namespace interlock::store {

std::optional<std::string> MemoryDatabase::objection(const WriteSet& writes,
                                                     const std::optional<LaneProof>& proof) const {
    if (proof && !is_current(*proof)) {
        const LaneHolder lane = lane_of(proof->org);
        return fmt::format("the lane of org {} has epoch {} and not {}: it was taken by {}", proof->org.value,
                           lane.epoch, proof->epoch, to_text("node_", lane.node));
    }
    if (inserts_twice(writes)) return "a key is there already";
    return std::nullopt;
}

// Invariant (3) of every store: whether a row of an appended kind would be written where there is one.
bool MemoryDatabase::inserts_twice(const WriteSet& writes) const {
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

void MemoryDatabase::write(const WriteSet& writes, std::size_t rows_max) {
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

// ---- lanes --------------------------------------------------------------------------------------------------------

LaneHolder MemoryDatabase::lane_of(core::OrgId org) const {
    const auto found = lanes_.find(org);
    return found == lanes_.end() ? LaneHolder{.org = org, .epoch = 0, .node = {}, .boot = {}} : found->second;
}

bool MemoryDatabase::is_current(const LaneProof& proof) const {
    return lies.no_proof || lane_of(proof.org).epoch == proof.epoch;
}

std::optional<std::int64_t> MemoryDatabase::take(const LaneHolder& taker) {
    ensure(!taker.boot.empty(), "a lane is taken by somebody");
    for (std::size_t i = 0; i < late_.size() && !lies.takes_do_not_wait;) {
        const bool waits = late_[i].how == Late::begun && late_[i].proof.org == taker.org;
        waits ? deliver_late(i) : static_cast<void>(++i);
    }
    LaneHolder& lane = lanes_.try_emplace(taker.org, lane_of(taker.org)).first->second;
    // Its own boot: the answer to an earlier take may have been lost.
    const bool own = lane.boot == taker.boot;
    if (lane.epoch != taker.epoch && !own) return std::nullopt;
    if (own && lies.opening_again_takes_nothing) return lane.epoch;
    lane.epoch += 1;
    lane.node = taker.node;
    lane.boot = taker.boot;
    return lane.epoch;
}

void MemoryDatabase::give_back(const LaneProof& proof) {
    const auto found = lanes_.find(proof.org);
    if (found == lanes_.end() || found->second.epoch != proof.epoch) return;
    found->second.node = {};
    found->second.boot = {};
}

// ---- late commits -------------------------------------------------------------------------------------------------

void MemoryDatabase::add_late(const WriteSet& writes, const LaneProof& proof, Late how) {
    ensure(writes.orgs.size() <= 1, "whoever writes a lane writes no other org");
    LateCommit& late = late_.emplace_back(LateCommit{.how = how, .proof = proof, .rows = {}});
    for (const OrgWrites& of_org : writes.orgs) {
        for_each_kind<core::AllRows>([&]<class Tag>(Tag) {
            using Row = typename Tag::type;
            auto& own = std::get<OwnRows<Row>>(late.rows);
            for (const Row* row : of_org.of<Row>().put) own.put.push_back(*row);
            own.erased = of_org.of<Row>().erased;
        });
    }
}

void MemoryDatabase::deliver_late(std::size_t which) {
    const LateCommit late = std::move(late_[which]);
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(which));
    WriteSet writes;
    OrgWrites& of_org = writes.orgs.emplace_back();
    of_org.org = late.proof.org;
    for_each_kind<core::AllRows>([&]<class Tag>(Tag) {
        using Row = typename Tag::type;
        const auto& own = std::get<OwnRows<Row>>(late.rows);
        for (const Row& row : own.put) of_org.of<Row>().put.push_back(&row);
        of_org.of<Row>().erased = own.erased;
    });
    const auto proof = late.how == Late::begun ? std::nullopt : std::optional(late.proof);
    if (objection(writes, proof)) return;
    write(writes);
    if (on_written) on_written(writes);
}

}  // namespace interlock::store
