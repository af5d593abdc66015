#include "demo/client.h"

#include <charconv>

#include <fmt/format.h>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/money.h"

namespace interlock::demo {

DemoClient::DemoClient(const std::string& url, std::string key)
    : http_(*net::parse_url(url), {}), key_(std::move(key)) {}

Result<net::ClientResponse, std::string> DemoClient::send(net::Method method, std::string target,
                                                          const json::value& body, std::vector<net::Header> headers) {
    headers.push_back({"authorization", "Bearer " + key_});
    if (!body.is_null()) headers.push_back({"content-type", "application/json"});
    auto answer = http_.request(
        {method, std::move(target), std::move(headers), body.is_null() ? std::string() : json::serialize(body)});
    if (!answer) return fail(answer.error().detail);
    return std::move(*answer);
}

Result<json::value, std::string> DemoClient::ask(net::Method method, std::string target, const json::value& body) {
    const auto answer = send(method, target, body);
    if (!answer) return fail(answer.error());
    if (answer->status >= 300) return fail(fmt::format("{} answered {}: {}", target, answer->status, answer->body));
    return parsed(answer->body);
}

json::value parsed(const std::string& text) {
    boost::system::error_code error;
    json::value value = json::parse(text, error);
    return error ? json::value() : value;
}

std::string text_in(const json::value& object, const char* member) {
    const json::value* found = object.is_object() ? object.get_object().if_contains(member) : nullptr;
    return found != nullptr && found->is_string() ? std::string(found->get_string()) : std::string();
}

std::int64_t number_in(const json::value& object, const char* member) {
    const json::value* found = object.is_object() ? object.get_object().if_contains(member) : nullptr;
    return found != nullptr && found->is_int64() ? found->get_int64() : 0;
}

std::int64_t count_in(const json::value& object, const char* member) {
    const std::string text = text_in(object, member);
    std::int64_t count = 0;
    std::from_chars(text.data(), text.data() + text.size(), count);
    return count;
}

std::int64_t nanos_in(const json::value& object, const char* member) {
    return money_from_text(text_in(object, member)).value_or(Money()).nanos();
}

const json::array& items_in(const json::value& list) {
    static const json::array none;
    const json::value* found = list.is_object() ? list.get_object().if_contains("items") : nullptr;
    return found != nullptr && found->is_array() ? found->get_array() : none;
}

}  // namespace interlock::demo
