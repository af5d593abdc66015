#include "server/run_proxy.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>
#include <boost/asio/ip/tcp.hpp>

#include "base/id.h"
#include "base/text.h"
#include "core/hosts.h"
#include "core/limits.h"
#include "net/answer.h"
#include "net/public_address.h"
#include "net/tunnel.h"
#include "store/read_rows.h"

namespace interlock::server {
namespace {

namespace asio = boost::asio;
using core::ConnectionOutcome;
using Addresses = std::vector<asio::ip::address>;

constexpr std::chrono::milliseconds connect_timeout{10'000};
constexpr std::uint16_t http_port = 80;

struct Authority {
    std::string host;  // As it was sent.
    std::uint16_t port = 0;
};

// "example.org:443". Nothing where there is more in it, such as a user, or less.
std::optional<Authority> authority_from(std::string_view text, std::optional<std::uint16_t> standard) {
    const std::size_t bracket = text.rfind(']');
    const std::size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
    Authority authority{.host = std::string(text.substr(0, colon)), .port = standard.value_or(0)};
    if (colon != std::string_view::npos) {
        const std::string_view port = text.substr(colon + 1);
        const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), authority.port);
        if (error != std::errc{} || end != port.data() + port.size()) return std::nullopt;
    }
    const bool is_plain = std::ranges::all_of(authority.host, [](char c) { return c > 0x20 && c < 0x7F && c != '@'; });
    if (authority.host.empty() || authority.port == 0 || !is_plain) return std::nullopt;
    return authority;
}

Addresses addresses_of(const std::string& host) {
    Addresses found;
    asio::io_context context;
    boost::system::error_code error;
    asio::ip::tcp::resolver resolver(context);
    // With a dot behind it a name is whole: no domain of this machine is added to it.
    for (const auto& each : resolver.resolve(host, "", error)) found.push_back(each.endpoint().address());
    return found;
}

// What is between the run and this proxy, and goes no further (RFC 9110, 7.6.1).
bool ends_here(std::string_view name, std::string_view connection) {
    static constexpr std::array<std::string_view, 10> names{
        "connection", "host",    "keep-alive", "proxy-authorization", "proxy-connection",
        "te",         "trailer", "upgrade",    "content-length",      "transfer-encoding"};
    if (name == "expect" || std::ranges::find(names, name) != names.end()) return true;
    // "Connection: close, x-mine" names headers of this connection.
    std::string lower(connection);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    for (std::string_view rest = lower; !rest.empty();) {
        const std::size_t end = std::min(rest.find(','), rest.size());
        std::string_view part = rest.substr(0, end);
        while (part.starts_with(' ') || part.starts_with('\t')) part.remove_prefix(1);
        while (part.ends_with(' ') || part.ends_with('\t')) part.remove_suffix(1);
        if (part == name) return true;
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return false;
}

std::string forwarded(const net::Request& request, const std::string& host, std::uint16_t port) {
    std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: {}{}\r\n", net::name_of(request.method), request.target,
                                   host, port == http_port ? "" : fmt::format(":{}", port));
    const std::string_view connection = request.header("connection");
    for (const net::Header& header : request.headers) {
        if (!ends_here(header.name, connection)) text += header.name + ": " + header.value + "\r\n";
    }
    if (net::defines_body(request.method) || !request.body.empty()) {
        text += fmt::format("Content-Length: {}\r\n", request.body.size());
    }
    return text + "Connection: close\r\n\r\n" + request.body;
}

}  // namespace

struct RunProxy::Way {
    std::string host;
    Addresses addresses;
};

struct RunProxy::Refusal {
    ConnectionOutcome outcome;
    int status;
    std::string_view code;
    std::string detail;
};

net::Task<net::Response> RunProxy::answer(core::RunId run, net::Request request) {
    // 1. What is wanted.
    const bool wants_tunnel = request.method == net::Method::connect;
    const auto authority =
        authority_from(request.authority, wants_tunnel ? std::nullopt : std::optional<std::uint16_t>(http_port));
    if (!authority) {
        co_return net::problem(400, "invalid_request",
                               fmt::format("'{}' is not a host and port", as_line(request.authority)));
    }
    const auto name = core::host_name_from(authority->host);
    core::RecordConnection connection{.run = run,
                                      .host = cut_text(name.value_or(authority->host), core::limits::name_bytes_max),
                                      .port = authority->port};

    // 2. Whether it may be, and where it is.
    Way way{.host = name.value_or(""), .addresses = {}};
    auto refusal = co_await find_way(connection, name.has_value(), way);
    std::optional<net::Socket> socket;
    if (!refusal) {
        auto connected = co_await net::connect_to(std::move(way.addresses), authority->port, connect_timeout);
        if (connected) {
            socket.emplace(std::move(*connected));
        } else {
            refusal = Refusal{ConnectionOutcome::unreachable, 502, "host_unreachable",
                              fmt::format("cannot connect to {}:{}: {}", way.host, authority->port, connected.error())};
        }
    }
    if (refusal) {
        connection.outcome = refusal->outcome;
        options_.log.info("connection_refused", {{"run", to_text("run", run.value)},
                                                 {"host", connection.host},
                                                 {"port", std::to_string(connection.port)},
                                                 {"why", refusal->detail}});
        co_await record(std::move(connection));
        co_return net::problem(refusal->status, refusal->code, refusal->detail);
    }

    // 3. From here on the connection is counted, and is an event when it ends.
    net::Response response;
    response.tunnel = std::make_shared<net::Tunnel>(
        std::move(*socket),
        net::Tunnel::Options{.first = wants_tunnel ? "" : forwarded(request, way.host, authority->port),
                             .announced = wants_tunnel,
                             .ended = [this, connection](net::TunnelCounts counts) mutable -> net::Task<void> {
                                 connection.bytes_out = counts.out;
                                 connection.bytes_in = counts.in;
                                 return record(std::move(connection));
                             }});
    co_return response;
}

net::Task<std::optional<RunProxy::Refusal>> RunProxy::find_way(const core::RecordConnection& to, bool is_name,
                                                               Way& way) {
    const std::string where = fmt::format("{}:{}", as_line(to.host), to.port);
    const auto not_allowed = [&](std::string why) {
        return Refusal{ConnectionOutcome::not_allowed, 403, "host_not_allowed", std::move(why)};
    };
    if (!is_name) co_return not_allowed(fmt::format("{} is not a host name; runs cannot connect to addresses", where));
    const auto port = static_cast<std::uint16_t>(to.port);
    if (options_.answers_calls(way.host, port)) {
        co_return not_allowed(fmt::format("{} is a model provider; send model calls through the gateway", where));
    }
    const auto launch = co_await net::run_on(options_.workers, [this, run = to.run] {
        return options_.reads.with([&](store::Snapshot& snapshot) {
            return store::read_row<core::Launch>(snapshot, options_.org, run.value);
        });
    });
    if (!launch || !*launch || !core::is_allowed((*launch)->process.allowed_hosts, way.host, port)) {
        co_return not_allowed(
            fmt::format("this run may not connect to {}; an operator can add it to allowed_hosts", where));
    }
    way.addresses = co_await net::run_on(names_, [host = way.host] { return addresses_of(host); });
    if (way.addresses.empty()) {
        co_return Refusal{ConnectionOutcome::not_found, 502, "host_not_found", fmt::format("{} has no address", where)};
    }
    if (options_.may_be_private(way.host, port)) co_return std::nullopt;
    std::erase_if(way.addresses, [](const asio::ip::address& address) { return !net::is_public(address); });
    if (!way.addresses.empty()) co_return std::nullopt;
    co_return Refusal{ConnectionOutcome::not_public, 403, "host_not_public",
                      fmt::format("{} is on this machine or a private network; a person can allow that", where)};
}

// A record that cannot be committed is logged: the connection has been, and cannot be taken back.
net::Task<void> RunProxy::record(core::RecordConnection connection) {
    const auto answered =
        co_await net::await_answer<engine::SubmitResult>([&](net::Deliver<engine::SubmitResult> deliver) {
            engine::Submission submission;
            submission.command.org = options_.org;
            submission.command.key = core::CommandKey(options_.fresh_id());
            submission.command.body = connection;
            submission.on_answer = deliver;
            std::vector<engine::Submission> submissions;
            submissions.push_back(std::move(submission));
            options_.submit(std::move(submissions));
        });
    const auto* reply = answered ? std::get_if<core::RunReply>(&answered->reply) : nullptr;
    if (reply != nullptr && reply->status == core::RunStatus::done) co_return;
    options_.log.error("connection_not_recorded", {{"run", to_text("run", connection.run.value)},
                                                   {"host", connection.host},
                                                   {"bytes_out", std::to_string(connection.bytes_out)},
                                                   {"bytes_in", std::to_string(connection.bytes_in)}});
}

}  // namespace interlock::server
