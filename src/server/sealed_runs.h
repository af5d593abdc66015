// The sealed runs of this server, which come in by entrances (shim/entrance.h).
//
//   (1) A request by an entrance is its run's. What it shows as a key, a login or an address of its sender is taken
//       off, and it gets the run's key: it can do what the run may do, and no more.
//   (2) An entrance is open from the start of its run's process to the run's end, and again after a restart.
//   (3) What such a request wants of another host goes to the proxy (run_proxy.h).
//
// For all threads.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/log.h"
#include "core/rows.h"
#include "net/http_server.h"
#include "shim/fd.h"

namespace interlock::server {

class SealedRuns {
 public:
    using Proxy = std::function<net::Task<net::Response>(core::RunId, net::Request)>;
    SealedRuns(Proxy proxy, Log& log) : proxy_(std::move(proxy)), log_(log) {}

    // From here on entrances are served by it; null: by none any more.
    void serve_by(net::HttpServer* http);
    void open(core::RunId run, const std::string& key);
    void close(core::RunId run);
    void open_entrance(core::RunId run, shim::Fd entrance);

    // The key of the run that sends this; nothing for what did not come in by an entrance.
    std::optional<std::string> key_of(const net::Request& head) const;
    // Makes it the run's own request. Gives the response if no other handler may see the request.
    std::optional<net::Task<net::Response>> answer(net::Request& request);

 private:
    struct Sealed {
        core::RunId run;
        std::string key;
        shim::Fd waiting = {};  // Its entrance, as long as there is no server for it.
    };
    static std::string name_of(core::RunId run);

    const Proxy proxy_;
    Log& log_;
    mutable std::mutex mutex_;
    net::HttpServer* http_ = nullptr;
    std::map<std::string, Sealed> runs_;
};

}  // namespace interlock::server
