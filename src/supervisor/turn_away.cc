#include "supervisor/turn_away.h"

#include "core/runs.h"
#include "supervisor/waiting.h"

namespace interlock::supervisor {

std::optional<shim::FromServer> word_for_stranger(shim::ShimPhase phase, const std::optional<core::Run>& row,
                                                  const std::string& node, const std::string& url) {
    const bool ours = row && row->supervised && row->node == node;
    if (ours && !core::has_ended(row->state)) return std::nullopt;
    if (phase == shim::ShimPhase::waiting) {
        const std::string why = row && !row->reason.empty() ? ": " + row->reason : "";
        return shim::Refused{.why = "the run has ended" + why};
    }
    if (phase == shim::ShimPhase::ended && row) return shim::Done{receipt_of(*row, url)};
    return shim::Fenced{"the run is over"};
}

}  // namespace interlock::supervisor
