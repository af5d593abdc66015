// How much a report shows.
#pragma once

#include <cstddef>

namespace interlock::crash {

// Violations that a report describes; the others are counted.
inline constexpr std::size_t examples_max = 5;

}  // namespace interlock::crash
