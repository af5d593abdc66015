// The commands' connection, over net/http_client.h.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/ensure.h"
#include "cli/transport.h"
#include "net/http_client.h"

namespace interlock::cli {
namespace {

net::Method method_from(std::string_view name) {
    for (const net::Method method : {net::Method::get, net::Method::put, net::Method::post, net::Method::delete_}) {
        if (net::name_of(method) == name) return method;
    }
    ensure(false, "commands use four methods");
    return net::Method::get;
}

net::ClientRequest to_net(const HttpRequest& request) {
    net::ClientRequest made{.method = method_from(request.method), .target = request.target, .headers = {}, .body = {}};
    for (const auto& [name, value] : request.headers) {
        std::string lower = name;
        std::ranges::transform(lower, lower.begin(),
                               [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        made.headers.push_back({.name = std::move(lower), .value = value});
    }
    made.body = request.body;
    return made;
}

TransportError from_net(const net::ClientError& error) {
    switch (error.kind) {
        case net::ClientError::Kind::could_not_connect:
        case net::ClientError::Kind::tls_failed:
            return {TransportError::Kind::not_reachable, error.detail};
        case net::ClientError::Kind::outcome_unknown:
        case net::ClientError::Kind::bad_response:
            return {TransportError::Kind::reply_lost, error.detail};
    }
    return {TransportError::Kind::reply_lost, error.detail};
}

Result<HttpResponse, TransportError> from_net(Result<net::ClientResponse, net::ClientError> answer) {
    if (!answer) return fail(from_net(answer.error()));
    HttpResponse made{.status = answer->status, .headers = {}, .body = std::move(answer->body)};
    for (net::Header& header : answer->headers)
        made.headers.emplace_back(std::move(header.name), std::move(header.value));
    return made;
}

class ClientTransport : public Transport {
 public:
    ClientTransport(const net::Url& url, net::HttpClient::Options options)
        : base_(url.target == "/" ? "" : url.target), client_(url, std::move(options)) {}

    Result<HttpResponse, TransportError> send(const HttpRequest& request) override {
        return from_net(client_.request(based(request)));
    }
    Result<HttpResponse, TransportError> stream(const HttpRequest& request,
                                                const std::function<bool(std::string_view)>& on_piece) override {
        return from_net(client_.stream(based(request), on_piece));
    }

 private:
    // A server behind a proxy may live below a path: --url https://example.org/interlock
    net::ClientRequest based(const HttpRequest& request) const {
        net::ClientRequest made = to_net(request);
        made.target = base_ + made.target;
        return made;
    }

    std::string base_;
    net::HttpClient client_;
};

// An address that is none: every request says so.
class NoTransport : public Transport {
 public:
    explicit NoTransport(std::string why) : why_(std::move(why)) {}
    Result<HttpResponse, TransportError> send(const HttpRequest&) override { return fail(error()); }
    Result<HttpResponse, TransportError> stream(const HttpRequest&,
                                                const std::function<bool(std::string_view)>&) override {
        return fail(error());
    }

 private:
    TransportError error() const { return {TransportError::Kind::not_reachable, why_}; }
    std::string why_;
};

}  // namespace

std::string local_address(const std::string& path, std::uint32_t owner) {
    return fmt::format("unix:{}:{}", owner, path);
}

std::unique_ptr<Transport> http_transport(const std::string& text, std::chrono::milliseconds timeout) {
    net::HttpClient::Options options;
    const bool local = text.starts_with("unix:");
    if (local) {
        const std::size_t colon = text.find(':', 5);
        const auto [end, error] = std::from_chars(text.data() + 5, text.data() + colon, options.local_owner);
        ensure(error == std::errc() && end == text.data() + colon, "made by local_address");
        options.local_path = text.substr(colon + 1);
    }
    const auto url = net::parse_url(local ? "http://localhost" : text);
    if (!url) return std::make_unique<NoTransport>(url.error());
    options.total_timeout = timeout;
    options.connect_timeout = std::min(options.connect_timeout, timeout);
    return std::make_unique<ClientTransport>(*url, std::move(options));
}

}  // namespace interlock::cli
