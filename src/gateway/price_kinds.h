// The kinds of a price and their names: in the catalog's lines and in JSON. One table, so that neither lacks a kind.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/prices.h"

namespace interlock::gateway {

struct PriceKind {
    std::string_view word;                                     // In the catalog.
    std::string_view name;                                     // In JSON.
    int decimals;                                              // Of a dollar, that a pico-dollar per unit comes to.
    std::int64_t Rates::* always = nullptr;                    // One of these two.
    std::optional<std::int64_t> Rates::* sometimes = nullptr;  // Without it, the kind is priced as another.
};

constexpr int decimals_per_mtok = 6;  // A million tokens at a pico-dollar each are a millionth of a dollar.
constexpr int decimals_each = 12;

inline constexpr std::array price_kinds{
    PriceKind{.word = "in", .name = "input_per_mtok", .decimals = decimals_per_mtok, .always = &Rates::input},
    PriceKind{.word = "out", .name = "output_per_mtok", .decimals = decimals_per_mtok, .always = &Rates::output},
    PriceKind{
        .word = "read", .name = "cache_read_per_mtok", .decimals = decimals_per_mtok, .sometimes = &Rates::cache_read},
    PriceKind{.word = "write",
              .name = "cache_write_5m_per_mtok",
              .decimals = decimals_per_mtok,
              .sometimes = &Rates::cache_write_5m},
    PriceKind{.word = "write1h",
              .name = "cache_write_1h_per_mtok",
              .decimals = decimals_per_mtok,
              .sometimes = &Rates::cache_write_1h},
    PriceKind{
        .word = "reason", .name = "reasoning_per_mtok", .decimals = decimals_per_mtok, .sometimes = &Rates::reasoning},
    PriceKind{.word = "audio_in",
              .name = "audio_input_per_mtok",
              .decimals = decimals_per_mtok,
              .sometimes = &Rates::audio_input},
    PriceKind{.word = "audio_out",
              .name = "audio_output_per_mtok",
              .decimals = decimals_per_mtok,
              .sometimes = &Rates::audio_output},
    PriceKind{.word = "image_out",
              .name = "image_output_per_mtok",
              .decimals = decimals_per_mtok,
              .sometimes = &Rates::image_output},
    PriceKind{.word = "call", .name = "per_call", .decimals = decimals_each, .always = &Rates::per_call},
    PriceKind{.word = "tool", .name = "per_paid_tool", .decimals = decimals_each, .always = &Rates::per_paid_tool},
    PriceKind{.word = "image", .name = "per_image", .decimals = decimals_each, .always = &Rates::per_image},
};

// "3.75" with 6 decimals is 3'750'000. Empty when it is no such number, is finer, or does not fit.
std::optional<std::int64_t> picos_from_text(std::string_view dollars, int decimals);
// The shortest text with at least two decimals.
std::string text_of_picos(std::int64_t picos, int decimals);

// A name for a variant: short, because it is part of receipts.
constexpr std::size_t variant_name_bytes_max = 16;
bool is_variant_name(std::string_view name);

}  // namespace interlock::gateway
