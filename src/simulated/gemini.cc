// Gemini: generateContent and its stream.
#include "simulated/answer.h"

namespace interlock::simulated {
namespace {

using std::string_view;

// In a stream every chunk has it, with what there is so far: the last one counts.
std::string gemini_usage(const SimulatedUsage& usage, std::int64_t output, std::int64_t thoughts) {
    const auto optional = [](string_view name, std::int64_t tokens) {
        return tokens == 0 ? std::string() : fill(R"(,"$":$)", {name, tokens});
    };
    const std::string audio_in =
        usage.audio_in == 0 ? std::string() : fill(R"(,{"modality":"AUDIO","tokenCount":$})", {usage.audio_in});
    const std::string output_details =
        usage.audio_out == 0
            ? std::string()
            : fill(R"(,"candidatesTokensDetails":[{"modality":"AUDIO","tokenCount":$}])", {usage.audio_out});
    return fill(
        R"({"promptTokenCount":$,"candidatesTokenCount":$,"totalTokenCount":$$$,)"
        R"("promptTokensDetails":[{"modality":"TEXT","tokenCount":$}$]$})",
        {usage.input, output, usage.input + output + thoughts, optional("cachedContentTokenCount", usage.cached),
         optional("thoughtsTokenCount", thoughts), usage.input - usage.audio_in, audio_in, output_details});
}

string_view gemini_finish_reason(const SimulatedAnswer& answer) {
    return answer.reached_cap && answer.tool.empty() ? "MAX_TOKENS" : "STOP";
}

std::string call_part(const SimulatedAnswer& answer) {
    return fill(R"({"functionCall":{"name":$,"args":$}})", {json_string(answer.tool), answer.tool_args});
}

std::string gemini_text_part(string_view text) { return fill(R"({"text":$})", {json_string(text)}); }

enum class Finished { no, yes };

std::string searches_of(const SimulatedAnswer& answer) {
    if (answer.usage.searches == 0) return {};
    std::string queries;
    for (std::int64_t i = 0; i < answer.usage.searches; ++i) queries += queries.empty() ? R"("sim")" : R"(,"sim")";
    return fill(R"(,"groundingMetadata":{"webSearchQueries":[$]})", {queries});
}

std::string candidate(const SimulatedAnswer& answer, string_view part, std::int64_t index, Finished finished) {
    return fill(
        R"({"content":{"parts":[$],"role":"model"}$,"index":$$})",
        {part,
         finished == Finished::yes ? fill(R"(,"finishReason":"$")", {gemini_finish_reason(answer)}) : std::string(),
         index, finished == Finished::yes ? searches_of(answer) : std::string()});
}

std::string response(const SimulatedAnswer& answer, string_view candidates, std::int64_t output,
                     std::int64_t thoughts) {
    return fill(
        R"({"candidates":[$]$,"modelVersion":$,"responseId":"sim-$"})",
        {candidates,
         answer.tells_usage ? R"(,"usageMetadata":)" + gemini_usage(answer.usage, output, thoughts) : std::string(),
         answer.model, answer.id});
}

}  // namespace

std::string generate_answer(const SimulatedAnswer& answer) {
    const std::string part = answer.tool.empty() ? gemini_text_part(answer.text) : call_part(answer);
    std::string candidates;
    for (std::int64_t i = 0; i < answer.choices; ++i) {
        candidates += (i == 0 ? "" : ",") + candidate(answer, part, i, Finished::yes);
    }
    return response(answer, candidates, answer.usage.output - answer.usage.reasoning, answer.usage.reasoning);
}

SimulatedStream generate_stream(const SimulatedAnswer& answer, GeminiForm form) {
    std::vector<std::string> parts;
    if (answer.tool.empty()) {
        for (const string_view text : parts_of(answer.text, answer.chunks)) parts.push_back(gemini_text_part(text));
    } else {
        parts.push_back(call_part(answer));
    }
    if (parts.empty()) parts.push_back(gemini_text_part(""));

    SimulatedStream stream;
    const std::int64_t output = answer.usage.output - answer.usage.reasoning;
    const auto count = static_cast<std::int64_t>(parts.size());
    for (std::int64_t i = 1; i <= count; ++i) {
        std::string candidates;
        for (std::int64_t choice = 0; choice < answer.choices; ++choice) {
            candidates += (choice == 0 ? "" : ",") + candidate(answer, parts[static_cast<std::size_t>(i - 1)], choice,
                                                               i == count ? Finished::yes : Finished::no);
        }
        const std::string json = response(answer, candidates, output * i / count, answer.usage.reasoning);
        if (form == GeminiForm::events) {
            stream.add_content(fill("data: $\r\n\r\n", {json}));
        } else {
            stream.add_content(fill("$$", {i == 1 ? "[" : ",\r\n", json}));
        }
    }
    if (form == GeminiForm::array) stream.add("]");
    return stream;
}

}  // namespace interlock::simulated
