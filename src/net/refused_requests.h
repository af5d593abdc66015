// Requests that are refused, for tests: what they are, and with which status. The parser gets them whole and byte by
// byte; the server gets them through a socket.
#pragma once

#include <string>
#include <vector>

namespace interlock::net {

struct RefusedRequest {
    std::string what;
    std::string text;
    int status = 400;
};

inline std::vector<RefusedRequest> refused_requests() {
    using namespace std::string_literals;
    const auto get = [](const std::string& target) { return "GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n"; };
    const auto with = [](const std::string& lines) { return "POST / HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n"; };
    const auto chunks = [&](const std::string& body) { return with("Transfer-Encoding: chunked\r\n") + body; };
    std::string many_headers;
    for (int i = 0; i < 101; ++i) many_headers += "x" + std::to_string(i) + ": y\r\n";

    return {
        // Which length?
        {"length and coding", with("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n"},
        {"coding and length", with("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n") + "0\r\n\r\n"},
        {"two different lengths", with("Content-Length: 3\r\nContent-Length: 4\r\n") + "abcd"},
        {"the same length twice", with("Content-Length: 3\r\nContent-Length: 3\r\n") + "abc"},
        {"a list of lengths", with("Content-Length: 3, 3\r\n") + "abc"},
        {"an empty length", with("Content-Length: \r\n")},
        {"a length with a sign", with("Content-Length: +3\r\n") + "abc"},
        {"a negative length", with("Content-Length: -3\r\n") + "abc"},
        {"a hexadecimal length", with("Content-Length: 0x3\r\n") + "abc"},
        {"a length with a fraction", with("Content-Length: 3.0\r\n") + "abc"},
        {"a length with a space inside", with("Content-Length: 3 3\r\n") + "abc"},
        {"a length past 64 bits", with("Content-Length: 99999999999999999999\r\n")},
        {"an unknown coding", with("Transfer-Encoding: gzip\r\n"), 501},
        {"the coding identity", with("Transfer-Encoding: identity\r\n"), 501},
        {"a coding before chunked", with("Transfer-Encoding: gzip, chunked\r\n") + "0\r\n\r\n", 501},
        {"chunked twice in one header", with("Transfer-Encoding: chunked, chunked\r\n") + "0\r\n\r\n", 501},
        {"chunked in two headers", with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n"},
        {"an unknown coding with a length", with("Transfer-Encoding: xchunked\r\nContent-Length: 3\r\n") + "abc", 501},
        {"a coding hidden by a control character", with("Transfer-Encoding: \vchunked\r\n") + "0\r\n\r\n"},
        {"chunked in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},

        // Where does it end?
        {"bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n"},
        {"bare LF after a header", "GET / HTTP/1.1\r\nHost: a\n\r\n"},
        {"bare LF everywhere", "GET / HTTP/1.1\nHost: a\n\n"},
        {"bare CR in a value", with("x: a\rb\r\n")},
        {"bare CR in the request line", "GET /\r HTTP/1.1\r\nHost: a\r\n\r\n"},
        {"a folded header", with("x: a\r\n b\r\n")},
        {"a header folded with a tab", with("x: a\r\n\tb\r\n")},
        {"a folded length", with("Content-Length:\r\n 3\r\n") + "abc"},
        {"a first header that begins with a space", "GET / HTTP/1.1\r\n Host: a\r\n\r\n"},
        {"an empty line first", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"},

        // Headers.
        {"NUL in a value", with("x: a\0b\r\n"s)},
        {"NUL in a name", with("x\0y: a\r\n"s)},
        {"a control character in a value", with("x: a\x01"
                                                "b\r\n")},
        {"DEL in a value", with("x: a\x7F"
                                "b\r\n")},
        {"a space before the colon", with("x : a\r\n")},
        {"a tab before the colon", with("x\t: a\r\n")},
        {"a space before the colon of the length", with("Content-Length : 3\r\n") + "abc"},
        {"an empty name", with(": a\r\n")},
        {"a line without a colon", with("hello\r\n")},
        {"a name that is no token", with("x(y): a\r\n")},
        {"too many headers", with(many_headers), 431},
        {"a header that is too large", with("x: " + std::string(17'000, 'a') + "\r\n"), 431},
        {"headers that are too large together",
         with("x: " + std::string(9'000, 'a') + "\r\ny: " + std::string(9'000, 'a') + "\r\n"), 431},
        {"headers without an end", "GET / HTTP/1.1\r\nHost: a\r\nx: " + std::string(17'000, 'a'), 431},
        {"two types", with("Content-Type: a/b\r\nContent-Type: a/c\r\n")},
        {"two authorizations", with("Authorization: a\r\nAuthorization: b\r\n")},
        {"two keys", with("X-Api-Key: a\r\nx-api-key: a\r\n")},
        {"two types", with("Content-Type: application/json\r\ncontent-type: text/plain\r\n")},
        {"two idempotency keys", with("Idempotency-Key: a\r\nIDEMPOTENCY-KEY: b\r\n")},
        {"two runs", with("x-interlock-run: run_a\r\nX-Interlock-Run: run_b\r\n")},
        {"a parameter twice", get("/a?key=1&b=2&key=1")},
        {"a parameter twice, once encoded", get("/a?key=1&k%65y=2")},
        {"a parameter twice, without values", get("/a?b&b")},
        {"two origins", with("Origin: http://a\r\nOrigin: http://b\r\n")},
        {"an unknown expectation", with("Expect: a-pony\r\n"), 417},

        // Host.
        {"no Host", "GET / HTTP/1.1\r\n\r\n"},
        {"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"},
        {"an empty Host", "GET / HTTP/1.1\r\nHost: \r\n\r\n"},
        {"a Host with a user", "GET / HTTP/1.1\r\nHost: b@a\r\n\r\n"},
        {"a Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
        {"a Host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
        {"a list of Hosts", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"},
        {"a Host with a bad port", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"},
        {"a Host with half a bracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"},

        // The request line.
        {"an absolute target", get("http://a/")},
        {"an authority as target", get("a:80")},
        {"a star as target", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"},
        {"a target without a slash", get("index.html")},
        {"a fragment", get("/a#b")},
        {"a fragment after a query", get("/a?b#c")},
        {"an unfinished percent", get("/a%")},
        {"half a percent", get("/a%2")},
        {"a percent that is no number", get("/a%zz")},
        {"a bad percent in the query", get("/a?b=%g0")},
        {"an encoded NUL", get("/a%00")},
        {"an encoded NUL in the query", get("/a?b=%00")},
        {"a byte past ASCII", get("/\xC3\xA4")},
        {"a backslash in the path", get("/a\\b")},
        {"a quote in the path", get("/a\"b")},
        {"NUL in the target", get("/a\0b"s)},
        {"a space in the target", get("/a b")},
        {"two spaces before the target", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {"two spaces before the version", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"},
        {"a space after the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"},
        {"a tab instead of a space", "GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n"},
        {"no version", "GET /\r\n\r\n"},
        {"no target", "GET\r\n\r\n"},
        {"a target that is too long", get("/" + std::string(9'000, 'a')), 414},
        {"a request line without an end", "GET /" + std::string(9'000, 'a'), 414},
        {"an unknown method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
        {"CONNECT", "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
        {"TRACE", "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
        {"a method in lower case", "get / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {"HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505},
        {"HTTP/2.0", "PRI / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"HTTP/0.9", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505},
        {"a version in lower case", "GET / http/1.1\r\nHost: a\r\n\r\n"},
        {"a version that is none", "GET / HTTP/x.1\r\nHost: a\r\n\r\n"},
        {"the start of TLS", "\x16\x03\x01\x02" + std::string(100, '\x01')},

        // Bodies.
        {"a length past the limit", with("Content-Length: 33554433\r\n"), 413},
        {"a chunk past the limit", chunks("2000001\r\n"), 413},
        {"a chunk past 64 bits", chunks("fffffffffffffffff\r\n")},
        {"a chunk without a size", chunks("\r\nabc\r\n")},
        {"a chunk with a sign", chunks("+3\r\nabc\r\n0\r\n\r\n")},
        {"a chunk with a prefix", chunks("0x3\r\nabc\r\n0\r\n\r\n")},
        {"a chunk with a space first", chunks(" 3\r\nabc\r\n0\r\n\r\n")},
        {"a chunk that is longer than it says", chunks("3\r\nabcd\r\n0\r\n\r\n")},
        {"a chunk's size that ends with LF", chunks("3\nabc\r\n0\r\n\r\n")},
        {"a chunk that ends with LF", chunks("3\r\nabc\n0\r\n\r\n")},
        {"a line break in a quoted extension", chunks("3;a=\"\n\"\r\nabc\r\n0\r\n\r\n")},
        {"a control character in an extension", chunks("3;a=\"\x01\"\r\nabc\r\n0\r\n\r\n")},
        {"a chunk's size without an end", chunks(std::string(2'000, '0'))},
        {"an extension without an end", chunks("3;a=" + std::string(2'000, 'b'))},
        {"a trailer", chunks("3\r\nabc\r\n0\r\nx: y\r\n\r\n")},
        {"a trailer that is a length", chunks("3\r\nabc\r\n0\r\nContent-Length: 3\r\n\r\n")},
    };
}

}  // namespace interlock::net
