// What a client reads when the core says no: which budget, how much it has, what was needed, when it turns, and what a
// person can do about it.
#pragma once

#include "core/reply.h"
#include "gateway/gateway_call.h"

namespace interlock::gateway {

// Whether what is missing is only held by others, so that it may come back.
bool may_fit_later(const core::ReserveReply& reply);

CallRefusal call_refusal(const core::ReserveReply& reply, const core::Attribution& who, const Upstream& upstream,
                         Reader reader);

}  // namespace interlock::gateway
