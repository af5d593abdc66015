// Which claims get in each other's way (P5), found by sorting: a place that contains another one is a prefix of it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "verify/reader.h"

namespace interlock::verify {

struct Claim {
    Id run;
    std::int64_t number = 0;
    Place place;
    std::int64_t fence = 0;
};

// Each pair of claims of two runs that must not both be there, once, by their positions.
//
// Two workspaces on one host collide if one path is the other or contains it, or if the directory that one of them is
// (device and inode) is the other or one of its ancestors. Two resources collide by name. Two readers never collide.
std::vector<std::pair<std::size_t, std::size_t>> collisions(const std::vector<Claim>& claims);

}  // namespace interlock::verify
