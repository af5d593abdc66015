// `interlock migrate`: copies a store from a data directory to a PostgreSQL database, or back.
//
//   (1) The source is verified before the copy, and is not changed.
//   (2) The target is empty, or has an interrupted copy of the same state of the same source.
//   (3) The target is marked, and servers refuse it, until all rows are compared and the copy is verified.
#pragma once

#include "cli/exit_code.h"
#include "cli/output.h"
#include "server/offline_store.h"

namespace interlock::server {

struct MigrateOptions {
    StoreAddress from;
    StoreAddress to;
    bool dry_run = false;
    bool json = false;
};

cli::ExitCode migrate_command(const MigrateOptions& options, const cli::CliOutput& output);

}  // namespace interlock::server
