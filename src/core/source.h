// Where the core gets a row that it does not have in memory: a question by key, answered from the last committed state.
//
// A source that cannot answer (a disk that fails) says "no such row" and that it has failed. The tables then leave by
// SourceFailed, straight through the rule that asked, to whoever drives the core: half a command may have been applied
// by then, so all that memory believes is thrown away. It is the one exception that crosses a folder, because the
// alternative is a rule about disks in every rule about money.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/variant.h"
#include "core/rows.h"

namespace interlock::core {

#define INTERLOCK_COLD_ROW_KINDS                                                                                \
    Window, Session, Message, Run, Hold, CostEvent, Rollup, StoredReply, Launch, ModelCall, SpendMark, RunStep, \
        ScheduleTick, CorrectedCost
struct ColdRow : std::variant<INTERLOCK_COLD_ROW_KINDS> {
    INTERLOCK_VARIANT(ColdRow)
};

struct SourceFailed {};

// How many sessions of one agent, made by one API key, are open.
struct OpenSessions {
    std::string agent;
    std::string api_key;
    std::int64_t count = 0;
};

class RowSource {
 public:
    virtual ~RowSource() = default;

    // Completes a row whose key is filled in. False when there is none.
    virtual bool load(OrgId org, ColdRow& row) = 0;

    // Whether a question is a journey, so that it pays to announce many at once.
    virtual bool is_remote() const { return false; }
    // These rows, whose keys are filled in, are going to be asked for. Fetched together, if the source is far; what it
    // finds is good until the next commit.
    virtual void prefetch(OrgId, std::vector<ColdRow>) {}

    // What the committed ledger holds for a scope in a span of time, by counted_at (runs: by admitted_at).
    virtual Amounts sum(OrgId org, const Scope& scope, WindowSpan span) = 0;

    // The committed sessions of an org that are not closed.
    virtual std::vector<OpenSessions> open_sessions(OrgId org) = 0;

    // Since it was opened, a question could not be answered.
    virtual bool failed() const { return false; }
};

}  // namespace interlock::core
