// Tells the API who sends a request: by a browser's login, by the process at the other end of the connection, or by a
// key that another node has made.
#pragma once

#include <string>

#include "api/ports.h"
#include "server/key_watch.h"
#include "server/logins.h"
#include "server/sender_check.h"

namespace interlock::server {

class ApiCallers final : public api::Callers {
 public:
    struct Options {
        Logins& logins;
        SenderCheck& senders;
        KeyWatch& keys;
        bool keys_are_shared;    // Other nodes make keys, too.
        const std::string& url;  // Of the server. Final when the first request comes.
    };
    explicit ApiCallers(Options options) : options_(options) {}

    std::optional<api::Principal> page_caller(const net::Request& request) override;
    net::Task<api::Sender> sender_of(net::Peer* peer) override;
    net::Task<bool> shares_files(net::Peer* peer) override;
    std::string login_link(const std::string& key_id) override;
    bool keys_are_shared() const override { return options_.keys_are_shared; }
    void refresh_keys() override;

 private:
    const Options options_;
};

}  // namespace interlock::server
