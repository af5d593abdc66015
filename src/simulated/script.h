// What a simulated model provider does with one request: the directives that a test, or anybody's prompt, gives it.
//
//     x-sim: output=40;cached=100                      a header
//     Say hello. [[sim status=529 fail_times=2]]       in the last message of the user
//
// A directive that is not known, or whose value cannot be meant, is an error: a typing mistake in a test is not to pass
// for a provider that behaves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace interlock::simulated {

struct Script {
    // What is billed. All of `input` is the prompt, of which cached, written to a cache, and audio are parts; `output`
    // is what one choice has, of which reasoning and audio are parts. Each dialect states them in its own way.
    std::optional<std::int64_t> input = {};
    std::optional<std::int64_t> output = {};
    std::int64_t cached = 0;
    std::int64_t cache_write = 0;  // For five minutes.
    std::int64_t cache_write_1h = 0;
    std::int64_t audio_in = 0;
    std::int64_t reasoning = 0;
    std::int64_t audio_out = 0;
    std::int64_t searches = 0;
    std::int64_t exceed = 0;  // So many tokens more than the request's cap: a provider that breaks its word.
    std::string cost = {};    // In dollars, as OpenRouter states it beside the tokens.
    bool no_usage = false;

    // What is said.
    std::optional<std::string> text = {};
    std::string tool = {};  // Call this one, unless there is a result already.
    std::string tool_args = "{}";

    // How it comes.
    std::int64_t chunks = 4;
    std::int64_t delay_ms = 0;
    std::int64_t chunk_delay_ms = 0;
    std::optional<std::int64_t> cut_after = {};  // Pieces of a stream, or bytes of a whole answer.
    bool hang = false;

    // How it fails.
    int status = 0;
    std::int64_t retry_after = 0;
    std::int64_t fail_times = 0;  // 0: always.
    std::string fail_key = {};
};

inline constexpr std::int64_t simulated_tokens_max = 1'000'000;  // Of output, each of which is a word.
inline constexpr std::int64_t simulated_chunks_max = 100'000;    // Of all choices together.
inline constexpr std::size_t simulated_bytes_max = 8u << 20;     // That are said, of all choices together.
inline constexpr std::int64_t simulated_wait_ms_max = 120'000;

enum class ScriptForm {
    header,  // key=value;key=value
    prompt,  // key=value key=value
};

// Changes what `text` names. Values may be "quoted", and JSON in braces keeps its blanks. The error is a sentence.
Result<void, std::string> read_script(std::string_view text, ScriptForm form, Script& script);

// What stands in the last [[sim …]] of a prompt; nothing where there is none.
std::optional<std::string_view> find_script(std::string_view prompt);

inline constexpr std::string_view script_begin = "[[sim ";

}  // namespace interlock::simulated
