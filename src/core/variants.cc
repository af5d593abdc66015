// Copies, moves and destructors of commands, replies, events and rows to load, for all files (base/variant.h).
#include "core/command.h"
#include "core/event.h"
#include "core/reply.h"
#include "core/source.h"

namespace interlock::core {

INTERLOCK_VARIANT_MEMBERS(CommandBody)
INTERLOCK_VARIANT_MEMBERS(Reply)
INTERLOCK_VARIANT_MEMBERS(Event)
INTERLOCK_VARIANT_MEMBERS(ColdRow)

}  // namespace interlock::core
