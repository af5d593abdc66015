// How the simulated agents of a demo speak to its server: one key, one connection, JSON.
//
// Not for two threads at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/json/value.hpp>

#include "base/result.h"
#include "net/http_client.h"

namespace interlock::demo {

namespace json = boost::json;

class DemoClient {
 public:
    // The URL is a server's own.
    DemoClient(const std::string& url, std::string key);

    // Whatever was answered; the error is for people.
    Result<net::ClientResponse, std::string> send(net::Method method, std::string target, const json::value& body = {},
                                                  std::vector<net::Header> headers = {});
    // What a 2xx says. Any other answer is an error, for people.
    Result<json::value, std::string> ask(net::Method method, std::string target, const json::value& body = {});

    Result<json::value, std::string> get(std::string target) { return ask(net::Method::get, std::move(target)); }
    Result<json::value, std::string> put(std::string target, const json::value& body = json::object()) {
        return ask(net::Method::put, std::move(target), body);
    }
    Result<json::value, std::string> post(std::string target, const json::value& body = json::object()) {
        return ask(net::Method::post, std::move(target), body);
    }

 private:
    net::HttpClient http_;
    const std::string key_;
};

// Null where it is no JSON.
json::value parsed(const std::string& text);
// What a member of an object says; empty, or 0, where there is none of that kind.
std::string text_in(const json::value& object, const char* member);
std::int64_t number_in(const json::value& object, const char* member);
std::int64_t count_in(const json::value& object, const char* member);  // An amount of a budget that is a count,
std::int64_t nanos_in(const json::value& object, const char* member);  // and one in dollars.
// The items of a list; none where it is no list.
const json::array& items_in(const json::value& list);

}  // namespace interlock::demo
