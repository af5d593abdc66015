// The API: from a request to a response.
//
//   (1) Every request is let in by a key that the route's access allows, or as the user of this machine who sends it by
//       the Unix socket; routes that are open take any.
//   (2) What a bound key may not see does not exist for it.
//   (3) What is the server's and not an org's is for callers of the server's own org.
//   (4) A program that belongs to a run is neither operator nor admin, with any key that it has.
//   (5) Every answer has a request id, which is in the log too.
#pragma once

#include "api/parts.h"
#include "api/route.h"
#include "net/http.h"

namespace interlock::api {

class Api {
 public:
    explicit Api(Parts parts) : parts_(std::move(parts)) {}

    net::Task<net::Response> handle(net::Request request);
    // Known only once the server listens. Before the first request.
    void set_address(std::string url) { parts_.facts.address = std::move(url); }

 private:
    net::Task<net::Response> dispatch(Call& call, const ApiRoute*& route);
    net::Task<std::optional<Problem>> check_run_key(Call& call);
    std::optional<Principal> local_caller(const net::Request& request) const;
    net::Task<std::optional<Problem>> check_sender(const net::Request& request, const Principal& caller);

    Parts parts_;
    Routes routes_;
};

}  // namespace interlock::api
