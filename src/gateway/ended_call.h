// A call that has ended, for those who count and watch calls.
#pragma once

#include <functional>
#include <string_view>

#include "core/rows.h"

namespace interlock::gateway {

// Whether the client was sent all of the answer: the provider's, or the gateway's own.
enum class CallEnd { whole, broken_off };

struct EndedCall {
    core::OrgId org;  // Org 0: the key is not known.
    const core::ModelCall& row;
    std::string_view traceparent = {};  // The request's own (W3C Trace Context), as it came.
    CallEnd end = CallEnd::whole;
};

// From any thread, in the way of the call: it takes a microsecond, not a millisecond. What it is given does not outlive
// it.
using OnCall = std::function<void(const EndedCall&)>;

}  // namespace interlock::gateway
