#include "server/api_callers.h"

namespace interlock::server {

std::optional<api::Principal> ApiCallers::page_caller(const net::Request& request) {
    return options_.logins.caller(request);
}

net::Task<api::Sender> ApiCallers::sender_of(net::Peer* peer) { return options_.senders.of(peer); }

net::Task<bool> ApiCallers::shares_files(net::Peer* peer) { return options_.senders.shares_files(peer); }

std::string ApiCallers::login_link(const std::string& key_id) {
    return options_.url + "/login?code=" + options_.logins.make_code(key_id);
}

void ApiCallers::refresh_keys() { (void)options_.keys.read_on(); }

}  // namespace interlock::server
