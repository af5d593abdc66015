// Sessions: each has exactly the messages it should have, numbered without a gap (P4), and its totals are their sums.
#pragma once

#include <cstdint>

#include "verify/findings.h"
#include "verify/ledger.h"
#include "verify/reader.h"

namespace interlock::verify {

void check_sessions(std::int64_t org, SnapshotReader& reader, Findings& findings, const LedgerCheck& ledger);

}  // namespace interlock::verify
