// A request's target, whatever it is: what goes upstream has no prefix and no key of ours, and stays in the folder that
// was matched.
//
// The first byte of an input chooses the method and the headers; the rest is the target behind its first slash.
#include <array>

#include "base/ensure.h"
#include "gateway/call_request.h"
#include "gateway/dialect.h"
#include "gateway/refusal.h"

namespace {

using namespace interlock;
using namespace interlock::gateway;

net::Request request_of(std::uint8_t choice, std::string target) {
    constexpr std::array methods{net::Method::post, net::Method::get, net::Method::head, net::Method::delete_};
    net::Request request;
    request.method = methods[choice % methods.size()];
    const std::size_t question = target.find('?');
    request.path = target.substr(0, question);
    if (question != std::string::npos) request.query = target.substr(question + 1);
    request.target = std::move(target);
    if ((choice & 4u) != 0) request.headers.push_back({"anthropic-version", "2023-06-01"});
    if ((choice & 8u) != 0) request.headers.push_back({"x-goog-api-key", "k"});
    if ((choice & 16u) != 0) request.headers.push_back({"upgrade", "websocket"});
    return request;
}

void check_route(const ModelRoute& route, const net::Request& request) {
    ensure(route.target.starts_with("/v1/") || route.target.starts_with("/v1beta/"), "a provider's path");
    ensure(request.target.size() + 3 >= route.target.size(), "nothing is added but a version");
    const std::size_t question = std::min(route.target.find('?'), route.target.size());
    const std::string_view path = std::string_view(route.target).substr(0, question);
    ensure(path.find("..") == std::string_view::npos && path.find("//") == std::string_view::npos, "no way out");
    ensure(net::path_segments(path).has_value(), "beyond doubt");
    for (std::string_view query = std::string_view(route.target).substr(question); !query.empty();) {
        query.remove_prefix(1);
        const std::size_t end = std::min(query.find('&'), query.size());
        const std::string_view member = query.substr(0, end);
        ensure(member != "key" && !member.starts_with("key="), "no key goes on");
        query.remove_prefix(end);
    }
    if (route.format == ApiFormat::gemini && !route.model.empty()) {
        const std::string other = route.dialect().target_for(route, "other-model");
        net::Request again = request_of(0, other);
        again.method = request.method;
        const auto routed = route_of(again);
        ensure(routed && routed->route, "another model's target is a route");
        ensure(route.format != routed->route->format || routed->route->model == "other-model", "the model is new");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const net::Request request =
        request_of(data[0], "/" + std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
    const auto routed = route_of(request);
    if (!routed) return 0;
    if (routed->route) {
        check_route(*routed->route, request);
    } else {
        const net::Response response = refusal(routed->why_not, "call_1");
        ensure(response.status == 404 || response.status == 405 || response.status == 426, "a status of its own");
        ensure(!response.body.empty(), "a refusal says why");
    }
    return 0;
}
