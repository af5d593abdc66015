// OpenAI: chat completions and embeddings. The responses API is in openai_responses.cc.
#include <bit>
#include <cstring>

#include "simulated/answer.h"

namespace interlock::simulated {
namespace {

using std::string_view;

std::string openai_usage(const SimulatedAnswer& answer) {
    const SimulatedUsage& usage = answer.usage;
    const std::int64_t written = usage.cache_write + usage.cache_write_1h;
    return fill(R"({"prompt_tokens":$,"completion_tokens":$,"total_tokens":$,)"
                R"("prompt_tokens_details":{"cached_tokens":$,"audio_tokens":$$},)"
                R"("completion_tokens_details":{"reasoning_tokens":$,"audio_tokens":$,)"
                R"("accepted_prediction_tokens":0,"rejected_prediction_tokens":0}$})",
                {usage.input, usage.output, usage.input + usage.output, usage.cached, usage.audio_in,
                 written == 0 ? std::string() : fill(R"(,"cache_write_tokens":$)", {written}), usage.reasoning,
                 usage.audio_out, answer.cost.empty() ? std::string() : fill(R"(,"cost":$)", {answer.cost})});
}

string_view openai_finish_reason(const SimulatedAnswer& answer) {
    if (!answer.tool.empty()) return "tool_calls";
    return answer.reached_cap ? "length" : "stop";
}

std::string call_id(const SimulatedAnswer& answer, std::int64_t choice) {
    return fill("call_$_$", {answer.id, choice});
}

std::string message_of(const SimulatedAnswer& answer, std::int64_t choice) {
    if (answer.tool.empty()) {
        return fill(R"({"role":"assistant","content":$,"refusal":null,"annotations":[]})", {json_string(answer.text)});
    }
    return fill(R"({"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":)"
                R"([{"id":"$","type":"function","function":{"name":$,"arguments":$}}]})",
                {call_id(answer, choice), json_string(answer.tool), json_string(answer.tool_args)});
}

// One event of a stream. A client that asked for usage gets the member in all of them.
std::string chunk(const SimulatedAnswer& answer, string_view choices, string_view usage) {
    const bool has_usage = answer.include_usage && answer.tells_usage;
    return fill(
        "data: "
        R"({"id":"chatcmpl-$","object":"chat.completion.chunk","created":$,"model":$,"service_tier":"default",)"
        R"("system_fingerprint":"fp_sim","choices":[$]$$})"
        "\n\n",
        {answer.id, answer.created, answer.model, choices, has_usage ? R"(,"usage":)" : "", has_usage ? usage : ""});
}

std::string choice_in_chunk(std::int64_t index, string_view delta, string_view finish_reason = "null") {
    return fill(R"({"index":$,"delta":$,"logprobs":null,"finish_reason":$})", {index, delta, finish_reason});
}

void add_text(const SimulatedAnswer& answer, std::int64_t choice, SimulatedStream& stream) {
    const string_view begin = R"({"role":"assistant","content":"","refusal":null})";
    stream.add(chunk(answer, choice_in_chunk(choice, begin), "null"));
    for (const string_view part : parts_of(answer.text, answer.chunks)) {
        const std::string delta = fill(R"({"content":$})", {json_string(part)});
        stream.add_content(chunk(answer, choice_in_chunk(choice, delta), "null"));
    }
}

void add_tool_call(const SimulatedAnswer& answer, std::int64_t choice, SimulatedStream& stream) {
    const std::string begin =
        fill(R"({"role":"assistant","content":null,"tool_calls":)"
             R"([{"index":0,"id":"$","type":"function","function":{"name":$,"arguments":""}}],"refusal":null})",
             {call_id(answer, choice), json_string(answer.tool)});
    stream.add(chunk(answer, choice_in_chunk(choice, begin), "null"));
    for (const string_view part : parts_of(answer.tool_args, answer.chunks)) {
        const std::string delta =
            fill(R"({"tool_calls":[{"index":0,"function":{"arguments":$}}]})", {json_string(part)});
        stream.add_content(chunk(answer, choice_in_chunk(choice, delta), "null"));
    }
}

}  // namespace

std::string chat_answer(const SimulatedAnswer& answer) {
    std::string choices;
    for (std::int64_t i = 0; i < answer.choices; ++i) {
        if (i > 0) choices.append(",");
        choices += fill(R"({"index":$,"message":$,"logprobs":null,"finish_reason":"$"})",
                        {i, message_of(answer, i), openai_finish_reason(answer)});
    }
    return fill(R"({"id":"chatcmpl-$","object":"chat.completion","created":$,"model":$,"choices":[$]$,)"
                R"("service_tier":"default","system_fingerprint":"fp_sim"})",
                {answer.id, answer.created, answer.model, choices,
                 answer.tells_usage ? R"(,"usage":)" + openai_usage(answer) : std::string()});
}

SimulatedStream chat_stream(const SimulatedAnswer& answer) {
    SimulatedStream stream;
    const std::string finish = json_string(openai_finish_reason(answer));
    for (std::int64_t i = 0; i < answer.choices; ++i) {
        if (answer.tool.empty()) {
            add_text(answer, i, stream);
        } else {
            add_tool_call(answer, i, stream);
        }
        stream.add(chunk(answer, choice_in_chunk(i, "{}", finish), "null"));
    }
    if (answer.include_usage && answer.tells_usage) stream.add(chunk(answer, "", openai_usage(answer)));
    stream.add("data: [DONE]\n\n");
    return stream;
}

// ---- embeddings -----------------------------------------------------------------------------------------------------

namespace {

std::string base64_of(const std::vector<float>& vector) {
    static_assert(std::endian::native == std::endian::little, "as they are in memory, so clients expect them");
    static constexpr string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::vector<unsigned char> bytes(vector.size() * sizeof(float));
    std::memcpy(bytes.data(), vector.data(), bytes.size());
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const auto byte = [&](std::size_t at) { return at < bytes.size() ? std::uint32_t{bytes[at]} : 0u; };
        const std::uint32_t three = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
        const std::size_t here = std::min<std::size_t>(3, bytes.size() - i);
        for (std::size_t digit = 0; digit < 4; ++digit) {
            text.push_back(digit <= here ? digits[three >> (18 - 6 * digit) & 63] : '=');
        }
    }
    return text;
}

// A unit vector along one axis: exact in every format, and another one for each of the inputs.
std::string vector_of(std::int64_t input, const SimulatedRequest& call) {
    std::vector<float> vector(static_cast<std::size_t>(call.dimensions));
    vector[static_cast<std::size_t>(input) % vector.size()] = 1;
    if (call.base64) return json_string(base64_of(vector));
    std::string text = "[";
    for (const float number : vector) text.append(text.size() == 1 ? "" : ",").append(number == 0 ? "0.0" : "1.0");
    return text.append("]");
}

}  // namespace

std::string embeddings_answer(const SimulatedAnswer& answer, const SimulatedRequest& call) {
    std::string data;
    for (std::int64_t i = 0; i < call.inputs; ++i) {
        if (i > 0) data.append(",");
        data += fill(R"({"object":"embedding","index":$,"embedding":$})", {i, vector_of(i, call)});
    }
    const std::int64_t input = answer.usage.input;
    return fill(R"({"object":"list","data":[$],"model":$$})",
                {data, answer.model,
                 answer.tells_usage ? fill(R"(,"usage":{"prompt_tokens":$,"total_tokens":$})", {input, input})
                                    : std::string()});
}

}  // namespace interlock::simulated
