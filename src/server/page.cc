#include "server/page.h"

#include <array>
#include <chrono>

#include "base/sha256.h"
#include "engine/embedded.h"

// The files of the page are part of the binary.
#define INTERLOCK_EMBED(name, file)                                                                  \
    __asm__(".section .rodata\n" #name "_begin:\n.incbin \"" INTERLOCK_WEB_DIR "/" file "\"\n" #name \
            "_end:\n.previous\n");                                                                   \
    extern "C" const char name##_begin[];                                                            \
    extern "C" const char name##_end[]

INTERLOCK_EMBED(interlock_page_html, "index.html");
INTERLOCK_EMBED(interlock_page_js, "page.js");
INTERLOCK_EMBED(interlock_page_css, "page.css");

namespace interlock::server {
namespace {

struct File {
    std::string_view path;
    std::string_view type;
    const char* begin;
    const char* end;
};

const std::array files{
    File{"/", "text/html; charset=utf-8", interlock_page_html_begin, interlock_page_html_end},
    File{"/page.js", "text/javascript; charset=utf-8", interlock_page_js_begin, interlock_page_js_end},
    File{"/page.css", "text/css; charset=utf-8", interlock_page_css_begin, interlock_page_css_end},
};

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

net::Response serve(const File& file, const net::Request& request) {
    net::Response response;
    const std::string_view bytes(file.begin, static_cast<std::size_t>(file.end - file.begin));
    const std::string tag = "\"" + hash_of(bytes).substr(0, 32) + "\"";
    response.headers = {{"etag", tag},
                        {"cache-control", "no-cache"},
                        {"content-security-policy",
                         "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                         "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
                        {"x-content-type-options", "nosniff"},
                        {"referrer-policy", "no-referrer"}};
    response.content_type = file.type;
    if (request.header("if-none-match") == tag) {
        response.status = 304;
        return response;
    }
    response.body = bytes;
    return response;
}

}  // namespace

std::string Page::make_code(Instant now) {
    const std::string code = api::make_secret();
    const std::lock_guard lock(mutex_);
    std::erase_if(codes_, [&](const auto& each) { return each.second < now; });
    if (codes_.size() < logins_max) codes_[hash_of(code)] = now + code_life;
    return code;
}

std::optional<net::Response> Page::answer(const net::Request& request, Instant now) {
    if (request.method != net::Method::get && request.method != net::Method::head) return std::nullopt;
    if (request.path == "/login") return log_in(request.query, request.secure, now);
    for (const File& file : files) {
        if (request.path == file.path) return serve(file, request);
    }
    return std::nullopt;
}

std::optional<net::Response> Page::log_in(std::string_view query, bool secure, Instant now) {
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

std::optional<api::Caller> Page::caller(std::string_view cookies) const {
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
