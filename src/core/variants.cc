// Constructors, assignments and destructors of commands, replies, events and rows to load (base/variant.h).
#include "core/command.h"
#include "core/event.h"
#include "core/reply.h"
#include "core/source.h"

namespace interlock::core {

INTERLOCK_VARIANT_MEMBERS(CommandBody, INTERLOCK_COMMAND_KINDS)
INTERLOCK_VARIANT_MEMBERS(Reply, INTERLOCK_REPLY_KINDS)
INTERLOCK_VARIANT_MEMBERS(Event, INTERLOCK_EVENT_KINDS)
INTERLOCK_VARIANT_MEMBERS(ColdRow, INTERLOCK_COLD_ROW_KINDS)

}  // namespace interlock::core
