// The most that a call can come to, from what its body says, what its model takes and makes, and what people have set.
//
//   (1) A provider that keeps to the limits that are sent, and whose model takes and makes no more than is known of it,
//       never reports more than `at_most`.
//   (2) What no limit that can be sent bounds has a reason in why_unbounded().
//
// No clock, no store, no connection: fuzz/fuzz_cost.cc searches for requests that break (1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/call_request.h"
#include "gateway/prices.h"
#include "gateway/settings.h"

namespace interlock::gateway {

struct CallBound {
    UsageBound at_most = {};
    std::int64_t output_max = 0;  // Per choice and round, as it goes on; 0: there is none.
    std::int64_t multiple = 1;    // How many outputs of output_max there can be.
    std::int64_t input_most = 0;  // What is reported beyond these cannot be: twice what the model takes and makes.
    std::int64_t output_most = 0;
};

// The beginning of the conversation that a provider has counted (prefix_token_cache.h).
struct KnownPrefix {
    Counted counted = {};
    std::int64_t prompt_tokens = 0;
};

// Without a price, the model takes and makes what no model does.
CallBound bound_of(const CallRequest& request, const ModelPrice* price, const GatewaySettings& settings,
                   const std::optional<KnownPrefix>& known);

// Why there is no bound on what the call may cost; nothing: the bound holds. A model without a price is not asked.
std::optional<std::string> why_unbounded(const Dialect& dialect, const CallRequest& request, const ModelPrice* price,
                                         std::string_view provider);

}  // namespace interlock::gateway
