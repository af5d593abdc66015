// `interlock migrate`: copies a whole store into another one, from a data directory into a PostgreSQL database or back.
//
//   (1) The source is verified before anything is copied, and is not changed.
//   (2) The target is empty, or holds a copy of the same state of the same source that broke off.
//   (3) Until every row was compared and every promise found to hold in the copy, the target is marked, and nobody
//       serves it.
#pragma once

#include "cli/exit_code.h"
#include "server/offline_store.h"
#include "server/terminal.h"

namespace interlock::server {

struct MigrateOptions {
    StoreAddress from;
    StoreAddress to;
    bool dry_run = false;
    bool json = false;
};

cli::ExitCode migrate_command(const MigrateOptions& options, const Terminal& terminal);

}  // namespace interlock::server
