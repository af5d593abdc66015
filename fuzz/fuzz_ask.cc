// A request's body, whatever it is: read_ask() and edited() do not fall over, and what is accepted stays valid JSON
// through every edit and reads back as it was meant.
//
// The first byte of an input chooses the API: c, r, m, g, and e for anything else.
#include <boost/json.hpp>

#include "base/ensure.h"
#include "fuzz/routes.h"
#include "gateway/ask.h"

namespace {

using namespace interlock::gateway;

bool is_json(std::string_view text) {
    boost::json::parse_options options;
    options.max_depth = 1'000;
    boost::system::error_code error;
    boost::json::parse(text, error, {}, options);
    return !error;
}

void check_counts(const Ask& ask, std::string_view body) {
    ensure(ask.input_bytes >= 0 && ask.input_bytes <= static_cast<std::int64_t>(body.size()), "bytes of the body");
    ensure(ask.counted.size() == ask.boundaries.size(), "counted up to each boundary");
    ensure(ask.rounds >= 1 && ask.choices >= 1 && ask.output_max.value_or(1) >= 1, "counts begin at one");
    std::size_t last = 0;
    std::int64_t last_bytes = 0;
    for (std::size_t i = 0; i < ask.boundaries.size(); ++i) {
        ensure(ask.boundaries[i] > last && ask.boundaries[i] < body.size(), "boundaries rise");
        ensure(ask.counted[i].input_bytes >= last_bytes && ask.counted[i].input_bytes <= ask.input_bytes,
               "counts rise");
        last = ask.boundaries[i];
        last_bytes = ask.counted[i].input_bytes;
    }
}

void check_edits(const Route& route, std::string_view body, const Ask& ask) {
    for (unsigned which = 0; which < 16; ++which) {
        Edits edits{.include_usage = (which & 1u) != 0};
        if ((which & 2u) != 0) edits.output_max = 4321;
        if ((which & 4u) != 0) edits.model = "other \"model\"";
        if ((which & 8u) != 0) edits.tool_calls_max = edits.tool_uses_max = 3;
        if ((which & 10u) == 10u) edits.limit_name = "max_tokens";
        const std::string result = edited(route, body, ask, edits);
        ensure(is_json(result), "an edited body is JSON");
        ensure(which != 0 || result == body, "nothing is changed that is not named");

        const auto again = read_ask(route, result);
        ensure(again.has_value(), "an edited body is accepted");
        ensure(again->boundaries.size() == ask.boundaries.size() && again->images == ask.images,
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
    const Route route = route_for(static_cast<char>(data[0]));
    const std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
    std::size_t kept = 0;
    for (const Said& said : new_messages(route, body, 100)) kept += said.content.size();
    ensure(kept <= 100, "what is kept has an end");
    const auto ask = read_ask(route, body);
    if (!ask) return 0;
    ensure(is_json(body), "what is accepted is JSON to others, too");
    check_counts(*ask, body);
    check_edits(route, body, *ask);
    return 0;
}
