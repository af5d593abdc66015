// Any bytes as a request's body: read_call_request() and edited() do not fall over, and what is accepted stays valid
// JSON through every edit and reads back as it was meant.
//
// The first byte of an input chooses the API: c, r, m, g, and e for anything else.
#include <boost/json.hpp>

#include "base/ensure.h"
#include "fuzz/routes.h"
#include "gateway/call_request.h"

namespace {

using namespace interlock::gateway;

bool is_json(std::string_view text) {
    boost::json::parse_options options;
    options.max_depth = 1'000;
    boost::system::error_code error;
    boost::json::parse(text, error, {}, options);
    return !error;
}

void check_counts(const CallRequest& request, std::string_view body) {
    ensure(request.input_bytes >= 0 && request.input_bytes <= static_cast<std::int64_t>(body.size()),
           "bytes of the body");
    ensure(request.counted.size() == request.boundaries.size(), "counted up to each boundary");
    ensure(request.rounds >= 1 && request.choices >= 1 && request.output_max.value_or(1) >= 1, "counts begin at one");
    std::size_t last = 0;
    std::int64_t last_bytes = 0;
    for (std::size_t i = 0; i < request.boundaries.size(); ++i) {
        ensure(request.boundaries[i] > last && request.boundaries[i] < body.size(), "boundaries rise");
        ensure(request.counted[i].input_bytes >= last_bytes && request.counted[i].input_bytes <= request.input_bytes,
               "counts rise");
        last = request.boundaries[i];
        last_bytes = request.counted[i].input_bytes;
    }
}

void check_edits(const ModelRoute& route, std::string_view body, const CallRequest& request) {
    for (unsigned which = 0; which < 16; ++which) {
        Edits edits{.include_usage = (which & 1u) != 0};
        if ((which & 2u) != 0) edits.output_max = 4321;
        if ((which & 4u) != 0) edits.model = "other \"model\"";
        if ((which & 8u) != 0) edits.tool_calls_max = edits.tool_uses_max = 3;
        if ((which & 10u) == 10u) edits.limit_name = "max_tokens";
        const std::string result = edited(route, body, request, edits);
        ensure(is_json(result), "an edited body is JSON");
        ensure(which != 0 || result == body, "nothing is changed that is not named");

        const auto again = read_call_request(route, result);
        ensure(again.has_value(), "an edited body is accepted");
        ensure(again->boundaries.size() == request.boundaries.size() && again->images == request.images,
               "the rest is the same");
        ensure(!edits.tool_uses_max || again->unbounded_tools_at.empty(), "every tool has a bound");
        if (route.operation == Operation::embeddings) continue;
        ensure(!edits.output_max || again->output_max == 4321, "the limit is the one that was put");
        ensure(!edits.include_usage || route.operation != Operation::chat || again->wants_usage, "usage is asked for");
        ensure(!edits.model || route.operation == Operation::generate || again->model == *edits.model,
               "the model is new");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const ModelRoute route = route_for(static_cast<char>(data[0]));
    const std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
    std::size_t kept = 0;
    for (const ChatMessage& said : new_messages(route, body, 100)) kept += said.content.size();
    ensure(kept <= 100, "what is kept has an end");
    const auto request = read_call_request(route, body);
    if (!request) return 0;
    ensure(is_json(body), "what is accepted is JSON to others, too");
    check_counts(*request, body);
    check_edits(route, body, *request);
    return 0;
}
