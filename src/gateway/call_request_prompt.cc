// Which members of a request, besides its messages, decide how many tokens its prompt is. What is not listed may decide
// it in a way that is not known here, and may cut or replace messages: then no count of a beginning is used.
#include <algorithm>
#include <array>

#include "gateway/call_request_reader.h"

namespace interlock::gateway {
namespace {

// They say how an answer is made, sent or paid, and nothing that a model reads.
constexpr std::array<std::string_view, 28> of_the_answer{"model",
                                                         "max_tokens",
                                                         "max_completion_tokens",
                                                         "max_output_tokens",
                                                         "stream",
                                                         "stream_options",
                                                         "temperature",
                                                         "top_p",
                                                         "top_k",
                                                         "stop",
                                                         "stop_sequences",
                                                         "seed",
                                                         "user",
                                                         "metadata",
                                                         "n",
                                                         "logit_bias",
                                                         "logprobs",
                                                         "top_logprobs",
                                                         "presence_penalty",
                                                         "frequency_penalty",
                                                         "store",
                                                         "prompt_cache_key",
                                                         "prompt_cache_retention",
                                                         "safety_identifier",
                                                         "service_tier",
                                                         "prediction",
                                                         "cache_control",
                                                         "labels"};

// A model reads them, or they change what it reads of the messages, in the same way each time.
constexpr std::array<std::string_view, 29> of_the_prompt{"system",
                                                         "tools",
                                                         "tool_choice",
                                                         "thinking",
                                                         "output_config",
                                                         "output_format",
                                                         "functions",
                                                         "function_call",
                                                         "response_format",
                                                         "reasoning_effort",
                                                         "reasoning",
                                                         "verbosity",
                                                         "text",
                                                         "instructions",
                                                         "parallel_tool_calls",
                                                         "include",
                                                         "modalities",
                                                         "audio",
                                                         "systemInstruction",
                                                         "system_instruction",
                                                         "toolConfig",
                                                         "tool_config",
                                                         "generationConfig",
                                                         "generation_config",
                                                         "safetySettings",
                                                         "safety_settings",
                                                         "max_tool_calls",
                                                         "speed",
                                                         "inference_geo"};

}  // namespace

void CallRequestReader::note_for_prompt(std::string_view key, Span member, std::string_view value) {
    const bool cuts_nothing = key == "truncation" && (value == "null" || value == "\"disabled\"");
    const bool is_conversation = !traits_.messages_member.empty() && key == traits_.messages_member;
    if (is_conversation || cuts_nothing || std::ranges::find(of_the_answer, key) != of_the_answer.end()) {
        return;
    }
    if (std::ranges::find(of_the_prompt, key) == of_the_prompt.end()) {
        request_.count_varies = true;
    } else {
        request_.prompt_members.push_back(member);
    }
}

}  // namespace interlock::gateway
