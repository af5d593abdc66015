#include "gateway/settlement.h"

#include <algorithm>

namespace interlock::gateway {
namespace {

// Uses of tools in one call, beyond which a report cannot be true.
constexpr std::int64_t paid_tools_most = 10'000;
// What a provider may state beyond the most that we know of, for what has no price here: images, searches, films.
constexpr Money stated_cost_free = Money::nanos(100'000'000'000);

// Whether the model can have taken and made what is reported.
bool can_be(const AttemptTerms& terms, const Metered& metered) {
    if (metered.impossible) return false;
    const Usage& usage = metered.usage;
    const std::int64_t output = usage.output_tokens + usage.reasoning_tokens;
    const std::int64_t input = tokens_of(usage).value_or(INT64_MAX) - output;
    if (input > terms.bound.input_most || output > terms.bound.output_most) return false;
    if (metered.paid_tools + metered.images_made > paid_tools_most) return false;
    if (!metered.stated_cost) return true;
    const auto most = terms.price ? cost_at_most(*terms.price, {.input = terms.bound.input_most,
                                                                .output = terms.bound.output_most,
                                                                .cache_write = CacheWrite::one_hour,
                                                                .audio = true,
                                                                .image_output = true,
                                                                .paid_tools = terms.bound.at_most.paid_tools,
                                                                .images_made = terms.bound.at_most.images_made})
                                  : std::nullopt;
    return *metered.stated_cost <= checked_sum(most.value_or(Money()), stated_cost_free).value_or(Money::max());
}

Settlement settlement_of(const AttemptTerms& terms, Money cost, const Metered& metered, bool estimated) {
    return {.cost = cost,
            .usage = metered.usage,
            .receipt = terms.price ? receipt_of(*terms.price, metered) : std::string(),
            .estimated = estimated,
            .unpriced = !terms.price};
}

// What was used, at the dearest price that is known.
UsageBound bound_of_report(const AttemptTerms& terms, const Metered& reported) {
    const Usage& usage = reported.usage;
    const std::int64_t output = usage.output_tokens + usage.reasoning_tokens;
    return {.input = tokens_of(usage).value_or(0) - output,
            .output = output,
            .prompt = reported.prompt_tokens,
            .cache_write = terms.bound.at_most.cache_write,
            .audio = reported.audio_input_tokens + reported.audio_output_tokens > 0,
            .image_output = reported.image_output_tokens > 0,
            .paid_tools = reported.paid_tools,
            .images_made = reported.images_made};
}

}  // namespace

Settlement settlement_by(const AttemptTerms& terms, const Metered& reported) {
    if (!reported.reported || !can_be(terms, reported)) return settlement_at_bound(terms, reported);
    Metered said = reported;
    // Asked for by other names, and not reported as a tier.
    if (terms.service_tier == "fast" || terms.service_tier == "us") said.service_tier = terms.service_tier;
    if (said.inference_geo == "us" && (said.service_tier.empty() || said.service_tier == "standard"))
        said.service_tier = "us";
    const Money stated = said.stated_cost.value_or(Money());
    if (!terms.price) return settlement_of(terms, stated, said, false);
    if (const auto cost = cost_of(*terms.price, said)) return settlement_of(terms, *cost, said, false);
    // A service tier without a price.
    const auto cost = cost_at_most(*terms.price, bound_of_report(terms, said));
    return cost ? settlement_of(terms, std::max(*cost, stated), said, true) : settlement_at_bound(terms, said);
}

Settlement settlement_at_bound(const AttemptTerms& terms, const Metered& reported) {
    const bool doubted = !can_be(terms, reported);
    const Metered so_far = doubted ? Metered() : reported;
    Metered most = so_far;
    most.stated_cost.reset();
    UsageBound bound = terms.bound.at_most;
    if (!so_far.input_reported) {
        most.usage = {};
        most.usage.input_tokens = bound.input;
    } else if (terms.is_one_round) {
        bound.input = std::min(bound.input, so_far.prompt_tokens);
    }
    most.usage.output_tokens = bound.output;
    most.usage.reasoning_tokens = 0;
    const auto cost = terms.price ? cost_at_most(*terms.price, bound) : Money();
    Settlement settlement = settlement_of(terms, cost ? std::min(*cost, terms.held) : terms.held, most, true);
    settlement.doubted = doubted;
    return settlement;
}

}  // namespace interlock::gateway
