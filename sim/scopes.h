// What a budget covers and what an event amounts to, said once more in the plainest way.
#pragma once

#include "core/rows.h"

namespace interlock::sim {

inline std::int64_t tokens_in(const Usage& usage) {
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_5m_tokens +
           usage.cache_write_1h_tokens + usage.reasoning_tokens;
}

inline bool is_covered(const core::Attribution& who, const core::Scope& scope) {
    if (!scope.agent.empty() && scope.agent != who.agent) return false;
    if (!scope.workflow.empty() && scope.workflow != who.workflow) return false;
    if (!scope.provider.empty() && scope.provider != who.provider) return false;
    if (!scope.model.empty() && scope.model != who.model) return false;
    if (!scope.api_key.empty() && scope.api_key != who.api_key) return false;
    if (!scope.run.value.empty() && scope.run != who.run) return false;
    if (!scope.session.value.empty() && scope.session != who.session) return false;
    for (const auto& [name, value] : scope.tags) {
        if (!who.tags.contains(name) || who.tags.at(name) != value) return false;
    }
    return true;
}

}  // namespace interlock::sim
