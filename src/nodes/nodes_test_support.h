// The org and the time of the tests of this folder.
#pragma once

#include "core/rows.h"

namespace interlock::nodes {

inline constexpr Instant noon = from_micros(1'762'948'800'000'000);
inline constexpr core::OrgId test_org{1};

}  // namespace interlock::nodes
