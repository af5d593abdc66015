// Compares the stored rows with their seals (store/seals.h): names rows that were changed, removed or added by
// something other than a command.
#pragma once

#include <cstdint>
#include <vector>

#include "store/seals.h"
#include "verify/findings.h"
#include "verify/reader.h"

namespace interlock::verify {

// A seal whose key is not among `keys` is a violation: a program that can write the store could have written one into
// every seal. Without any keys, or with one that is lost, the rows of its seals are not compared, and a note says so.
void check_seals(std::int64_t org, const std::vector<store::SealKey>& keys, SnapshotReader& reader, Findings& findings);

}  // namespace interlock::verify
