// What a provider says was used, read from its answer: whole, or while it streams by.
//
//   (1) Kinds of tokens are disjoint, as base/price.h has them, whatever the provider's own way of counting is.
//   (2) A StreamMeter gives the same result however its bytes are cut into pieces.
//   (3) What is passed on is what came, but for the one chunk that we asked for and the client did not.
//   (4) Nothing in an answer can make the reader fail, loop or grow without bound: what it does not understand it
//       passes on, and `reported` stays false.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/money.h"
#include "base/price.h"
#include "gateway/model_route.h"

namespace interlock::gateway {

struct Metered {
    Usage usage = {};
    std::int64_t audio_input_tokens = 0;   // Of usage.input_tokens, priced on their own.
    std::int64_t audio_output_tokens = 0;  // Of usage.output_tokens.
    std::int64_t image_output_tokens = 0;  // Of usage.output_tokens.
    std::int64_t paid_tools = 0;           // Uses of tools that are billed by the use,
    std::int64_t images_made = 0;          // and of tools that make an image with each use.
    std::int64_t prompt_tokens = 0;        // All of the input as the model saw it, cached or not: decides the tier.
    bool input_reported = false;           // The input's kinds are the provider's word.
    bool reported = false;                 // All of it is: the last word on this call.
    bool impossible = false;               // A count is below zero, or beyond all that can be counted.
    std::string model = {};                // What the provider says has answered.
    std::string service_tier = {};
    std::string inference_geo = {};  // Where it ran, where that has a price of its own.
    std::string finish = {};         // Why the model stopped: stop, length, tool_use, …
    // What the provider says that it costs, where it does. The greater of this and our own is booked (prices.h), and
    // the receipt keeps it.
    std::optional<Money> stated_cost = {};
    std::string text = {};  // What the model said, where it is to be kept; UTF-8.
};

enum class KeepText { no, yes };
constexpr std::size_t kept_text_bytes_max = 1u << 20;

// Whether the provider says that the model did not come to an end of its own.
inline bool has_failed(const Metered& metered) { return metered.finish == "error" || metered.finish == "failed"; }

// Of a whole body.
Metered read_usage(const ModelRoute& route, std::string_view body, KeepText keep);

class StreamMeter {
 public:
    // Of one event or line. What is longer is passed on unread.
    static constexpr std::size_t event_bytes_max = 16u << 20;

    // `strip_usage`: the client did not ask for the chunk of usage that a chat ends with. Events are then passed on
    // whole, each as soon as its last byte is there.
    StreamMeter(const ModelRoute& route, bool strip_usage, KeepText keep);
    ~StreamMeter();
    StreamMeter(StreamMeter&&) noexcept;

    // What goes on to the client: the piece itself, or a part of it, or a buffer that lasts until the next call.
    std::string_view feed(std::string_view piece);
    // Nothing more comes. What was held back; a last event counts without the blank line that ends it.
    std::string_view finish();

    const Metered& metered() const;
    // The dialect's own end was seen: [DONE], message_stop, response.completed, a finish reason, an error.
    bool ended() const;
    // What was passed on ends where another event may begin.
    bool between_events() const;

 private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace interlock::gateway
