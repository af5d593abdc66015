// What the API is made of: server/ builds it and lends it to every request.
#pragma once

#include <string>

#include "api/ports.h"
#include "base/log.h"
#include "core/rows.h"
#include "store/read_pool.h"

namespace interlock::net {
class WorkerPool;
}  // namespace interlock::net

namespace interlock::api {

class FeedTails;
class KeyRing;
class Metrics;

struct ServerFacts {
    std::string version;
    std::string store;
    std::string data_dir;
    std::string address;
    Instant started_at;
};

struct ApiDependencies {
    Commands& commands;
    Callers& callers;
    Workplaces& workplaces;
    Processes& processes;
    Models& models;
    Operations& operations;

    store::ReadPool& reads;
    net::WorkerPool& workers;
    net::WorkerPool& bodies;  // Reads large bodies. A client that sends many of them keeps no reads waiting.
    FeedTails& feeds;
    KeyRing& keys;
    Metrics& metrics;
    Log& log;

    // The org of the people who run the server. Processes, directories and the server as a whole belong to it alone.
    core::OrgId home;
    ServerFacts facts;
    std::string host;       // Which machine this is, in places.
    std::string node;       // How people call this server, and so where its runs are.
    core::Place worktrees;  // The directory in which worktrees are made.
};

}  // namespace interlock::api
