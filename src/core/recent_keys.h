// Which command keys were used lately: what lets a new command skip the look into the store.
//
// Keys made by time_ordered_id() grow with time, so "newer than everything I have forgotten" proves that a key is new
// without any disk. Every other key is looked up, which is right for all and slower only for those who bring random
// keys or very old ones. A key from the far future does no harm but to speed.
//
//   (1) A used key greater than `forgotten_` is in one of the two generations.
//   (2) At most 2 × generation_max keys are remembered.
#pragma once

#include <boost/unordered/unordered_flat_set.hpp>

#include "core/rows.h"

namespace interlock::core {

class RecentKeys {
 public:
    static constexpr std::size_t generation_max = 1u << 16;

    enum class Seen { no, maybe, yes };

    Seen seen(OrgId org, CommandKey key) const {
        if (is_time_ordered(key.value) && key.value > newest_) return Seen::no;
        const Id id = mixed(org, key);
        if (young_.contains(id) || old_.contains(id)) return Seen::yes;
        return is_time_ordered(key.value) && key.value > forgotten_ ? Seen::no : Seen::maybe;
    }

    void add(OrgId org, CommandKey key) {
        if (young_.size() == generation_max) {
            forgotten_ = std::max(forgotten_, old_newest_);
            old_.swap(young_);
            old_newest_ = young_newest_;
            young_.clear();
            young_newest_ = {};
        }
        young_.insert(mixed(org, key));
        if (!is_time_ordered(key.value)) return;
        young_newest_ = std::max(young_newest_, key.value);
        newest_ = std::max(newest_, key.value);
    }

    // Nothing is remembered any more. `newest` is the greatest time-ordered key in the store.
    void forget_all(Id newest) {
        *this = RecentKeys();
        forgotten_ = newest;
        newest_ = newest;
    }

 private:
    // The same key may be used in two orgs. Two that mix to the same value only cost a look into the store.
    static Id mixed(OrgId org, CommandKey key) {
        return {key.value.high, key.value.low ^ (org.value * 0x9E3779B97F4A7C15ull)};
    }
    struct IdHash {
        std::size_t operator()(const Id& id) const { return std::hash<Id>{}(id); }
    };

    boost::unordered_flat_set<Id, IdHash> young_;
    boost::unordered_flat_set<Id, IdHash> old_;
    Id young_newest_;
    Id old_newest_;
    Id forgotten_;
    Id newest_;  // Of all that were ever used: what is newer still is new.
};

}  // namespace interlock::core
