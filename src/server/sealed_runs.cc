#include "server/sealed_runs.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/id.h"
#include "net/peer.h"

namespace interlock::server {
namespace {

// Where clients put keys, and what speaks for a person or another node.
constexpr std::array<std::string_view, 5> credentials{"authorization", "x-api-key", "x-goog-api-key", "cookie",
                                                      "proxy-authorization"};

net::Task<net::Response> refused_with(net::Response response) { co_return response; }

// Gemini's clients put the key there, and a key there would be looked at as well.
void take_key_from_query(net::Request& request) {
    std::string query;
    std::string_view rest = request.query;
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find('&'), rest.size());
        const std::string_view part = rest.substr(0, end);
        const bool is_key = part == "key" || part.starts_with("key=");
        if (!is_key) query.append(query.empty() ? "" : "&").append(part);
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    request.query = std::move(query);
    request.target = request.path + (request.query.empty() ? "" : "?" + request.query);
}

// Programs that use a proxy for everything send what is for this server as if it were for another.
bool is_this_server(std::string_view authority, const net::Peer& sender) {
    sockaddr_in entrance{};
    const sockaddr_storage ours = net::address_of(sender).ours;
    std::memcpy(&entrance, &ours, sizeof entrance);
    const std::string port = fmt::format(":{}", ntohs(entrance.sin_port));
    return authority == "127.0.0.1" + port || authority == "localhost" + port;
}

}  // namespace

std::string SealedRuns::name_of(core::RunId run) { return to_text("run", run.value); }

void SealedRuns::serve_by(net::HttpServer* http) {
    const std::lock_guard lock(mutex_);
    http_ = http;
    if (http_ == nullptr) return;
    for (auto& [name, sealed] : runs_) {
        if (sealed.waiting) http_->open_entrance(name, sealed.waiting.release());
    }
}

void SealedRuns::open(core::RunId run, const std::string& key) {
    const std::lock_guard lock(mutex_);
    Sealed& sealed = runs_[name_of(run)];
    sealed.run = run;
    sealed.key = key;
}

void SealedRuns::close(core::RunId run) {
    const std::lock_guard lock(mutex_);
    const std::string name = name_of(run);
    if (runs_.erase(name) > 0 && http_ != nullptr) http_->close_entrance(name);
}

void SealedRuns::open_entrance(core::RunId run, shim::Fd entrance) {
    const std::lock_guard lock(mutex_);
    const auto found = runs_.find(name_of(run));
    if (found == runs_.end()) return;
    if (!net::is_tcp_listener(entrance.get())) {
        return log_.error("entrance_refused", {{"run", found->first}, {"why", "it is no listening TCP socket"}});
    }
    if (http_ == nullptr) {
        found->second.waiting = std::move(entrance);
        return;
    }
    http_->open_entrance(found->first, entrance.release());
}

std::optional<std::string> SealedRuns::key_of(const net::Request& head) const {
    if (head.sender == nullptr || !head.sender->visitor) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto found = runs_.find(head.sender->visitor->name);
    return found == runs_.end() ? std::string() : found->second.key;
}

std::optional<net::Task<net::Response>> SealedRuns::answer(net::Request& request) {
    if (request.sender == nullptr || !request.sender->visitor) return std::nullopt;
    core::RunId run;
    std::string key;
    {
        const std::lock_guard lock(mutex_);
        const auto found = runs_.find(request.sender->visitor->name);
        if (found == runs_.end()) return refused_with(net::problem(403, "forbidden", "the run has ended"));
        run = found->second.run;
        key = found->second.key;
    }
    const bool wants_tunnel = request.method == net::Method::connect;
    if (!request.authority.empty() && (wants_tunnel || !is_this_server(request.authority, *request.sender))) {
        return proxy_(run, std::move(request));
    }
    request.authority.clear();
    std::erase_if(request.headers, [](const net::Header& header) {
        return std::ranges::find(credentials, header.name) != credentials.end();
    });
    take_key_from_query(request);
    request.headers.push_back({.name = "authorization", .value = "Bearer " + key});
    return std::nullopt;
}

}  // namespace interlock::server
