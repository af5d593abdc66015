// What a request's body says about what it may cost, and the few changes that metering makes to it.
//
//   (1) `input_bytes` is at least the number of tokens that a byte-level tokenizer makes of what the body says in text.
//   (2) A body that two readers could understand differently (a key twice in an object that is looked at, not UTF-8,
//       not one JSON object) is refused: what is metered is what is forwarded.
//   (3) edited() changes nothing but what Edits names; every other byte goes on as it came.
//
// What is not understood errs on the dear side: an unknown type of tool may run the model again, an unknown member is
// text. What a client's own tools take and give is opaque: nothing in it is taken for an image or a reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect.h"

namespace interlock::gateway {

// A part of the body: [begin, end). Empty: it is not there.
struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool empty() const { return begin == end; }
};

enum class CacheWrite { none, five_minutes, one_hour };

// What stands in the body up to some point.
struct Counted {
    std::int64_t input_bytes = 0;  // Invariant (1). Bytes of images, audio and files are not in it.
    std::int64_t images = 0;       // Inline or by address.
    std::int64_t files = 0;        // Documents, audio, video: whatever is neither text nor image.
    std::int64_t file_bytes = 0;   // Of those that are in the body (base64 as it stands there).

    friend bool operator==(const Counted&, const Counted&) = default;
};

struct Ask {
    std::string model = {};
    bool stream = false;
    bool wants_usage = false;                     // A chat that streams and asked for its usage itself.
    std::optional<std::int64_t> output_max = {};  // Tokens of output per choice, as the client limits them.
    std::int64_t choices = 1;                     // n, candidateCount.
    std::int64_t input_bytes = 0;                 // Invariant (1). Bytes of images, audio and files are not in it.
    std::int64_t images = 0;                      // Inline or by address.
    std::int64_t files = 0;                       // Documents, audio, video: whatever is neither text nor image.
    std::int64_t file_bytes = 0;                  // Of those that are in the body (base64 as it stands there).
    bool input_elsewhere = false;                 // Part of the input is not in the body: previous_response_id, …
    std::int64_t rounds = 1;                      // How often the model may run within this call: server-side tools.
    bool rounds_unbounded = false;                // Nobody said how often.
    std::int64_t paid_tools_max = 0;              // How many uses of tools that are billed by the use may come.
    bool background = false;                      // The answer comes later, elsewhere: cannot be metered.
    CacheWrite cache_write = CacheWrite::none;    // The dearest kind that the body can cause.
    bool audio_output = false;
    std::int64_t prediction_bytes = 0;  // A chat's `prediction`: what of it is rejected is billed as output.
    std::string service_tier = {};      // As stated: "flex", "priority", "fast", …; empty: not stated.
    std::string user = {};              // What the client calls its conversation (metadata.user_id, …).
    // Where in the body each message ends: offsets, rising. What comes before one of these is what a provider's cache,
    // and our anchors, can know again. Tools and system may stand behind the messages: that is sound, as long as
    // everything behind the boundary is counted by its bytes. It can only count too much.
    std::vector<std::size_t> boundaries = {};
    std::vector<Counted> counted = {};  // Up to each boundary.

    // Where edits go.
    Span model_at = {};              // The string with its quotes.
    Span output_max_at = {};         // The number, or null.
    Span stream_options_at = {};     // The object with its braces, or null.
    Span include_usage_at = {};      // The value.
    Span generation_config_at = {};  // Gemini: the object with its braces, or null.
    Span thinking_budget_at = {};    // Anthropic: the number.
    std::int64_t thinking_budget = 0;
};

// The error is a sentence for the client.
Result<Ask, std::string> read_ask(const Route& route, std::string_view body);

struct Edits {
    // Set to this, whether it was stated or not. Anthropic refuses a budget for thinking that is not below it, so such
    // a budget is lowered with it.
    std::optional<std::int64_t> output_max = {};
    bool include_usage = false;             // A chat that streams: have the provider say its usage.
    std::optional<std::string> model = {};  // What the upstream calls it.
};
std::string edited(const Route& route, std::string_view body, const Ask& ask, const Edits& edits);
// The target with another model in it, for Gemini.
std::string edited_target(const Route& route, const std::string& model);

// ---- for sessions that keep what was said ---------------------------------------------------------------------------

struct Said {
    std::string role;     // user, assistant, system, tool
    std::string content;  // Text, or JSON where it is more than text.
};
// What is new in this request: the messages behind the last one of the assistant's.
std::vector<Said> new_messages(const Route& route, std::string_view body, std::size_t bytes_max);

}  // namespace interlock::gateway
