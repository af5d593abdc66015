#include "server/logins.h"

#include <gtest/gtest.h>

#include "net/worker_pool.h"

namespace interlock::server {
namespace {

struct LoginsTest : testing::Test {
    LoginsTest() { keys.put(core::OrgId(7), row_of("0123456789ab")); }

    static core::ApiKey row_of(const std::string& id) {
        core::ApiKey row;
        row.id = id;
        row.scopes = {"read"};
        row.revoked_at = far_past;
        return row;
    }

    Logins make(std::string server_secret) {
        return Logins({.secret = std::move(server_secret),
                       .keys = keys,
                       .workers = workers,
                       .now = [this] { return now; },
                       .log = log});
    }

    // The cookie that a browser sends after it has opened the link; empty when it was not let in. The page keeps the
    // secret.
    std::string open(Logins& at, const std::string& code) {
        net::Request request;
        request.query = "code=" + code;
        const net::Response response = at.log_in_by_code(request);
        const std::string_view line = net::find_header(response.headers, "set-cookie");
        EXPECT_EQ(response.status, line.empty() ? 403 : 303);
        const std::string_view location = net::find_header(response.headers, "location");
        constexpr std::string_view fragment = "./#login=";
        EXPECT_EQ(location.starts_with(fragment), !line.empty());
        if (!line.empty()) secret = location.substr(fragment.size());
        return std::string(line.substr(0, line.find(';')));
    }

    static net::Request sent(std::string cookies, std::string with_secret) {
        net::Request request;
        request.headers = {{"cookie", std::move(cookies)}, {"x-interlock-login", std::move(with_secret)}};
        return request;
    }
    std::optional<api::Principal> caller(const Logins& at, std::string cookies) const {
        return at.caller(sent(std::move(cookies), secret));
    }

    std::string log_in(Logins& at) { return open(at, at.make_code("0123456789ab")); }

    std::string secret;  // Of the last login.
    Instant now = from_micros(1'800'000'000'000'000);
    api::KeyRing keys;
    net::WorkerPool workers{net::WorkerPool::Options{}};
    Log log{{.level_min = LogLevel::error,
             .format = LogFormat::text,
             .clock = [this] { return now; },
             .write = [](std::string_view) {}}};
    Logins logins = make("secret");
};

TEST_F(LoginsTest, a_login_is_the_key_it_was_made_with) {
    const std::string cookie = log_in(logins);
    const auto who = caller(logins, "other=1; " + cookie + "; more=2");

    ASSERT_TRUE(who.has_value());
    EXPECT_EQ(who->key_id, "0123456789ab");
    EXPECT_EQ(who->org, core::OrgId(7));
    EXPECT_EQ(who->most, api::Access::read);
    EXPECT_TRUE(who->by_cookie);
    EXPECT_EQ(who->until, now + Logins::life);
}

TEST_F(LoginsTest, neither_half_of_a_login_opens_anything_alone) {
    const std::string cookie = log_in(logins);
    const std::string first = secret;
    const std::string other = log_in(logins);

    EXPECT_FALSE(logins.caller(sent(cookie, "")));
    EXPECT_FALSE(logins.caller(sent("", first)));
    EXPECT_FALSE(logins.caller(sent(cookie, secret)));
    EXPECT_FALSE(logins.caller(sent(cookie, first + "0")));
    EXPECT_TRUE(logins.caller(sent(other + "; " + cookie, first)));
    EXPECT_EQ(cookie.find(first), std::string::npos);
}

TEST_F(LoginsTest, a_link_that_another_site_opened_is_confirmed_first) {
    const std::string code = logins.make_code("0123456789ab");
    for (const char* site : {"cross-site", "same-site"}) {
        net::Request request;
        request.query = "code=" + code;
        request.headers = {{"sec-fetch-site", site}};

        const net::Response asked = logins.log_in_by_code(request);

        EXPECT_EQ(asked.status, 200);
        EXPECT_EQ(net::find_header(asked.headers, "set-cookie"), "");
        EXPECT_EQ(net::find_header(asked.headers, "x-frame-options"), "DENY");
        EXPECT_NE(asked.body.find("value=\"" + code + "\""), std::string::npos);
        request.query = "code=\"><script>";
        EXPECT_EQ(logins.log_in_by_code(request).status, 403);
    }

    EXPECT_NE(open(logins, code), "");
}

TEST_F(LoginsTest, it_outlives_a_restart_but_another_server_does_not_know_it) {
    const std::string cookie = log_in(logins);

    EXPECT_TRUE(caller(make("secret"), cookie).has_value());
    EXPECT_FALSE(caller(make("another"), cookie).has_value());
    EXPECT_FALSE(caller(make("another"), cookie.substr(cookie.find('=') + 1)).has_value());
}

TEST_F(LoginsTest, two_servers_of_one_machine_have_cookies_of_their_own) {
    Logins other = make("another");
    const std::string one = log_in(logins);
    const std::string first = secret;
    const std::string both = one + "; " + log_in(other);

    EXPECT_TRUE(logins.caller(sent(both, first)));
    EXPECT_TRUE(caller(other, both).has_value());
}

TEST_F(LoginsTest, no_part_of_a_cookie_can_be_changed) {
    const std::string cookie = log_in(logins);
    keys.put(core::OrgId(1), row_of("0123456789ac"));

    for (std::size_t i = 0; i < cookie.size(); ++i) {
        std::string other = cookie;
        other[i] = other[i] == 'c' ? 'd' : 'c';
        EXPECT_FALSE(caller(logins, other).has_value()) << other;
        EXPECT_FALSE(caller(logins, cookie.substr(0, i)).has_value()) << i;
    }
    EXPECT_FALSE(caller(logins, "x" + cookie).has_value());
}

TEST_F(LoginsTest, a_cookie_of_the_same_name_from_elsewhere_is_not_in_the_way) {
    const std::string cookie = log_in(logins);
    const std::string name = cookie.substr(0, cookie.find('='));

    EXPECT_TRUE(caller(logins, name + "=x; " + name + "=; " + cookie).has_value());
}

TEST_F(LoginsTest, a_login_ends_after_its_hours_and_not_before) {
    const std::string cookie = log_in(logins);

    now += Logins::life - std::chrono::seconds(2);
    EXPECT_TRUE(caller(logins, cookie).has_value());
    now += std::chrono::seconds(2);
    EXPECT_FALSE(caller(logins, cookie).has_value());
}

TEST_F(LoginsTest, a_login_ends_with_its_key) {
    const std::string cookie = log_in(logins);
    const std::string code = logins.make_code("0123456789ab");
    keys.revoke("0123456789ab");

    EXPECT_FALSE(caller(logins, cookie).has_value());
    EXPECT_EQ(open(logins, code), "");
}

TEST_F(LoginsTest, logging_out_ends_one_login_and_no_other) {
    const std::string one = log_in(logins);
    const std::string first = secret;
    const std::string other = log_in(logins);
    net::Request request;
    request.headers = {{"cookie", one}};

    const net::Response response = logins.log_out(request);

    EXPECT_EQ(response.status, 204);
    EXPECT_NE(net::find_header(response.headers, "set-cookie").find("=; Path=/; Max-Age=0; "), std::string_view::npos);
    EXPECT_FALSE(logins.caller(sent(one, first)));
    EXPECT_TRUE(caller(logins, other).has_value());
}

TEST_F(LoginsTest, a_code_is_good_once_and_for_ten_minutes) {
    const std::string once = logins.make_code("0123456789ab");
    const std::string late = logins.make_code("0123456789ab");
    const std::string too_late = logins.make_code("0123456789ab");

    EXPECT_NE(open(logins, once), "");
    EXPECT_EQ(open(logins, once), "");
    now += Logins::code_life;
    EXPECT_NE(open(logins, late), "");
    now += Duration(1);
    EXPECT_EQ(open(logins, too_late), "");
    EXPECT_EQ(open(logins, ""), "");
}

TEST_F(LoginsTest, who_makes_many_codes_takes_none_from_others) {
    keys.put(core::OrgId(1), row_of("0123456789ac"));
    const std::string own = logins.make_code("0123456789ac");
    std::vector<std::string> codes;
    for (std::size_t i = 0; i <= Logins::codes_of_a_key_max; ++i) {
        now += Duration(1);
        codes.push_back(logins.make_code("0123456789ab"));
    }

    EXPECT_EQ(open(logins, codes.front()), "");
    EXPECT_NE(open(logins, codes[1]), "");
    EXPECT_NE(open(logins, codes.back()), "");
    EXPECT_NE(open(logins, own), "");
}

TEST_F(LoginsTest, who_is_in_and_opens_an_old_link_stays_in) {
    net::Request request;
    request.headers = {{"cookie", log_in(logins)}};
    request.query = "code=old";

    EXPECT_EQ(logins.log_in_by_code(request).status, 303);
}

TEST_F(LoginsTest, the_cookie_is_for_tls_alone_where_there_is_tls) {
    const auto line = [&](bool secure, std::string forwarded) {
        net::Request request;
        request.secure = secure;
        if (!forwarded.empty()) request.headers = {{"x-forwarded-proto", std::move(forwarded)}};
        request.query = "code=" + logins.make_code("0123456789ab");
        const net::Response response = logins.log_in_by_code(request);
        return std::string(net::find_header(response.headers, "set-cookie"));
    };

    EXPECT_TRUE(line(false, "").ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"));
    EXPECT_TRUE(line(true, "").ends_with("; HttpOnly; SameSite=Strict; Secure"));
    EXPECT_TRUE(line(false, "https").ends_with("; HttpOnly; SameSite=Strict; Secure"));
    EXPECT_TRUE(line(false, "http").ends_with("; HttpOnly; SameSite=Strict"));
}

}  // namespace
}  // namespace interlock::server
