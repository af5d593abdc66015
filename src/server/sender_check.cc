#include "server/sender_check.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "net/peer.h"
#include "net/worker_pool.h"

namespace interlock::server {
namespace {

using supervisor::Membership;
using Where = net::PeerProcesses::Where;

std::string link_of(const std::string& process, const char* name) {
    std::error_code error;
    return std::filesystem::read_symlink("/proc/" + process + "/" + name, error).string();
}

// One that may not be looked at is taken to see what the server sees.
bool sees_other_files(pid_t process) {
    const auto differs = [&](const char* name) {
        const std::string its = link_of(std::to_string(process), name);
        return !its.empty() && its != link_of("self", name);
    };
    return differs("ns/mnt") || differs("root");
}

bool share_files(const supervisor::RunMembership& runs, const net::PeerProcesses& found) {
    return std::ranges::none_of(found.processes, [&](pid_t process) {
        return sees_other_files(process) && runs.of(process, found.begun_by) != Membership::inside;
    });
}

struct SenderFacts {
    api::Sender sender;
    bool shares_files = true;
};

api::Sender sender_among(const supervisor::RunMembership& runs, net::PeerProcesses found,
                         const net::PeerAddress& address) {
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

SenderFacts find_sender(const supervisor::RunMembership& runs, const net::PeerAddress& address) {
    net::PeerProcesses found = net::processes_of(address);
    const bool shares_files = share_files(runs, found);
    return {sender_among(runs, std::move(found), address), shares_files};
}

}  // namespace

net::Task<api::Sender> SenderCheck::of(net::Peer* peer) {
    if (peer != nullptr && peer->visitor) co_return api::Sender::run;
    if (peer == nullptr || peer->is_trusted == true) co_return api::Sender::outside;
    const net::PeerAddress address = net::address_of(*peer);
    const SenderFacts found =
        co_await net::run_on(workers_, [runs = runs_, address] { return find_sender(*runs, address); });
    if (found.sender == api::Sender::outside) peer->is_trusted = true;
    peer->shares_files = found.shares_files;
    co_return found.sender;
}

net::Task<bool> SenderCheck::shares_files(net::Peer* peer) {
    if (peer == nullptr || (!peer->local && !peer->shares_files)) co_return true;
    if (!peer->shares_files) {
        const net::PeerAddress address = net::address_of(*peer);
        peer->shares_files = co_await net::run_on(
            workers_, [runs = runs_, address] { return share_files(*runs, net::processes_of(address)); });
    }
    co_return *peer->shares_files;
}

}  // namespace interlock::server
