#include "gateway/call_bound.h"

#include <algorithm>

#include "gateway/dialect.h"

namespace interlock::gateway {
namespace {

// A model without a published limit, and input that the request does not contain.
constexpr std::int64_t input_max_unknown = 2'000'000;

// How often the model may run, and how often tools that run at the provider may be used.
struct Rounds {
    std::int64_t of_model = 1;
    std::int64_t of_tools = 0;
};

Rounds rounds_of(const CallRequest& request, const GatewaySettings& settings) {
    if (!request.rounds_unbounded) return {request.rounds, request.paid_tools_max};
    const std::int64_t each = settings.tool_rounds_max;
    // Each tool that gets a bound from us may be used as often as that says.
    const std::int64_t bounded = static_cast<std::int64_t>(request.unbounded_tools_at.size()) * each;
    return {.of_model = std::max({request.rounds + bounded, 1 + each, request.rounds + request.rounds_by_provider}),
            .of_tools = request.paid_tools_max + std::max({each, bounded, request.rounds_by_provider})};
}

std::int64_t tokens_between(const Counted& from, const Counted& to, const ModelPrice* price,
                            const GatewaySettings& settings) {
    const std::int64_t image = price && price->image_max > 0 ? price->image_max : settings.image_tokens_max;
    return to.input_bytes - from.input_bytes + (to.images - from.images) * image +
           std::max((to.files - from.files) * settings.file_tokens_max, to.file_bytes - from.file_bytes);
}

}  // namespace

CallBound bound_of(const CallRequest& request, const ModelPrice* price, const GatewaySettings& settings,
                   const std::optional<KnownPrefix>& known) {
    const Rounds rounds = rounds_of(request, settings);
    const std::int64_t taken = price && price->input_max > 0 ? price->input_max : input_max_unknown;
    const std::int64_t made = price && price->output_max > 0 ? price->output_max : input_max_unknown;

    const Counted all{.input_bytes = request.input_bytes,
                      .images = request.images,
                      .files = request.files,
                      .file_bytes = request.file_bytes};
    std::int64_t input = tokens_between({}, all, price, settings) + settings.hidden_input_tokens;
    if (known) {
        // Everything but the messages is the same, so that only they can have become more.
        const std::int64_t rest = tokens_between(known->counted, request.counted.back(), price, settings);
        input = std::min(input, known->prompt_tokens + rest + settings.hidden_input_tokens);
    }
    // What tools bring in is not in the body, and each round reads all of it again.
    if (request.input_elsewhere || rounds.of_model > 1) input = taken;
    // A request has one input, but for embeddings: there the model's bound is that of each.
    if (request.makes_output) input = std::min(input, taken);

    CallBound bound{.multiple = request.choices * rounds.of_model};
    if (request.makes_output) {
        const std::int64_t otherwise = price && price->output_max > 0
                                           ? std::min(settings.default_output_tokens, price->output_max)
                                           : settings.default_output_tokens;
        bound.output_max = request.output_max.value_or(otherwise);
    }
    bound.input_most = 2 * std::max(taken, input) * rounds.of_model;
    bound.output_most = 2 * std::max(made, bound.output_max) * bound.multiple + request.prediction_bytes;
    bound.at_most = {.input = input * rounds.of_model,
                     .output = bound.output_max * bound.multiple + request.prediction_bytes,
                     .prompt = input * rounds.of_model,  // A provider may report the sum of all rounds.
                     .cache_write = request.cache_write,
                     .audio = request.audio_output || request.files > 0,
                     .image_output = request.image_output,
                     .paid_tools = rounds.of_tools,
                     .images_made = request.image_tool ? rounds.of_tools : 0,
                     .service_tier = request.service_tier};
    return bound;
}

std::optional<std::string> why_unbounded(const Dialect& dialect, const CallRequest& request, const ModelPrice* price,
                                         std::string_view provider) {
    if (price == nullptr || price->tiers.empty()) return std::nullopt;
    const Rates& rates = price->tiers.front().rates;
    if (request.image_tool && rates.per_image == 0)
        return "the tool image_generation has no price with this model (per_image)";
    if (request.image_output && !rates.image_output)
        return "images as output have no price with this model (image_output_per_mtok)";
    const bool uses_tools = request.rounds_unbounded || request.paid_tools_max > 0;
    if (request.rounds_untold || (uses_tools && !dialect.keeps_tool_limit(provider)))
        return "it has a tool that runs at the provider, and nothing that can be sent bounds how often";
    return std::nullopt;
}

}  // namespace interlock::gateway
