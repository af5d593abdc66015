// The way of sealed runs to other hosts: a proxy for CONNECT, and for plain HTTP, which apt uses.
//
//   (1) A run reaches the hosts that its launch names (core/hosts.h) and no other. A host that answers calls to models
//       is reached by the gateway alone, also if the launch names it.
//   (2) A name is resolved here, once, and the connection goes to an address that was looked at: it is public, or an
//       operator has said that the host may be private.
//   (3) Each connection, and each that was refused, is one event with the bytes that went both ways. A refusal is
//       answered after its event is committed, so a run cannot ask faster than events are stored.
//   (4) Of a request in plain HTTP only its answer is passed on: the connection ends with it, so nothing of two
//       requests can be mixed up.
//
// What a host passes on to others is not seen here.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "core/command.h"
#include "engine/engine.h"
#include "net/http.h"
#include "net/worker_pool.h"
#include "store/read_pool.h"

namespace interlock::server {

class RunProxy {
 public:
    struct Options {
        core::OrgId org;
        std::function<void(std::vector<engine::Submission>)> submit;
        std::function<Id()> fresh_id;
        store::ReadPool& reads;
        net::WorkerPool& workers;
        // Whether calls to models are answered there.
        std::function<bool(std::string_view host, std::uint16_t port)> answers_calls;
        // Whether its addresses may be of this machine or a private network.
        std::function<bool(std::string_view host, std::uint16_t port)> may_be_private;
        Log& log;
    };
    explicit RunProxy(Options options) : options_(std::move(options)) {}

    // For a request with an authority.
    net::Task<net::Response> answer(core::RunId run, net::Request request);

 private:
    struct Way;
    struct Refusal;
    net::Task<std::optional<Refusal>> find_way(const core::RecordConnection& to, bool is_name, Way& way);
    net::Task<void> record(core::RecordConnection connection);

    const Options options_;
    net::WorkerPool names_{{.threads = 4, .queue_max = 256}};  // Resolvers block, and some names take long.
};

}  // namespace interlock::server
