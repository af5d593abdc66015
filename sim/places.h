// The file systems that runs work in, and the naive answer to whether two places overlap.
#pragma once

#include <string>
#include <vector>

#include "core/rows.h"
#include "sim/random.h"

namespace interlock::sim {

// A directory of a small tree on one of two hosts, some of it mounted a second time elsewhere, or a named resource.
core::Place some_place(Random& random);
// A place of its own, with nobody else in it.
core::Place fresh_place(std::uint64_t number);

// Compares names letter by letter and identities one by one.
bool overlap(const core::Place& a, const core::Place& b);

// Whether what happens at `inner` happens inside of `outer`, in no stronger a mode.
bool is_inside(const core::Place& inner, const core::Place& outer);

std::string to_text(const core::Place& place);

}  // namespace interlock::sim
