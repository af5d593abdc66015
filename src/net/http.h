// HTTP as a handler sees it: a request that was received whole, and a response that is given back whole or streamed.
//
//   (1) A request that reaches a handler passed every check of request_parser.h. Its target begins with '/', but for a
//       CONNECT, its percent-encoding is well-formed, its body is complete.
//   (2) A response that could break the framing (a line break in a header) is never sent; its client gets a 500.
//
// There are no routes, no cookies and no compression here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/task.h"

namespace interlock::net {

class Notifier;
class Tunnel;
struct Peer;

// `connect` comes in by an entrance alone (http_server.h).
enum class Method { get, head, post, put, patch, delete_, options, connect };
std::string_view name_of(Method method);  // As on the wire: "GET".
// True for methods whose requests have a body. Servers differ in whether they read one that comes with another method,
// so what follows the head of such a request could be taken for a second request.
constexpr bool defines_body(Method method) {
    return method == Method::post || method == Method::put || method == Method::patch;
}

struct Header {
    std::string name;  // In lower case.
    std::string value;
};

// A token of RFC 9110 in lower case.
bool is_header_name(std::string_view text);
// Without control characters, but for tabs.
bool is_header_value(std::string_view text);

// The value of the first header of that name, or nothing.
std::string_view find_header(const std::vector<Header>& headers, std::string_view lower_case_name);

struct Request {
    Method method = Method::get;
    std::string target;  // As it was sent: path, and query if there is one.
    std::string path;    // Still percent-encoded; see path_segments().
    std::string query;   // What follows the '?', still percent-encoded; see query_pairs().
    // The host and port that a client wants to be connected to, as it was sent: of a CONNECT, and of a target that
    // begins with http://. Empty: the request is for this server. Only by an entrance.
    std::string authority;
    std::vector<Header> headers;
    std::string body;
    std::string peer;  // The address, without the port.
    bool secure = false;
    // Whether the client has hung up, as far as the system knows; for handlers that wait for something dear. Empty: not
    // known. Good for as long as the answer is not given.
    std::function<bool()> gone = {};
    // What the connection knows of the program that sends this (peer.h); null: nothing. Good for as long as `gone`.
    Peer* sender = nullptr;

    std::string_view header(std::string_view lower_case_name) const { return find_header(headers, lower_case_name); }
};

// The open end of a streamed response. Used by one coroutine at a time.
class StreamWriter {
 public:
    virtual ~StreamWriter() = default;

    // Sends the bytes, which stay valid until this returns. False: the peer has gone, or takes nothing any more.
    virtual Task<bool> write(std::string_view bytes) = 0;

    // The peer has gone or the server is draining: say goodbye and return.
    virtual bool closed() const = 0;

    // Notifier::wait(), which also returns (false) when closed() becomes true. Without it a stream notices only when it
    // writes.
    virtual Task<bool> wait(Notifier& notifier, std::uint64_t seen, SteadyTime deadline) = 0;
};

// Thrown in a stream: it breaks off here as if the connection had, and nobody is told. The client can see that this is
// not the end.
struct StreamCut {};

struct Response {
    int status = 200;
    std::string content_type = {};
    std::vector<Header> headers = {};  // Neither Content-Length nor Connection nor Date: those are the server's to say.
    std::string body = {};
    // When set, the body is `body`, which goes out together with the head, and then what this writes until it returns.
    // Chunked; what it throws ends the connection without the last chunk. Not called for a HEAD, a 204 or a 304.
    std::function<Task<void>(StreamWriter&)> stream = {};
    // When set, the rest of the connection belongs to it (tunnel.h), and nothing else of the response is sent.
    std::shared_ptr<Tunnel> tunnel = {};
    // Adds headers that keep a browser from running, guessing at or embedding the body: for content of strangers.
    bool inert = false;
};

// Called on the connection's thread; must not block it (see answer.h and worker_pool.h). What it throws becomes a 500,
// except Busy.
using Handler = std::function<Task<Response>(Request)>;

// Thrown in a handler: a bounded queue is full. The client gets 503, with Retry-After.
struct Busy : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A body of application/problem+json: {"type":"about:blank","title":…,"status":…,"code":…,"detail":…}.
Response problem(int status, std::string_view code, std::string_view detail);
std::string_view reason_of(int status);  // "Not Found"

// "/a/b%20c" → {"a", "b c"}. Nothing where an encoding is broken, a segment is empty (a final slash is allowed), "." or
// "..", or does not decode to UTF-8 without control characters.
std::optional<std::vector<std::string>> path_segments(std::string_view path);

// "a=1&b=x+y&c" → {{"a", "1"}, {"b", "x y"}, {"c", ""}}. Nothing where an encoding is broken or a name is empty or a
// part does not decode to UTF-8 without NUL.
std::optional<std::vector<std::pair<std::string, std::string>>> query_pairs(std::string_view query);

}  // namespace interlock::net
