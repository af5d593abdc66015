// A run's output, as its shim writes it: read by offset, while it grows.
//
//   (1) An offset means the same byte forever. Where a part in the middle was given up, reading goes on behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace interlock::supervisor {

struct LogPart {
    std::string bytes;
    std::int64_t offset = 0;      // Of the first of them.
    std::int64_t end = 0;         // What there is so far.
    std::int64_t hole_begin = 0;  // Both 0: nothing was given up.
    std::int64_t hole_end = 0;
};

// From `home`, a run's directory. A negative offset counts from the end. Empty when nothing was kept; the error is a
// sentence.
Result<std::optional<LogPart>, std::string> read_log(const std::string& home, std::int64_t offset, std::int64_t limit);

}  // namespace interlock::supervisor
