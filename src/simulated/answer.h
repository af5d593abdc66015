// What a simulated provider answers, and how each of its APIs puts it.
//
// The bodies are written by filling in shapes, not by building documents: the provider stands behind benchmarks, and
// must not be what they measure.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "simulated/request.h"

namespace interlock::simulated {

// What the provider's own books say. Parts as in Script.
struct SimulatedUsage {
    std::int64_t input = 0;
    std::int64_t cached = 0;
    std::int64_t cache_write = 0;
    std::int64_t cache_write_1h = 0;
    std::int64_t audio_in = 0;
    std::int64_t output = 0;  // Of all choices.
    std::int64_t reasoning = 0;
    std::int64_t audio_out = 0;
    std::int64_t searches = 0;
};

struct SimulatedAnswer {
    std::string id;              // Unique within the provider; each API puts its own letters before it.
    std::int64_t created = 0;    // Unix seconds.
    std::string model;           // As JSON.
    std::string text;            // Of each choice.
    std::string tool = {};       // When set, a call of it is the answer.
    std::string tool_args = {};  // JSON.
    bool reached_cap = false;    // It ends there because the request said so.
    std::int64_t choices = 1;
    std::int64_t chunks = 1;
    SimulatedUsage usage = {};
    bool tells_usage = true;
    bool include_usage = false;  // A chat that streams tells it only to clients that ask for it.
    std::string cost = {};       // JSON; empty: not stated.
};

// A streamed answer: what goes out in one write each.
struct SimulatedPiece {
    std::string bytes;
    bool content = false;  // Part of what the model says, and so worth waiting for.
};
class SimulatedStream {
 public:
    // Events that are no content go out together.
    void add(std::string_view bytes) {
        if (pieces_.empty() || pieces_.back().content) pieces_.emplace_back();
        pieces_.back().bytes.append(bytes);
    }
    void add_content(std::string bytes) { pieces_.push_back({.bytes = std::move(bytes), .content = true}); }
    std::vector<SimulatedPiece> take() { return std::move(pieces_); }

 private:
    std::vector<SimulatedPiece> pieces_;
};

std::string chat_answer(const SimulatedAnswer& answer);
SimulatedStream chat_stream(const SimulatedAnswer& answer);
std::string responses_answer(const SimulatedAnswer& answer);
SimulatedStream responses_stream(const SimulatedAnswer& answer);
std::string messages_answer(const SimulatedAnswer& answer);
SimulatedStream messages_stream(const SimulatedAnswer& answer);
std::string generate_answer(const SimulatedAnswer& answer);
enum class GeminiForm { events, array };
SimulatedStream generate_stream(const SimulatedAnswer& answer, GeminiForm form);
std::string embeddings_answer(const SimulatedAnswer& answer, const SimulatedRequest& call);
std::string count_answer(SimulatedDialect dialect, std::int64_t tokens);

// All models, or one. A model of any name is described.
std::string models_answer(const SimulatedRoute& route);

std::string error_answer(SimulatedDialect dialect, int status, std::string_view message, std::string_view id);

// ---- for those who write them ---------------------------------------------------------------------------------------

// What takes the place of a mark: text as it is, or a number.
class Filling {
 public:
    Filling(std::string_view text) : text_(text) {}
    Filling(const std::string& text) : text_(text) {}
    Filling(const char* text) : text_(text) {}
    Filling(std::int64_t number) {
        char* end = std::to_chars(digits_.data(), digits_.data() + digits_.size(), number).ptr;
        text_ = {digits_.data(), static_cast<std::size_t>(end - digits_.data())};
    }
    Filling(const Filling&) = delete;  // The text may be within.
    Filling& operator=(const Filling&) = delete;
    std::string_view text() const { return text_; }

 private:
    std::array<char, 20> digits_;
    std::string_view text_;
};

// Each $ of the shape is replaced by the next filling; there are as many of both.
std::string fill(std::string_view shape, std::initializer_list<Filling> fillings);
std::string json_string(std::string_view text);  // As JSON.
// Cuts a text into at most so many parts of about the same length, never within a character.
std::vector<std::string_view> parts_of(std::string_view text, std::int64_t count);

}  // namespace interlock::simulated
