// What a run prints, in a file whose size has a bound.
//
//   (1) A byte that was written keeps its offset for ever. Past the bound the middle of the file becomes a hole: the
//       head (a quarter of the bound) and the tail (at least half of it) stay.
//   (2) Output is always taken. What the disk has no room for, or a file system without holes no place, is dropped,
//       counted, and said in the file as soon as it can be.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shim/fd.h"

namespace interlock::shim {

class OutputLog {
 public:
    OutputLog() = default;
    // Goes on at the end of what is there. bytes_max 0: no bound.
    OutputLog(const std::string& path, std::int64_t bytes_max);

    void add(std::string_view bytes);
    // A sentence about all that was dropped; "" when that is nothing.
    std::string lost() const;

    std::int64_t end() const { return end_; }
    std::int64_t hole_begin() const { return hole_begin_; }
    std::int64_t hole_end() const { return hole_end_; }

 private:
    std::string told(std::int64_t dropped) const;
    bool write(std::string_view bytes);
    std::int64_t whole_blocks(std::int64_t offset) const;
    bool make_room(std::int64_t count);

    Fd file_;
    std::int64_t bytes_max_ = 0;
    std::int64_t end_ = 0;
    std::int64_t hole_begin_ = 0;  // No hole while both are the same.
    std::int64_t hole_end_ = 0;
    std::int64_t dropped_ = 0;
    std::int64_t untold_ = 0;  // The part of it that the file does not speak of yet.
    std::string why_dropped_;
    bool can_punch_ = true;
};

}  // namespace interlock::shim
