// What a shim is told for whose run nothing is to be done here.
#pragma once

#include <optional>
#include <string>

#include "core/rows.h"
#include "shim/protocol.h"

namespace interlock::supervisor {

// None: its run may still be this node's, so it has to come back later.
std::optional<shim::FromServer> word_for_stranger(shim::ShimPhase phase, const std::optional<core::Run>& row,
                                                  const std::string& node, const std::string& url);

}  // namespace interlock::supervisor
