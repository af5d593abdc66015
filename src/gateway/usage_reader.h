// Reads the JSON of answers: a whole one, or the events of one that streams, one after another. How a provider calls
// things is known to the class of its dialect, which derives from this one in gateway/dialects/. How a stream is cut
// into events is in usage_stream.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "gateway/json_reader.h"
#include "gateway/usage.h"

namespace interlock::gateway {

class UsageReader {
 public:
    explicit UsageReader(KeepText keep) : keep_(keep) {}
    virtual ~UsageReader() = default;

    void whole(std::string_view body);
    // The data of one event. True: it has usage and nothing else, as the last event of a chat may.
    bool event(std::string_view data);

    const Metered& metered() const { return metered_; }
    Metered& metered() { return metered_; }
    bool ended() const { return ended_; }

 protected:
    // More than any call has used; sums of a few of them fit.
    static constexpr std::int64_t metered_tokens_max = 1'000'000'000'000;

    // The object of a whole answer, and that of one event, which was checked to be JSON.
    virtual void read_whole(JsonReader& json) = 0;
    virtual bool read_event(JsonReader& json) = 0;
    // False: such an event has nothing in it that is metered.
    virtual bool matters(std::string_view data) const = 0;

    bool is_streamed() const { return any_event_; }
    // A count. Nothing where it is no whole number; one that cannot be is marked.
    std::optional<std::int64_t> tokens(JsonReader& json);
    // What the provider says that the call costs.
    void stated_cost(JsonReader& json);
    // Text, or a list of parts that have text. Thoughts are marked, and are not kept.
    void content(JsonReader& json);
    void keep_text(std::string_view raw);
    void set_word(std::string& word, JsonReader& json);
    void set_output(std::int64_t all, std::int64_t reasoning, std::int64_t audio, std::int64_t image);
    void set_input(std::int64_t all, std::int64_t cached, std::int64_t written, std::int64_t audio);

    Metered metered_;
    bool ended_ = false;

 private:
    const KeepText keep_;
    bool any_event_ = false;
};

// ---- for those who derive from it -----------------------------------------------------------------------------------

template <class OnMember>
void each_member(JsonReader& json, OnMember&& on_member) {
    if (json.kind() == JsonKind::object)
        json.each_member(on_member);
    else
        json.skip();
}

template <class OnElement>
void each_element(JsonReader& json, OnElement&& on_element) {
    if (json.kind() == JsonKind::array)
        json.each_element(on_element);
    else
        json.skip();
}

// As string_view::find, which looks at every quote of a JSON text by itself.
std::size_t find_bytes(std::string_view data, std::string_view bytes, std::size_t from);
// Whether a member of that name has a value that begins so. The name comes with its quotes, which no string within a
// string has, so what a model says cannot be taken for a member.
bool has_member(std::string_view data, std::string_view quoted_name, char first);

}  // namespace interlock::gateway
