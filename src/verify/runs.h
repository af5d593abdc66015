// Runs and what belongs to them: claims (P5), caps (P6), fences (P7), ticks (P8), holds and states (P9), and their
// totals (P1).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "verify/claims.h"
#include "verify/feed_walk.h"
#include "verify/findings.h"
#include "verify/ledger.h"
#include "verify/reader.h"

namespace interlock::verify {

class RunsCheck {
 public:
    RunsCheck(std::int64_t org, SnapshotReader& reader, Findings& findings, FeedWalk& feed, LedgerCheck& ledger)
        : org_(org), reader_(reader), findings_(findings), feed_(feed), ledger_(ledger) {}

    // Before the runs, since a run is checked with what belongs to it.
    void read_agents();
    void read_claims();
    void read_holds();
    void read_steps();
    void read_trees();
    void read_runs();

    void check_claims();
    void check_caps();
    void check_fences();
    void check_left_over();
    void check_ticks();

 private:
    struct Run {
        Id id;
        Attribution who;
        std::string_view node, state, wanted;
        std::int64_t fence;
        Id hold;
        std::int64_t created_at, admitted_at, lease_until, started_at, ended_at;
        std::string_view schedule;
        std::int64_t settled, tokens, events, unknown, steps;
        bool supervised, launched;
        Id retry_of, root;
        std::int64_t settled_below;
    };
    struct Child {  // A run with a parent.
        Id parent;
        bool goes_on = false;  // It has not ended and is not asked to stop.
    };
    struct OpenHold {
        Id id;
        bool run_is_live = false;
    };
    struct Steps {
        std::int64_t count = 0;
        std::string state;      // The last one's.
        bool admitted = false;  // One of them was an admission.
        bool put_back = false;  // It went back in line after that.
    };
    struct LiveRuns {  // Of one agent, provider or node, or all.
        std::int64_t count = 0;
        std::int64_t newest = 0;  // The number of the feed's event that admitted the newest of them.
    };
    struct Claimed {
        std::vector<Claim> claims;  // By number.
        bool run_exists = false;
    };

    void check_run(const Run& run);
    void check_state(const Run& run, bool live, bool ended);
    void check_belongings(const Run& run, bool live);
    void check_wanted(const Run& run, const std::vector<Claim>& claims);
    void check_schedule(const Run& run);
    void check_steps(const Run& run);
    void check_tree(const Run& run, bool ended);
    bool is_below(Id run, Id above) const;
    void check_hold(const OpenHold& hold, Id run, const Attribution& who);
    void count_live(const Run& run);
    void check_cap(const store::RowName& row, std::string_view column, std::int64_t max, std::int64_t changed,
                   const LiveRuns& runs);
    store::RowName name_of(Id run) const { return row_of("runs", org_, {{"id", stored(run)}}); }
    store::RowName name_of(const Claim& claim) const {
        return row_of("claims", org_, {{"run", stored(claim.run)}, {"number", claim.number}});
    }

    std::int64_t org_;
    SnapshotReader& reader_;
    Findings& findings_;
    FeedWalk& feed_;
    LedgerCheck& ledger_;

    ByText<std::int64_t> agents_;  // And how many runs each may have at once.
    std::map<Id, Claimed> claims_;
    std::map<Id, std::vector<OpenHold>> holds_;  // Open ones, by run.
    std::unordered_map<Id, Steps> steps_;        // Of runs that are still to come.
    std::map<Id, Child> children_;
    std::map<Id, std::vector<Id>> by_parent_;  // What is left has a parent that is not there.
    std::map<Id, __int128> settled_below_;
    LiveRuns live_;
    ByText<LiveRuns> live_by_agent_, live_by_provider_, live_by_node_;
    std::vector<std::pair<std::int64_t, Id>> fences_;
};

}  // namespace interlock::verify
