// Prices and what a call costs by them.
//
// A price is a whole number of pico-dollars per token, because published prices are finer than a nano-dollar. The cost
// of an event is rounded up once, over the whole event: rounding each kind of token by itself would add up to six
// nano-dollars that nobody billed.
#pragma once

#include <cstdint>
#include <optional>

#include <boost/describe/class.hpp>

#include "base/money.h"

namespace interlock {

// What one event used, by the kinds that providers price differently. The kinds are disjoint: a cached token is counted
// as cached only.
struct Usage {
    std::int64_t input_tokens = 0;
    std::int64_t output_tokens = 0;
    std::int64_t cache_read_tokens = 0;
    std::int64_t cache_write_5m_tokens = 0;
    std::int64_t cache_write_1h_tokens = 0;
    std::int64_t reasoning_tokens = 0;

    friend bool operator==(const Usage&, const Usage&) = default;
};
BOOST_DESCRIBE_STRUCT(Usage, (),
                      (input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
                       reasoning_tokens))

// Pico-dollars per token of each kind, and per call.
struct Prices {
    std::int64_t input = 0;
    std::int64_t output = 0;
    std::int64_t cache_read = 0;
    std::int64_t cache_write_5m = 0;
    std::int64_t cache_write_1h = 0;
    std::int64_t reasoning = 0;
    std::int64_t per_call = 0;

    friend bool operator==(const Prices&, const Prices&) = default;
};

// Empty when the cost does not fit, or a count or price is negative.
std::optional<Money> cost_of(const Usage& usage, const Prices& prices);

// All tokens of the event, of every kind. Empty when negative or too many.
std::optional<std::int64_t> tokens_of(const Usage& usage);

}  // namespace interlock
