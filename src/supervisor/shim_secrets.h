// The secrets by which shims prove that they speak for their runs.
//
//   (1) The server draws a secret for each shim. A shim that the server starts reads it from a pipe. A shim in a
//       terminal gets it with the answer to the run's admission. Both show it in `hello` and in `ended`.
//   (2) Only hashes are kept: in memory, and for the next server in the run's directory. That file is read once, when
//       a run of an earlier server is asked about.
//   (3) A run may have several secrets, because its shim may be started again and its admission may be answered again.
//
// For any thread.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/sha256.h"
#include "core/rows.h"

namespace interlock::supervisor {

class ShimSecrets {
 public:
    enum class Verdict {
        proven,
        refused,
        none_issued,  // The run was begun by an earlier release, whose shims have no secret.
    };

    explicit ShimSecrets(std::string data_dir) : data_dir_(std::move(data_dir)) {}

    std::string issue(core::RunId run);
    Verdict check(core::RunId run, std::string_view shown);
    // The run has ended.
    void forget(core::RunId run);

 private:
    std::vector<Sha256>& hashes_of(core::RunId run);
    std::string directory_of(core::RunId run) const;

    const std::string data_dir_;
    std::mutex mutex_;
    std::unordered_map<Id, std::vector<Sha256>> hashes_;
};

}  // namespace interlock::supervisor
