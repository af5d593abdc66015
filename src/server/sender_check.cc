#include "server/sender_check.h"

#include <algorithm>

#include "net/peer.h"
#include "net/worker_pool.h"

namespace interlock::server {
namespace {

using supervisor::Membership;

api::Sender find_sender(const supervisor::RunMembership& runs, const net::PeerAddress& address) {
    using Where = net::PeerProcesses::Where;
    net::PeerProcesses found = net::processes_of(address);
    if (found.where == Where::elsewhere) return api::Sender::outside;
    const auto is = [&](Membership membership) {
        return [&, membership](pid_t process) { return runs.of(process, found.begun_by) == membership; };
    };
    if (found.where == Where::here) {
        if (std::ranges::any_of(found.processes, is(Membership::inside))) return api::Sender::run;
        const bool outside = std::ranges::all_of(found.processes, is(Membership::outside));
        return outside && net::may_be_there(address) ? api::Sender::outside : api::Sender::unknown;
    }
    // A tunnel of a login session holds connections and cannot be looked at. A program of a run can do that too.
    std::erase_if(found.unreadable, supervisor::RunMembership::is_interlock);
    const bool outside = !found.unreadable.empty() && std::ranges::all_of(found.unreadable, is(Membership::outside));
    return outside ? api::Sender::outside : api::Sender::unknown;
}

}  // namespace

net::Task<api::Sender> SenderCheck::of(net::Peer* peer) {
    if (peer == nullptr || peer->is_trusted == true) co_return api::Sender::outside;
    const net::PeerAddress address = net::address_of(*peer);
    const api::Sender sender =
        co_await net::run_on(workers_, [runs = runs_, address] { return find_sender(*runs, address); });
    if (sender == api::Sender::outside) peer->is_trusted = true;
    co_return sender;
}

}  // namespace interlock::server
