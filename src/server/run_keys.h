// The keys of runs: each lets in whoever acts for one run, and dies with it.
//
//   (1) A run's key follows from this server's secret, the run and its fence. So it is the same after a restart, it is
//       written nowhere, and a run that was lost has another than the one its process knows.
//   (2) It is in the ring exactly while the run is looked after here.
#pragma once

#include <string>

#include "api/key_ring.h"
#include "base/result.h"
#include "core/rows.h"

namespace interlock::server {

class RunKeys {
 public:
    RunKeys(core::OrgId org, api::KeyRing& keys) : org_(org), keys_(keys) {}

    // The secret is a file in the data directory, made if it is not there.
    Result<void, std::string> load(const std::string& data_dir);
    // The key's text.
    std::string open(const core::Run& run);
    void close(core::RunId run);

 private:
    const core::OrgId org_;
    api::KeyRing& keys_;
    std::string secret_;
};

}  // namespace interlock::server
