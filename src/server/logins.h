// How a browser logs in to the page.
//
//   (1) A code from make_code() lets one browser in, once, within ten minutes.
//   (2) A browser is known by a cookie that scripts cannot read and other sites cannot send.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "api/key_ring.h"
#include "base/instant.h"
#include "net/http.h"

namespace interlock::server {

class Logins {
 public:
    std::string make_code(Instant now);
    // Nothing when the request is not about that.
    std::optional<net::Response> answer(const net::Request& request, Instant now);
    // Whoever holds the cookie of a login.
    std::optional<api::Caller> caller(std::string_view cookie) const;

 private:
    std::optional<net::Response> log_in(std::string_view query, bool secure, Instant now);

    static constexpr std::size_t logins_max = 1'000;
    mutable std::mutex mutex_;
    std::map<std::string, Instant> codes_;    // Hash of the code, and until when it is good.
    std::map<std::string, Instant> cookies_;  // Hash of the cookie.
};

}  // namespace interlock::server
