#include "base/price.h"

#include <array>
#include <utility>

namespace interlock {

std::optional<Money> cost_of(const Usage& usage, const Prices& prices) {
    constexpr int picos_per_nano = 1000;
    const std::array<std::pair<std::int64_t, std::int64_t>, 7> parts = {{
        {usage.input_tokens, prices.input},
        {usage.output_tokens, prices.output},
        {usage.cache_read_tokens, prices.cache_read},
        {usage.cache_write_5m_tokens, prices.cache_write_5m},
        {usage.cache_write_1h_tokens, prices.cache_write_1h},
        {usage.reasoning_tokens, prices.reasoning},
        {1, prices.per_call},
    }};
    // Seven products of two 63-bit numbers need up to 129 bits. But a sum that still fits an amount stays below 2^73,
    // and one product more below 2^127: so comparing after each addition is soon enough.
    __int128 picos = 0;
    for (const auto& [count, price] : parts) {
        if (count < 0 || price < 0) return std::nullopt;
        picos += static_cast<__int128>(count) * price;
        if (picos > static_cast<__int128>(INT64_MAX) * picos_per_nano) return std::nullopt;
    }
    return Money::nanos(static_cast<std::int64_t>((picos + picos_per_nano - 1) / picos_per_nano));
}

std::optional<std::int64_t> tokens_of(const Usage& usage) {
    std::int64_t total = 0;
    for (const std::int64_t count :
         {usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens,
          usage.cache_write_1h_tokens, usage.reasoning_tokens}) {
        if (count < 0) return std::nullopt;
        const auto sum = checked_sum(total, count);
        if (!sum) return std::nullopt;
        total = *sum;
    }
    return total;
}

}  // namespace interlock
