// What a request's body says about what it may cost, and the few changes that metering makes to it.
//
//   (1) `input_bytes` is at least the number of tokens that a byte-level tokenizer makes of what the body says in text.
//   (2) A body that two readers could understand differently (a key twice in an object that is looked at, not UTF-8,
//       not one JSON object) is refused: what is metered is what is forwarded.
//   (3) edited() changes nothing but what Edits names; every other byte goes on as it came. What it makes passes the
//       rules of (2): a member that it sets is there once.
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
#include "gateway/body_edit.h"
#include "gateway/model_route.h"

namespace interlock::gateway {

struct ToolAt {
    std::size_t brace = 0;  // Where its object begins.
    MemberAt max_uses = {};
};

enum class CacheWrite { none, five_minutes, one_hour };

// What stands in the body up to some point.
struct Counted {
    std::int64_t input_bytes = 0;  // Invariant (1). Bytes of images, audio and files are not in it.
    std::int64_t images = 0;       // Inline or by address.
    std::int64_t files = 0;        // Documents, audio, video: all that is neither text nor image.
    std::int64_t file_bytes = 0;   // Of those that are in the body (base64 as it stands there).

    friend bool operator==(const Counted&, const Counted&) = default;
};

struct CallRequest {
    std::string model = {};
    bool stream = false;
    bool makes_output = true;                     // False for embeddings, which are input only.
    bool wants_usage = false;                     // A chat that streams and asked for its usage itself.
    std::optional<std::int64_t> output_max = {};  // Tokens of output per choice, as the client limits them.
    std::int64_t choices = 1;                     // n, candidateCount.
    std::int64_t input_bytes = 0;                 // Invariant (1). Bytes of images, audio and files are not in it.
    std::int64_t images = 0;                      // Inline or by address.
    std::int64_t files = 0;                       // Documents, audio, video: all that is neither text nor image.
    std::int64_t file_bytes = 0;                  // Of those that are in the body (base64 as it stands there).
    bool input_elsewhere = false;                 // Part of the input is not in the body: previous_response_id, …
    std::int64_t rounds = 1;                      // How often the model may run within this call: server-side tools.
    bool rounds_unbounded = false;                // The request does not say how often.
    // Nothing that can be sent bounds the rounds: tools that know no such member.
    bool rounds_untold = false;
    std::int64_t rounds_by_provider = 0;        // The provider ends its own loop after so many; 0: it says no number.
    bool image_tool = false;                    // A tool that makes images.
    bool image_output = false;                  // The model itself makes images.
    std::int64_t paid_tools_max = 0;            // How many uses of tools that are billed by the use may come.
    bool background = false;                    // The answer comes later, elsewhere: cannot be metered.
    CacheWrite cache_write = CacheWrite::none;  // The dearest kind that the body can cause.
    bool audio_output = false;
    std::int64_t prediction_bytes = 0;  // A chat's `prediction`: what of it is rejected is billed as output.
    std::string service_tier = {};      // As stated: "flex", "priority", "fast", …; empty: not stated.
    std::string user = {};              // What the client calls its conversation (metadata.user_id, …).
    // The messages: where their array begins, where each of them ends (offsets, rising), and what stands in the body up
    // to each of these. What begins a conversation is what a provider's cache, and prefix_token_cache.h, can know
    // again.
    std::size_t messages_begin = 0;
    std::vector<std::size_t> boundaries = {};
    std::vector<Counted> counted = {};
    // The other members that may decide how many tokens the prompt is, as they stand there.
    std::vector<Span> prompt_members = {};
    // A prompt that only begins like this one may be counted otherwise: something is fetched, cut or replaced before
    // the model reads it, or a member is not known here. No count of its beginning is used.
    bool count_varies = false;

    // Where edits go.
    Span model_at = {};               // The string with its quotes.
    MemberAt output_max_at = {};      // Its value is a number or null.
    MemberAt output_max_2_at = {};    // The limit under its other name; at most one of the two is a number.
    MemberAt tool_calls_max_at = {};  // OpenAI's responses: a number or null.
    MemberAt stream_options_at = {};  // Its value is an object or null.
    MemberAt include_usage_at = {};
    MemberAt generation_config_at = {};  // Gemini: an object or null.
    // Anthropic: tools that run at the provider, know a bound of their own, and have none in this body.
    std::vector<ToolAt> unbounded_tools_at = {};
    Span thinking_budget_at = {};  // Anthropic: the number.
    std::int64_t thinking_budget = 0;
};

// The error is a sentence for the client.
Result<CallRequest, std::string> read_call_request(const ModelRoute& route, std::string_view body);

struct Edits {
    // Goes out once and under this name, whether and however it was stated. Anthropic refuses a budget for thinking
    // that is not below the limit, so such a budget is lowered with it.
    std::optional<std::int64_t> output_max = {};
    std::string limit_name = "max_completion_tokens";  // Of a chat. The other operations know one name each.
    std::optional<std::int64_t> tool_calls_max = {};   // OpenAI's responses: how often tools may run.
    std::optional<std::int64_t> tool_uses_max = {};    // Anthropic: of each tool that has no bound of its own.
    bool include_usage = false;                        // A chat that streams: have the provider say its usage.
    std::optional<std::string> model = {};             // What the upstream calls it.
};
std::string edited(const ModelRoute& route, std::string_view body, const CallRequest& request, const Edits& edits);

// ---- for sessions that keep what was said ---------------------------------------------------------------------------

struct ChatMessage {
    std::string role;     // user, assistant, system, tool
    std::string content;  // Text, or JSON where it is more than text.
};
// What is new in this request: the messages behind the last one of the assistant's.
std::vector<ChatMessage> new_messages(const ModelRoute& route, std::string_view body, std::size_t bytes_max);

}  // namespace interlock::gateway
