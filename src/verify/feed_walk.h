// The feed, read page by page: is the chain whole, and what does it say about charges, ticks and caps?
//
// The bytes are decoded here by hand, from the description in base/codec.h, and only as far as a check needs them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/by_text.h"
#include "base/id.h"
#include "verify/findings.h"
#include "verify/reader.h"

namespace interlock::verify {

// What both the feed and the ledger say about one charge.
struct ChargeFacts {
    Id key;
    std::string_view agent, provider, model;
    Id run, session, hold;
    std::int64_t cost = 0;
    std::int64_t tokens = 0;
    std::int64_t overage = 0;
    bool estimated = false;
    friend bool operator==(const ChargeFacts&, const ChargeFacts&) = default;
};

class FeedWalk {
 public:
    FeedWalk(std::int64_t org, SnapshotReader& reader, Findings& findings)
        : org_(org), reader_(reader), findings_(findings) {}

    // Reads all pages. The rest below is about what it has read.
    void walk();

    // Each cost event goes through here once, in any order; then finish_charges() names what the ledger has not and the
    // feed has.
    void match_charge(std::int64_t seq, const ChargeFacts& row);
    void finish_charges();

    // The number of the last change of an agent or a cap; 0 when the feed has none.
    std::int64_t agent_changed(const std::string& agent) const;
    std::int64_t cap_changed(const std::string& kind, const std::string& name) const;
    // The number of the event by which an unfinished run got its fence; 0 when the feed has none.
    std::int64_t admitted(Id run, std::int64_t fence) const;

    // Which schedule started this run, by the feed; null when none did. Asked once for each run.
    const std::string* fired_by(Id run);
    // Afterwards: runs that the feed says were started by a schedule, and nobody asked for.
    void finish_ticks();

 private:
    struct Page {
        std::int64_t first_seq, last_seq, at;
        std::string_view body, hash;
    };
    struct Suspect {  // A cost event that the feed tells otherwise.
        std::int64_t seq;
        ChargeFacts row;
        std::string agent, provider, model;  // What the facts' views look at.
    };
    void check_page(const Page& page);
    void read_event(std::int64_t seq, std::int64_t page_at, std::string_view event);
    void read_tick(std::int64_t seq, std::int64_t page_at, std::string_view schedule, std::int64_t at, Id run);
    void remember_charge(std::int64_t seq, const ChargeFacts& charge);
    void explain(const Suspect& suspect);
    store::RowName page_name(std::int64_t last_seq) const {
        return row_of("feed_pages", org_, {{"last_seq", last_seq}});
    }

    std::int64_t org_;
    SnapshotReader& reader_;
    Findings& findings_;

    std::int64_t last_seq_ = 0;
    std::int64_t last_at_ = 0;
    std::string last_hash_;

    // By number: the digest of a charge that no cost event has matched yet, 0 for everything else.
    std::vector<std::uint64_t> charges_;
    std::vector<Suspect> suspects_;

    ByText<std::int64_t> agent_changes_;
    std::map<std::pair<std::string, std::string>, std::int64_t> cap_changes_;
    struct Admission {
        std::int64_t fence, seq;
    };
    std::unordered_map<Id, Admission> admissions_;
    struct Tick {
        const std::string* schedule;
        std::int64_t at;
        friend auto operator<=>(const Tick&, const Tick&) = default;
    };
    std::set<std::string, std::less<>> schedules_;  // Every name once; the addresses stay.
    std::map<Tick, std::int64_t> ticks_;            // And the number of the event that says it fired.
    struct Fired {
        const std::string* schedule;
        std::int64_t seq;
    };
    std::unordered_map<Id, Fired> fired_;
};

}  // namespace interlock::verify
