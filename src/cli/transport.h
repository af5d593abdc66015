// One connection to a server, as the commands see it: a request, and a whole answer or a stream of pieces. The only
// seam between the commands and the network; tests put a recording fake here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace interlock::cli {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
    std::string method;
    std::string target;
    HeaderList headers = {};
    std::string body = {};
};

struct HttpResponse {
    int status = 0;
    HeaderList headers = {};
    std::string body = {};

    // The first with this name, in any case; empty if there is none.
    std::string header(std::string_view name) const;
};

struct TransportError {
    enum class Kind {
        not_reachable,  // Nothing was sent: there is no server, or it does not answer the door.
        reply_lost,     // The request may have been carried out.
    };
    Kind kind;
    std::string detail;
};

class Transport {
 public:
    virtual ~Transport() = default;
    virtual Result<HttpResponse, TransportError> send(const HttpRequest& request) = 0;
    // Hands over the body of a good answer (2xx) piece by piece, until the server ends it or `on_piece` returns false;
    // any other answer comes back whole.
    virtual Result<HttpResponse, TransportError> stream(const HttpRequest& request,
                                                        const std::function<bool(std::string_view)>& on_piece) = 0;
};

// "unix:1000:/path/api.sock": the socket, and the user whose server must listen there. For http_transport.
std::string local_address(const std::string& path, std::uint32_t owner);

// Opens nothing yet: the first request does. Takes a URL, or a local_address.
std::unique_ptr<Transport> http_transport(const std::string& url, std::chrono::milliseconds timeout);

}  // namespace interlock::cli
