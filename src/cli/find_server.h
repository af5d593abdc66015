// Finds the server and the API key: from flags, else the environment, else the data directory.
//
//   (1) The server of a data directory is reached through its Unix socket, because the kernel tells the owner of the
//       socket. Another program may use the address in server.json by now.
//   (2) The socket needs no key, because the kernel tells the server which user calls. Other addresses get the key that
//       was set for them, or none.
//   (3) Inside a run, only the run's key is used, or the value of --key.
#pragma once

#include <string>

#include "cli/environment.h"
#include "cli/failure.h"

namespace interlock::cli {

// The global flags.
struct Settings {
    std::string url = {};
    std::string key = {};
    std::string data_dir = {};
    double request_timeout_s = 30;  // For a request with all its retries.
    bool json = false;
    bool quiet = false;
    bool no_color = false;
};

struct ServerAddress {
    std::string url;
    std::string key;          // Empty: the server uses the socket's user, or refuses.
    std::string socket = {};  // Empty: over the network.
    std::uint32_t owner = 0;  // The user whose server must listen there.

    // The argument of Platform::dial.
    std::string address() const;
};

// server.json in a data directory, which exists while a server runs.
struct ServerFile {
    std::string url = {};
    std::int64_t pid = 0;
    std::string socket = {};
};

std::string find_data_dir(const Settings& settings, const Environment& environment);
Outcome<ServerFile> read_server_file(const std::string& data_dir);

Outcome<ServerAddress> find_server(const Settings& settings, const Environment& environment);

}  // namespace interlock::cli
