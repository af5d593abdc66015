// Anthropic: messages.
#include <algorithm>

#include "simulated/answer.h"

namespace interlock::simulated {
namespace {

using std::string_view;

// What was read from a cache or written to one is not among the input tokens here.
std::string anthropic_usage(const SimulatedUsage& usage, std::int64_t output) {
    const std::int64_t written = usage.cache_write + usage.cache_write_1h;
    return fill(
        R"({"input_tokens":$,"cache_creation_input_tokens":$,"cache_read_input_tokens":$,)"
        R"("cache_creation":{"ephemeral_5m_input_tokens":$,"ephemeral_1h_input_tokens":$},)"
        R"("output_tokens":$,"service_tier":"standard"$})",
        {usage.input - usage.cached - written, written, usage.cached, usage.cache_write, usage.cache_write_1h, output,
         usage.searches == 0
             ? std::string()
             : fill(R"(,"server_tool_use":{"web_search_requests":$,"web_fetch_requests":0})", {usage.searches})});
}

std::string usage_member(const SimulatedAnswer& answer, std::int64_t output) {
    return answer.tells_usage ? R"(,"usage":)" + anthropic_usage(answer.usage, output) : std::string();
}

string_view stop_reason(const SimulatedAnswer& answer) {
    if (!answer.tool.empty()) return "tool_use";
    return answer.reached_cap ? "max_tokens" : "end_turn";
}

std::string message(const SimulatedAnswer& answer, string_view content, string_view stop, string_view usage) {
    return fill(R"({"id":"msg_$","type":"message","role":"assistant","model":$,"content":[$],"stop_reason":$,)"
                R"("stop_sequence":null$})",
                {answer.id, answer.model, content, stop, usage});
}

std::string event(string_view name, string_view rest) {
    return fill("event: $\ndata: {\"type\":\"$\"$}\n\n", {name, name, rest});
}

std::string tool_block(const SimulatedAnswer& answer, string_view input) {
    return fill(R"({"type":"tool_use","id":"toolu_$","name":$,"input":$})",
                {answer.id, json_string(answer.tool), input});
}

}  // namespace

std::string messages_answer(const SimulatedAnswer& answer) {
    const std::string content = answer.tool.empty() ? fill(R"({"type":"text","text":$})", {json_string(answer.text)})
                                                    : tool_block(answer, answer.tool_args);
    return message(answer, content, json_string(stop_reason(answer)), usage_member(answer, answer.usage.output));
}

SimulatedStream messages_stream(const SimulatedAnswer& answer) {
    // The count of the output grows: the first one is of the token that is already there.
    const std::string begun =
        message(answer, "", "null", usage_member(answer, std::min<std::int64_t>(1, answer.usage.output)));
    const bool says_text = answer.tool.empty();
    const std::string block = says_text ? R"({"type":"text","text":""})" : tool_block(answer, "{}");
    const string_view delta = says_text ? R"(,"index":0,"delta":{"type":"text_delta","text":$})"
                                        : R"(,"index":0,"delta":{"type":"input_json_delta","partial_json":$})";

    SimulatedStream stream;
    stream.add(event("message_start", R"(,"message":)" + begun));
    stream.add(event("content_block_start", fill(R"(,"index":0,"content_block":$)", {block})));
    stream.add(event("ping", ""));
    for (const string_view part : parts_of(says_text ? answer.text : answer.tool_args, answer.chunks)) {
        stream.add_content(event("content_block_delta", fill(delta, {json_string(part)})));
    }
    stream.add(event("content_block_stop", R"(,"index":0)"));
    stream.add(event("message_delta", fill(R"(,"delta":{"stop_reason":"$","stop_sequence":null}$)",
                                           {stop_reason(answer), usage_member(answer, answer.usage.output)})));
    stream.add(event("message_stop", ""));
    return stream;
}

}  // namespace interlock::simulated
