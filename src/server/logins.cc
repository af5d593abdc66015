#include "server/logins.h"

#include <chrono>

#include "base/sha256.h"
#include "engine/embedded.h"

namespace interlock::server {
namespace {

constexpr std::string_view cookie_name = "interlock_login=";
constexpr std::chrono::minutes code_life{10};

std::string hash_of(std::string_view secret) { return to_hex(sha256(secret)); }

net::Response plain(int status, std::string text) {
    net::Response response;
    response.status = status;
    response.content_type = "text/plain; charset=utf-8";
    response.body = std::move(text);
    return response;
}

}  // namespace

std::string Logins::make_code(Instant now) {
    const std::string code = api::make_secret();
    const std::lock_guard lock(mutex_);
    std::erase_if(codes_, [&](const auto& each) { return each.second < now; });
    if (codes_.size() < logins_max) codes_[hash_of(code)] = now + code_life;
    return code;
}

std::optional<net::Response> Logins::answer(const net::Request& request, Instant now) {
    if (request.method != net::Method::get && request.method != net::Method::head) return std::nullopt;
    if (request.path == "/login") return log_in(request.query, request.secure, now);
    return std::nullopt;
}

std::optional<net::Response> Logins::log_in(std::string_view query, bool secure, Instant now) {
    constexpr std::string_view parameter = "code=";
    const std::string hash = query.starts_with(parameter) ? hash_of(query.substr(parameter.size())) : "";
    const std::lock_guard lock(mutex_);
    const auto found = codes_.find(hash);
    const bool good = found != codes_.end() && now <= found->second;
    if (found != codes_.end()) codes_.erase(found);
    if (!good) {
        return plain(403, "This login link was used already or is too old. Get a new one with: interlock login\n");
    }
    const std::string cookie = api::make_secret();
    if (cookies_.size() >= logins_max) cookies_.erase(cookies_.begin());
    cookies_[hash_of(cookie)] = now;
    net::Response response = plain(303, "");
    response.headers = {{"location", "./"},
                        {"cache-control", "no-store"},
                        {"set-cookie", std::string(cookie_name) + cookie + "; HttpOnly; SameSite=Strict; Path=/" +
                                           (secure ? "; Secure" : "")}};
    return response;
}

std::optional<api::Caller> Logins::caller(std::string_view cookies) const {
    const std::size_t at = cookies.find(cookie_name);
    if (at == std::string_view::npos || (at > 0 && cookies[at - 1] != ' ' && cookies[at - 1] != ';'))
        return std::nullopt;
    cookies.remove_prefix(at + cookie_name.size());
    const std::lock_guard lock(mutex_);
    if (!cookies_.contains(hash_of(cookies.substr(0, cookies.find(';'))))) return std::nullopt;
    api::Caller browser;
    browser.org = engine::Embedded::default_org;
    browser.key_id = "page";
    browser.most = api::Access::administer;
    browser.by_cookie = true;
    return browser;
}

}  // namespace interlock::server
