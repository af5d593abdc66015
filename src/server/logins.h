// How a browser logs in to the page, and how it is known from then on.
//
//   (1) A login is somebody's key: it may do what the key may, sees what the key sees, and ends when the key is
//       revoked.
//   (2) It has two halves, and one without the other opens nothing. One is a cookie that scripts cannot read; browsers
//       send it to every port of the machine. The other is a secret that the page keeps in the storage of its origin,
//       which is of this port alone, and sends as a header. In the cookie are the key's id, its end after 12 hours, the
//       secret's hash and a MAC by this server's secret. Nothing is stored, so that a restart ends no login.
//   (3) A code lets one browser in, once, within ten minutes, as the key it was made for. Where the page of another
//   site
//       opened the link, a person confirms it first.
//   (4) Whoever tries keys that are none is made to wait.
//
// A login that was ended by its browser is remembered as long as the process lives: a copy of its cookie is good again
// after a restart. What ends for good is revoking the key.
//
// May be used by several threads at once.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "api/key_ring.h"
#include "base/instant.h"
#include "base/log.h"
#include "net/http.h"

namespace interlock::net {
class WorkerPool;
}

namespace interlock::server {

class Logins {
 public:
    struct Options {
        std::string secret;  // The same one: the same logins.
        const api::KeyRing& keys;
        // Reads keys that another node may have made; empty where there is no other. Blocks.
        std::function<void()> refresh_keys = {};
        net::WorkerPool& workers;
        std::function<Instant()> now;
        Log& log;
    };
    static constexpr std::chrono::hours life{12};
    static constexpr std::string_view secret_header = "x-interlock-login";
    static constexpr std::chrono::minutes code_life{10};
    static constexpr std::size_t codes_of_a_key_max = 10;  // Beyond these the oldest is good no more.
    static constexpr int wrong_keys_per_second_max = 10;

    explicit Logins(Options options);

    std::string make_code(const std::string& key_id);
    // GET and POST of /login, POST of /logout. Nothing when the request is for something else.
    std::optional<net::Task<net::Response>> answer(net::Request& request);
    // The caller that a browser's cookies and the page's secret log in together; nothing: none.
    std::optional<api::Principal> caller(const net::Request& request) const;

    // What answer() gives, for each of these.
    net::Response log_in_by_code(const net::Request& request);
    net::Task<net::Response> log_in_by_form(net::Request request);  // With a key, or a code that was confirmed.
    net::Response log_out(const net::Request& request);

 private:
    struct Code {
        std::string key_id;
        Instant until;
    };
    struct Login {
        std::string_view key_id;
        Instant until;
        std::string_view secret_hash;
        std::string_view mac;
    };
    std::optional<net::Response> redeem(const net::Request& request, std::string_view code);
    net::Task<net::Response> log_in_by_key(net::Request request);
    // The first that is in force, with any secret or with the secret of this hash.
    std::optional<Login> login_of(std::string_view cookies, std::string_view secret_hash = {}) const;
    std::optional<Login> parse(std::string_view cookie) const;
    net::Response welcome(const net::Request& request, const std::string& key_id, int status);
    std::string cookie_line(const net::Request& request, std::string_view value, std::chrono::seconds age) const;
    bool may_try_a_key();

    Options options_;
    std::string mac_key_;
    std::string cookie_name_;
    mutable std::mutex mutex_;
    std::map<std::string, Code> codes_;     // By the code's hash.
    std::map<std::string, Instant> ended_;  // By the login's MAC; until when it would have been good.
    std::chrono::steady_clock::time_point second_begun_;
    int tried_this_second_ = 0;
};

}  // namespace interlock::server
