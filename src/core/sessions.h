// Sessions: conversations whose messages have one order.
//
//   (1) A session's own messages are numbered first_seq, first_seq + 1, … next_seq − 1, without gap, duplicate or
//       reordering. The number is given here, in the same step as the insert, from the session's own row.
//   (2) A turn of several messages stands together, or is not there at all.
//   (3) A fork shares its parent's messages up to the fork and copies nothing: messages never change.
//   (4) A closed session stays closed.
#pragma once

#include "core/command.h"
#include "core/org_state.h"
#include "core/reply.h"

namespace interlock::core {

SessionReply create_session(OrgState& state, Stamp stamp, const CreateSession& command);
AppendReply append(OrgState& state, Stamp stamp, const Append& command);
SessionReply fork_session(OrgState& state, Stamp stamp, const ForkSession& command);
SessionReply close_session(OrgState& state, Stamp stamp, const CloseSession& command);

}  // namespace interlock::core
