// What counts into a sum over the ledger, for stores that add up row by row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/calendar.h"
#include "base/price.h"
#include "core/rows.h"

namespace interlock::store {

inline bool includes_tags(const core::Tags& tags, const core::Tags& wanted) {
    return std::includes(tags.begin(), tags.end(), wanted.begin(), wanted.end());  // Maps are sorted.
}

inline bool agrees(const core::Scope& scope, const core::Attribution& who) {
    const auto same = [](const auto& stated, const auto& value) {
        return stated == std::remove_cvref_t<decltype(stated)>{} || stated == value;
    };
    return same(scope.agent, who.agent) && same(scope.workflow, who.workflow) && same(scope.provider, who.provider) &&
           same(scope.model, who.model) && same(scope.api_key, who.api_key) && same(scope.run, who.run) &&
           same(scope.session, who.session) && includes_tags(who.tags, scope.tags);
}

// Roll-ups hold whole UTC days by agent, provider and model. Where nothing finer is asked, they give the same sum from
// a few rows instead of all events.
inline bool rollups_suffice(const core::Scope& scope, WindowSpan span) {
    const auto starts_a_day = [](Instant at) { return std::chrono::floor<std::chrono::days>(at) == at; };
    return scope.workflow.empty() && scope.api_key.empty() && scope.run.value.empty() && scope.session.value.empty() &&
           scope.tags.empty() && starts_a_day(span.start) && starts_a_day(span.end);
}

// A sum that does not fit is past every limit there is: it stays at the greatest number.
inline void add_up(std::int64_t& total, std::int64_t amount) {
    if (__builtin_add_overflow(total, amount, &total)) total = INT64_MAX;
}

inline void add_up(core::Amounts& sum, std::int64_t cost, std::int64_t calls, const Usage& usage) {
    add_up(sum.usd, cost);
    add_up(sum.calls, calls);
    for (const std::int64_t tokens :
         {usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens,
          usage.cache_write_1h_tokens, usage.reasoning_tokens}) {
        add_up(sum.tokens, tokens);
    }
}

}  // namespace interlock::store
