// What an attempt is charged: by what the provider has reported, or by the most that it can come to.
//
// No clock, no store, no connection.
#pragma once

#include <memory>
#include <string>

#include "gateway/call_bound.h"
#include "gateway/prices.h"
#include "gateway/usage.h"

namespace interlock::gateway {

// What was agreed on before the attempt was sent.
struct AttemptTerms {
    std::shared_ptr<const ModelPrice> price = {};  // Empty: the model has none.
    CallBound bound = {};
    Money held = {};                // What the core holds for it.
    std::string service_tier = {};  // As the request states it.
    bool is_one_round = true;       // The model runs once: no tool of the provider runs in between.
};

struct Settlement {
    Money cost = {};
    Usage usage = {};
    std::string receipt = {};  // How the cost was computed; empty without a price.
    bool estimated = false;
    bool unpriced = false;
    bool doubted =
        false;  // The report cannot be true, and was not believed. A person decides what it should have been.
};

// By the report, if it is complete and can be true. Otherwise as settlement_at_bound().
Settlement settlement_by(const AttemptTerms& terms, const Metered& reported);

// The provider has not stated what was used. Its count of the input is taken, if there is one. The rest is the most
// that it can be: what came of the output says little, because a model thinks before it speaks, and a provider bills
// what was cut off.
Settlement settlement_at_bound(const AttemptTerms& terms, const Metered& reported);

}  // namespace interlock::gateway
