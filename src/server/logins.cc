#include "server/logins.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/strict_json.h"
#include "net/origin.h"
#include "net/worker_pool.h"
#include "server/keyed_hash.h"

namespace interlock::server {
namespace {

constexpr std::size_t codes_max = 1'000;
constexpr std::size_t ended_max = 10'000;

std::string hash_of(std::string_view secret) { return to_hex(sha256(secret)); }

bool same_in_constant_time(std::string_view a, std::string_view b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

template <class Map, class TimeOf>
void erase_oldest(Map& map, TimeOf time_of) {
    const auto oldest = std::ranges::min_element(map, {}, [&](const auto& each) { return time_of(each.second); });
    if (oldest != map.end()) map.erase(oldest);
}

constexpr std::size_t form_bytes_max = 4096;

// A member of a form, as it was written.
std::optional<std::string> form_member(const net::Request& request, std::string_view name) {
    const auto pairs = net::query_pairs(request.body);
    if (!pairs) return std::nullopt;
    const auto found = std::ranges::find(*pairs, name, &std::pair<std::string, std::string>::first);
    return found == pairs->end() ? std::nullopt : std::optional(found->second);
}

bool is_json(const net::Request& request) { return request.header("content-type").starts_with("application/json"); }

// The key in {"key":"ilk_…"} or key=ilk_…, without the blanks that come with copying. Nothing where there is none.
std::optional<std::string> key_in(const net::Request& request) {
    std::optional<std::string> key;
    if (is_json(request)) {
        const auto body = parse_strict_json(request.body);
        if (!body || !body->is_object()) return std::nullopt;
        const auto* member = body->get_object().if_contains("key");
        if (member != nullptr && member->is_string()) key = member->get_string();
    } else {
        key = form_member(request, "key");
    }
    if (!key) return std::nullopt;
    const std::size_t begin = std::min(key->find_first_not_of(" \t\r\n"), key->size());
    const std::size_t end = key->find_last_not_of(" \t\r\n") + 1;
    return key->substr(begin, end - std::min(begin, end));
}

// Its secret goes behind the #, which no server is told of. The page takes it from there.
net::Response to_the_page(int status, std::string_view secret = {}) {
    net::Response response;
    response.status = status;
    response.headers = {{"cache-control", "no-store"}, {"referrer-policy", "no-referrer"}};
    // Beside /login, whatever a proxy has put before it.
    if (status == 303)
        response.headers.push_back({"location", secret.empty() ? "./" : fmt::format("./#login={}", secret)});
    return response;
}

bool is_code(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// For a link that the page of another site opened. It could be the link of its own key.
net::Response confirmation(std::string_view code) {
    net::Response response = to_the_page(200);
    response.content_type = "text/html; charset=utf-8";
    response.headers.push_back(
        {"content-security-policy", "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"});
    response.headers.push_back({"x-frame-options", "DENY"});
    response.headers.push_back({"x-content-type-options", "nosniff"});
    response.body = fmt::format(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Log in to Interlock</title>\n"
        "<h1>Log in to Interlock</h1>\n"
        "<p>Another site opened this login link. Log in only if you created the link yourself, with: "
        "<code>interlock login</code></p>\n"
        "<form method=\"post\" action=\"login\"><input type=\"hidden\" name=\"code\" value=\"{}\">"
        "<button>Log in</button></form>\n",
        code);
    return response;
}

net::Response of_another_site() {
    return net::problem(403, "origin_not_allowed", "requests from pages of another site are not allowed");
}

net::Task<net::Response> ready(net::Response response) { co_return response; }

}  // namespace

// A name of its own for each secret: cookies do not tell ports apart, and two servers on one machine must not end each
// other's logins.
Logins::Logins(Options options)
    : options_(std::move(options)),
      mac_key_(keyed_hash(options_.secret, "logins of browsers")),
      cookie_name_("interlock_" + to_hex(keyed_hash(options_.secret, "name of the cookie")).substr(0, 8)) {}

std::string Logins::make_code(const std::string& key_id) {
    const std::string code = api::make_secret();
    const Instant now = options_.now();
    const auto until = [](const Code& each) { return each.until; };
    const std::lock_guard lock(mutex_);
    std::erase_if(codes_, [&](const auto& each) { return each.second.until < now; });
    std::vector<std::map<std::string, Code>::iterator> own;
    for (auto each = codes_.begin(); each != codes_.end(); ++each) {
        if (each->second.key_id == key_id) own.push_back(each);
    }
    if (own.size() >= codes_of_a_key_max) {
        codes_.erase(*std::ranges::min_element(own, {}, [&](auto each) { return until(each->second); }));
    } else if (codes_.size() >= codes_max) {
        erase_oldest(codes_, until);
    }
    codes_[hash_of(code)] = {key_id, now + code_life};
    return code;
}

std::optional<net::Task<net::Response>> Logins::answer(net::Request& request) {
    if (request.path == "/login") {
        if (request.method == net::Method::get) return ready(log_in_by_code(request));
        if (request.method == net::Method::post) return log_in_by_form(std::move(request));
    }
    if (request.path == "/logout" && request.method == net::Method::post) return ready(log_out(request));
    return std::nullopt;
}

net::Response Logins::log_in_by_code(const net::Request& request) {
    constexpr std::string_view parameter = "code=";
    const std::string_view query = request.query;
    const std::string_view code = query.starts_with(parameter) ? query.substr(parameter.size()) : "";
    const bool confirmed = net::sent_by(request) != net::SentBy::another_site;
    if (!confirmed && is_code(code)) return confirmation(code);
    if (auto entered = redeem(request, code)) return std::move(*entered);
    // Who opens a link again from the terminal is in already.
    if (login_of(request.header("cookie"))) return to_the_page(303);
    net::Response response = to_the_page(403);
    response.content_type = "text/plain; charset=utf-8";
    response.body = "This login link is used or expired. Create another with: interlock login\n";
    return response;
}

// Each code is good once, whether or not it leads to a login.
std::optional<net::Response> Logins::redeem(const net::Request& request, std::string_view code) {
    const std::string hash = hash_of(code);
    std::string key_id;
    {
        const std::lock_guard lock(mutex_);
        const auto found = codes_.find(hash);
        if (found != codes_.end()) {
            if (options_.now() <= found->second.until) key_id = found->second.key_id;
            codes_.erase(found);
        }
    }
    if (key_id.empty() || !options_.keys.in_force(key_id)) return std::nullopt;
    return welcome(request, key_id, 303);
}

net::Task<net::Response> Logins::log_in_by_form(net::Request request) {
    if (net::sent_by(request) == net::SentBy::another_site) return ready(of_another_site());
    if (request.body.size() > form_bytes_max)
        return ready(net::problem(413, "payload_too_large", "the body is too large for a key or a code"));
    const auto code = is_json(request) ? std::nullopt : form_member(request, "code");
    if (!code) return log_in_by_key(std::move(request));
    request.query = "code=" + *code;
    return ready(log_in_by_code(request));
}

net::Task<net::Response> Logins::log_in_by_key(net::Request request) {
    const auto key = key_in(request);
    if (!key)
        co_return net::problem(400, "invalid_request",
                               "the key is missing; send {\"key\": \"ilk_…\"}, or key=ilk_… as a form");
    if (!may_try_a_key()) {
        net::Response response = net::problem(429, "too_many_wrong_keys", "too many wrong keys; retry in a second");
        response.headers.push_back({"retry-after", "1"});
        co_return response;
    }
    auto caller = options_.keys.find(*key);
    if (!caller && options_.refresh_keys) {
        co_await net::run_on(options_.workers, options_.refresh_keys);
        caller = options_.keys.find(*key);
    }
    if (!caller) {
        options_.log.warn("login_refused", {{"peer", request.peer}});
        co_return net::problem(403, "key_not_known",
                               "the API key is unknown or revoked; create another with: interlock keys create");
    }
    {
        const std::lock_guard lock(mutex_);
        --tried_this_second_;
    }
    co_return welcome(request, caller->key_id, is_json(request) ? 200 : 303);
}

net::Response Logins::log_out(const net::Request& request) {
    if (net::sent_by(request) == net::SentBy::another_site) return of_another_site();
    if (const auto login = login_of(request.header("cookie"))) {
        const Instant now = options_.now();
        const std::lock_guard lock(mutex_);
        std::erase_if(ended_, [&](const auto& each) { return each.second < now; });
        if (ended_.size() >= ended_max) erase_oldest(ended_, [](Instant until) { return until; });
        ended_[std::string(login->mac)] = login->until;
    }
    net::Response response = to_the_page(204);
    response.headers.push_back({"set-cookie", cookie_line(request, "", std::chrono::seconds(0))});
    return response;
}

std::optional<api::Principal> Logins::caller(const net::Request& request) const {
    const auto login = login_of(request.header("cookie"), hash_of(request.header(secret_header)));
    if (!login) return std::nullopt;
    auto caller = options_.keys.holder_of(login->key_id);
    if (!caller) return std::nullopt;
    caller->by_cookie = true;
    caller->until = login->until;
    return caller;
}

// "a=1; interlock_0a1b2c3d=…; b=2". Another site of the same machine may have set one of that name too.
std::optional<Logins::Login> Logins::login_of(std::string_view cookies, std::string_view secret_hash) const {
    while (!cookies.empty()) {
        std::string_view each = cookies.substr(0, cookies.find(';'));
        cookies.remove_prefix(std::min(cookies.size(), each.size() + 1));
        each.remove_prefix(std::min(each.find_first_not_of(' '), each.size()));
        if (!each.starts_with(cookie_name_) || !each.substr(cookie_name_.size()).starts_with('=')) continue;
        const auto login = parse(each.substr(cookie_name_.size() + 1));
        if (!login || login->until <= options_.now()) continue;
        if (!secret_hash.empty() && !same_in_constant_time(login->secret_hash, secret_hash)) continue;
        const std::lock_guard lock(mutex_);
        if (!ended_.contains(std::string(login->mac))) return login;
    }
    return std::nullopt;
}

// <key id>.<seconds since 1970>.<hash of the page's secret>.<MAC of what comes before>
std::optional<Logins::Login> Logins::parse(std::string_view cookie) const {
    const std::size_t dot = cookie.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    const std::string_view said = cookie.substr(0, dot);
    const std::string_view mac = cookie.substr(dot + 1);
    if (!same_in_constant_time(mac, to_hex(keyed_hash(mac_key_, said)))) return std::nullopt;
    const std::string_view key_id = said.substr(0, said.find('.'));
    const std::string_view until = said.substr(std::min(said.size(), key_id.size() + 1));
    std::int64_t seconds = 0;
    std::from_chars(until.data(), until.data() + until.size(), seconds);
    return Login{key_id, Instant(std::chrono::seconds(seconds)), said.substr(said.rfind('.') + 1), mac};
}

net::Response Logins::welcome(const net::Request& request, const std::string& key_id, int status) {
    const auto until = std::chrono::floor<std::chrono::seconds>(options_.now() + life);
    const std::string secret = api::make_secret();
    const std::string said = fmt::format("{}.{}.{}", key_id, until.time_since_epoch().count(), hash_of(secret));
    const std::string cookie = said + "." + to_hex(keyed_hash(mac_key_, said));
    net::Response response = to_the_page(status, secret);
    if (status == 200) {
        response.content_type = "application/json";
        response.body = fmt::format("{{\"secret\":\"{}\"}}", secret);
    }
    response.headers.push_back({"set-cookie", cookie_line(request, cookie, life)});
    options_.log.info("logged_in", {{"key", key_id}, {"peer", request.peer}});
    return response;
}

std::string Logins::cookie_line(const net::Request& request, std::string_view value, std::chrono::seconds age) const {
    // What a proxy says is taken from anybody: who lies gets a cookie that is of no use to them.
    const bool secure = request.secure || request.header("x-forwarded-proto") == "https";
    return fmt::format("{}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{}", cookie_name_, value, age.count(),
                       secure ? "; Secure" : "");
}

// Counted before the key is looked at, and taken back when it was one: so many at once find no gap.
bool Logins::may_try_a_key() {
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    if (now - second_begun_ >= std::chrono::seconds(1)) {
        second_begun_ = now;
        tried_this_second_ = 0;
    }
    if (tried_this_second_ >= wrong_keys_per_second_max) return false;
    ++tried_this_second_;
    return true;
}

}  // namespace interlock::server
