// What the server must know of the program that sends a request.
//
//   (1) Whether it belongs to a run. Asked only for requests that would act as operator or admin, once for each
//       connection from outside of runs.
//   (2) Whether it sees the files that the server sees. Known over the Unix socket, and of programs whose connection
//       was looked up for (1). A run that has a view of its own sees its places as they are.
#pragma once

#include <memory>

#include "api/ports.h"
#include "net/task.h"
#include "supervisor/run_membership.h"

namespace interlock::net {
class WorkerPool;
}

namespace interlock::server {

class SenderCheck {
 public:
    explicit SenderCheck(net::WorkerPool& workers) : workers_(workers) {}

    // From the connection's thread.
    net::Task<api::Sender> of(net::Peer* peer);
    net::Task<bool> shares_files(net::Peer* peer);

 private:
    net::WorkerPool& workers_;
    const std::shared_ptr<const supervisor::RunMembership> runs_ = std::make_shared<supervisor::RunMembership>();
};

}  // namespace interlock::server
