// The API as the commands use it: one request, one outcome.
//
//   (1) Every change carries an Idempotency-Key, and every further try of it carries the same one.
//   (2) Once a try of a change may have reached the server, no later failure turns "unknown" into "did not happen":
//       only an answer for that key does.
//   (3) No try begins after the deadline of its request.
#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/instant.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/transport.h"
#include "net/sse.h"

namespace interlock::cli {

// Clock, sleep, network and process control. Tests replace them.
struct Platform {
    std::function<Instant()> now;
    std::function<void(std::chrono::milliseconds)> sleep;
    std::function<std::string()> fresh_key;
    std::function<std::unique_ptr<Transport>(const std::string& url, std::chrono::milliseconds timeout)> dial;

    // These come from main, because they need the server. Empty in tests.
    // Starts a server on a data directory, and returns when it is up.
    std::function<Outcome<void>(const std::string& data_dir, const CliOutput& output)> start_server = {};
    // This process becomes the one that holds the run, in this terminal and with this environment. Returns only if it
    // cannot.
    struct Shim {
        std::string data_dir;
        std::string run;
        std::string secret = {};  // Proves to the server that the process holds the run.
        bool quiet = false;
        std::vector<std::string> environment = {};  // "NAME=value"
    };
    std::function<Failure(const Shim& shim)> become_shim = {};
    // Verifies a store without asking its server, and prints the report.
    struct StoreToVerify {
        std::string data_dir;    // Has the keys of the seals.
        std::string store = {};  // "postgres://…", or empty: the one in the data directory.
        bool repair = false;
        std::size_t examples_max = 5;
        std::vector<std::string> heads = {};
        bool json = false;
    };
    std::function<ExitCode(const StoreToVerify& store, const CliOutput& output)> verify_store = {};
};
Platform real_world();

struct ApiResponse {
    HttpResponse response;
    boost::json::value document;  // Null for an empty body.
};

struct Change {
    std::string method;
    std::string target;
    std::string body = {};
    std::string key;
    std::string content_type = "application/json";
};

// A list and the part of it to read.
struct Pages {
    std::string target;         // Without limit and after.
    std::size_t items_max = 0;  // 0: one page of the server's default size.
    bool all = false;
    std::string after = {};  // Cursor; empty: from the beginning.
};

class ApiClient {
 public:
    struct Options {
        std::string key;
        std::chrono::milliseconds timeout = std::chrono::seconds(30);
    };

    ApiClient(std::unique_ptr<Transport> transport, Platform world, Options options)
        : transport_(std::move(transport)), world_(std::move(world)), options_(std::move(options)) {}

    Outcome<ApiResponse> get(const std::string& target);
    // The same for responses that are not JSON.
    Outcome<HttpResponse> fetch(const std::string& target);
    Outcome<ApiResponse> change(const Change& change);
    // One list document with the items of all requested pages and the cursor behind them.
    Outcome<ApiResponse> list(const Pages& pages);
    // Follows a stream of events, across lost connections, until `on_event` returns false. `after` is the id of the
    // last known event; empty: from now on.
    Outcome<void> follow(const std::string& target, std::string after,
                         const std::function<bool(const net::SseEvent&)>& on_event);
    // The body, piece by piece.
    Outcome<void> download(const std::string& target, const std::function<bool(std::string_view)>& on_piece);

    const Platform& world() const { return world_; }

 private:
    HttpRequest request(std::string method, std::string target) const;

    std::unique_ptr<Transport> transport_;
    Platform world_;
    Options options_;
};

// Adds ?name=value or &name=value.
std::string with_query(const std::string& target, std::string_view name, std::string_view value);
std::string percent_encoded(std::string_view text);

}  // namespace interlock::cli
