// Instants and zones for the tests of this folder.
#pragma once

#include <string_view>

#include <gtest/gtest.h>

#include "base/calendar.h"
#include "base/instant.h"

namespace interlock {

inline const Instant morning = from_micros(1'794'733'200'123'456);  // 2026-11-15T09:00:00.123456Z

inline Instant at(std::string_view text) {
    const auto instant = from_iso8601(text);
    EXPECT_TRUE(instant) << text;
    return instant.value_or(far_past);
}

inline Zone zone(std::string_view name) {
    const auto found = find_zone(name);
    EXPECT_TRUE(found) << name;
    return found.value_or(utc());
}

}  // namespace interlock
