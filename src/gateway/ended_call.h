// A call that has ended, as those hear of it who count and watch.
#pragma once

#include <functional>
#include <string_view>

#include "core/rows.h"

namespace interlock::gateway {

struct EndedCall {
    core::OrgId org;  // Org 0: the caller is nobody's.
    const core::ModelCall& row;
    std::string_view traceparent = {};  // The request's own (W3C Trace Context), as it came.
};

// From any thread, in the way of the call: it takes a microsecond, not a millisecond. What it is given does not outlive
// it.
using OnCall = std::function<void(const EndedCall&)>;

}  // namespace interlock::gateway
