// Which server to talk to, and with which key: what was typed, else the environment, else what the data directory says.
//
//   (1) The server of a data directory is spoken to through its Unix socket, of which the kernel says whose it is. Its
//       address in server.json may be another program's by now.
//   (2) Through that socket the kernel says whose program this is, and no key is needed. Another address gets the key
//       that was given for it, or none.
//   (3) Inside of a run, only the run's key is used, or one that was typed.
#pragma once

#include <string>

#include "cli/environment.h"
#include "cli/failure.h"

namespace interlock::cli {

// The flags that every command takes.
struct Settings {
    std::string url = {};
    std::string key = {};
    std::string data_dir = {};
    double timeout_s = 30;
    bool json = false;
    bool quiet = false;
    bool no_color = false;
};

struct ServerAddress {
    std::string url;
    std::string key;          // Empty: the server goes by the socket, or says what is missing.
    std::string socket = {};  // Empty: over the network.
    std::uint32_t owner = 0;  // The user whose server must listen there.

    // What Platform::dial takes.
    std::string address() const;
};

// server.json in a data directory: there while a server runs on it.
struct ServerFile {
    std::string url = {};
    std::int64_t pid = 0;
    std::string socket = {};
};

std::string find_data_dir(const Settings& settings, const Environment& environment);
Outcome<ServerFile> read_server_file(const std::string& data_dir);

Outcome<ServerAddress> find_server(const Settings& settings, const Environment& environment);

}  // namespace interlock::cli
