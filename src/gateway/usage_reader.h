// Reads the JSON of answers: a whole one, or the events of one that streams, one after another. What providers call
// things is in usage_reader.cc and nowhere else; how a stream is cut into events is in usage_stream.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "gateway/json_reader.h"
#include "gateway/usage.h"

namespace interlock::gateway {

class UsageReader {
 public:
    UsageReader(Operation operation, KeepText keep) : operation_(operation), keep_(keep) {}

    void whole(std::string_view body);
    // The data of one event. True: it is a chat's chunk that has usage and nothing else.
    bool event(std::string_view data);

    const Metered& metered() const { return metered_; }
    Metered& metered() { return metered_; }
    bool ended() const { return ended_; }

 private:
    // Anthropic's counts as the provider says them, each as it was said last.
    struct Counts {
        std::int64_t input = 0;
        std::int64_t output = 0;
        std::int64_t cache_read = 0;
        std::int64_t cache_write = 0;  // Of either length.
        std::int64_t cache_write_1h = 0;
        bool input_said = false;
        bool output_said = false;
    };

    bool matters(std::string_view data) const;
    // A count. Nothing where it is no whole number; one that cannot be is marked.
    std::optional<std::int64_t> tokens(JsonReader& json);

    bool chat(JsonReader& json);
    void chat_choices(JsonReader& json, bool& any);
    void openai_usage(JsonReader& json);
    void responses(JsonReader& json);
    void responses_member(JsonReader& json, std::string_view key);
    enum class PaidItem { no, tool, image };
    PaidItem paid_item(JsonReader& json);
    void messages(JsonReader& json);
    void messages_member(JsonReader& json, std::string_view key);
    void anthropic_usage(JsonReader& json);
    void anthropic_counts(JsonReader& json, std::string_view key, Counts& counts);
    void generate(JsonReader& json);
    void gemini_candidate(JsonReader& json);
    void gemini_usage(JsonReader& json);

    void content(JsonReader& json);
    void say(std::string_view raw);
    void set_word(std::string& word, JsonReader& json);
    void set_output(std::int64_t all, std::int64_t reasoning, std::int64_t audio, std::int64_t image);
    void set_input(std::int64_t all, std::int64_t cached, std::int64_t written, std::int64_t audio);

    const Operation operation_;
    const KeepText keep_;
    Metered metered_;
    bool ended_ = false;
    bool any_event_ = false;
    bool gemini_counted_ = false;
    Counts counts_;
    Counts beside_;  // Runs of a model that the totals leave out.
};

}  // namespace interlock::gateway
