// The one door to the rules: a command goes in, its reply comes out, and the rows have changed.
//
//   (1) The same commands with the same stamps on the same rows give the same replies and rows.
//   (2) A refused command changes nothing, but for what a budget does when it is exhausted (ledger.h).
//   (3) A command whose key was carried out before changes nothing and gets its first answer; the key with other
//       content is refused. Refusals are not remembered: the same key may be tried again.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/command.h"
#include "core/org_state.h"
#include "core/recent_keys.h"
#include "core/reply.h"

namespace interlock::core {

struct Applied {
    Reply reply;
    bool repeated = false;
    bool key_reused = false;  // `reply` means nothing then.
};

// Whether the reply says that the command did what it asked: only those are remembered.
bool succeeded(const Reply& reply);

class StateMachine {
 public:
    explicit StateMachine(RowSource& source) : source_(source) {}

    Applied apply(Stamp stamp, const Command& command);

    // Tells the source of the rows that these are going to ask it for.
    void prefetch(Stamp stamp, const std::vector<const Command*>& commands);

    // The first answer to this key, from rows alone. Empty when it was not carried out.
    std::optional<Applied> find_answer(const Command& command);

    // When the next tick has something to do.
    std::optional<Instant> next_deadline() const;

    // The state, for whoever writes it down and reads it back.
    std::map<OrgId, std::unique_ptr<OrgState>>& orgs() { return orgs_; }
    OrgState& org(OrgId id);
    void forget_everything(Id newest_key);

 private:
    std::optional<Applied> find_under(OrgState& state, CommandKey key, const Command& command);
    // Whether an older version may have carried the command out, under its former key.
    bool may_be_former(const OrgState& state, Stamp stamp, const Command& command) const;
    std::optional<Applied> find_former(OrgState& state, const Command& command);

    RowSource& source_;
    std::map<OrgId, std::unique_ptr<OrgState>> orgs_;
    RecentKeys recent_keys_;
};

}  // namespace interlock::core
