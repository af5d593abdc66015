// Text that an older version stored and that is not UTF-8, and metadata that is not a JSON object. Such rows break no
// promise and are never changed, so they are notes: the API shows U+FFFD and {} in their place.
#pragma once

#include "verify/findings.h"
#include "verify/reader.h"

namespace interlock::verify {

void check_text(std::int64_t org, SnapshotReader& reader, Findings& findings);

}  // namespace interlock::verify
