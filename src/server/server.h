// The server: store, engine, API and HTTP, put together in this order and taken apart in the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/result.h"

namespace interlock::server {

struct ServerOptions {
    std::string data_dir;
    std::string host = "127.0.0.1";
    std::uint16_t port = 4100;
    std::string tls_cert;
    std::string tls_key;
    bool insecure = false;  // Listen beyond this machine without TLS.
    std::vector<std::string> allowed_hosts;
    std::string socket;  // The Unix socket for programs of this machine; empty: api.sock in the data directory.
    std::size_t threads = 0;
    std::string store;             // "postgres://…"; empty: the embedded one.
    std::string node_name;         // With PostgreSQL: how people call this node,
    std::string advertise;         // where the other nodes reach it,
    std::string peer_ca;           // whose certificates it believes,
    double node_lease_s = 3;       // and how long its silence is tolerated.
    bool accept_clock = false;     // Serve a store whose newest time is ahead of the machine's clock.
    bool simulate_models = false;  // Carry a provider of models that cost nothing, sim/….
    std::string sandbox_default;   // A level, for runs that ask for none; empty: guarded where the machine allows it.
    std::string sandbox_minimum;   // A level; runs that ask for less are refused. Empty: off.
    std::uint64_t open_files_of_runs = 0;  // The soft limit that runs start with; 0: the server's own.
    double memory_pressure_max = 40;  // Percent of waiting for memory above which no run is started; 0: never mind.
};

class Server {
 public:
    // Opens the store, listens. The error is what, why and what to do.
    static Result<std::unique_ptr<Server>, std::string> start(ServerOptions options, Log& log);
    ~Server();  // drain() first to be polite.

    const std::string& url() const;
    // Good for one login within ten minutes, as this process's user.
    std::string login_link();
    bool keeps_admin_key() const;  // The data directory has one that is in force.
    // For those who start a server to show something with it.
    Result<std::string, std::string> make_admin_key(const std::string& note);

    // Answers what is in flight, then stops.
    void drain(std::chrono::milliseconds timeout);

 private:
    struct Parts;
    explicit Server(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace interlock::server
