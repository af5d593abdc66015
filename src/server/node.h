// One node of several on a PostgreSQL database: its name and its memory in the data directory, its router.
#pragma once

#include "server/backend.h"

namespace interlock::server {

// Where a node keeps what it remembers of the store's history.
std::string history_path(const std::string& data_dir);

Result<std::unique_ptr<Backend>, std::string> open_node(BackendOptions options, Log& log);

}  // namespace interlock::server
