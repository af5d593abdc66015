#include "gateway/usage_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include <simdjson.h>

namespace interlock::gateway {
namespace {

constexpr std::size_t word_bytes_max = 128;

// Where the value of a member of that name begins, at or behind `from`.
std::size_t find_member(std::string_view data, std::string_view quoted_name, std::size_t from = 0) {
    constexpr std::string_view blank = " \t\r\n";
    while ((from = find_bytes(data, quoted_name, from)) != std::string_view::npos) {
        from += quoted_name.size();
        const std::size_t colon = data.find_first_not_of(blank, from);
        if (colon == std::string_view::npos || data[colon] != ':') continue;
        return data.find_first_not_of(blank, colon + 1);
    }
    return from;
}

// Dollars as a provider's program prints them: with an exponent where they are small, and with more digits than anybody
// has charged. To the nearest nano-dollar.
std::optional<Money> stated_money(std::string_view number) {
    std::string digits;
    int places = 9;
    std::size_t i = 0;
    for (bool behind_point = false; i < number.size() && number[i] != 'e' && number[i] != 'E'; ++i) {
        if (number[i] == '.') {
            behind_point = true;
        } else if (number[i] >= '0' && number[i] <= '9') {
            digits.push_back(number[i]);
            places -= behind_point ? 1 : 0;
        } else {
            return std::nullopt;
        }
    }
    if (i < number.size()) {
        std::string_view exponent = number.substr(i + 1);
        if (exponent.starts_with('+')) exponent.remove_prefix(1);
        int power = 0;
        const auto [end, error] = std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
        if (error != std::errc() || end != exponent.data() + exponent.size()) return std::nullopt;
        places += std::clamp(power, -1000, 1000);
    }
    bool up = false;
    for (; places < 0 && !digits.empty(); ++places) {
        up = digits.back() >= '5';
        digits.pop_back();
    }
    if (places < 0) up = false;
    for (; places > 0 && digits.size() < 32; --places) digits.push_back('0');
    std::int64_t nanos = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), nanos);
    if (!digits.empty() && error != std::errc()) return std::nullopt;
    return checked_sum(Money::nanos(nanos), Money::nanos(up ? 1 : 0));
}

}  // namespace

void UsageReader::whole(std::string_view body) {
    JsonReader valid(body);
    valid.skip();
    if (!valid.finished()) return;
    JsonReader json(body);
    if (json.kind() == JsonKind::object) read_whole(json);
}

bool UsageReader::event(std::string_view data) {
    if (data == "[DONE]") {
        ended_ = true;
        return false;
    }
    // The first event names the model. Most of the others are a few words, and nothing is to be read in them.
    const bool first = !std::exchange(any_event_, true);
    if (!first && keep_ == KeepText::no && !matters(data)) return false;
    JsonReader valid(data);
    valid.skip();
    if (!valid.finished()) return false;

    JsonReader json(data);
    return json.kind() == JsonKind::object && read_event(json);
}

std::optional<std::int64_t> UsageReader::tokens(JsonReader& json) {
    const auto number = json.whole_number();
    if (!number) return std::nullopt;
    metered_.impossible = metered_.impossible || *number < 0 || *number > metered_tokens_max;
    return std::clamp<std::int64_t>(*number, 0, metered_tokens_max);
}

void UsageReader::stated_cost(JsonReader& json) {
    metered_.stated_cost = stated_money(json.skip());
    metered_.impossible = metered_.impossible || !metered_.stated_cost;
}

void UsageReader::set_word(std::string& word, JsonReader& json) {
    const auto text = json.string(word_bytes_max);
    if (text && simdjson::validate_utf8(text->data(), text->size())) word = *text;
}

void UsageReader::keep_text(std::string_view raw) {
    if (keep_ == KeepText::no) return;
    const std::string text = decoded(raw, kept_text_bytes_max - metered_.text.size());
    if (simdjson::validate_utf8(text.data(), text.size())) metered_.text.append(text);
}

void UsageReader::content(JsonReader& json) {
    if (json.kind() == JsonKind::string) return keep_text(json.raw_string().value_or(""));
    each_element(json, [&] {
        std::string_view text;
        bool thought = false;
        each_member(json, [&](std::string_view key) {
            if (key == "text")
                text = json.raw_string().value_or("");
            else if (key == "thought")
                thought = json.boolean().value_or(false);
        });
        if (!thought) keep_text(text);
    });
}

// Kinds that are parts of another are cut to it, so that the sum is always the provider's.
void UsageReader::set_input(std::int64_t all, std::int64_t cached, std::int64_t written, std::int64_t audio) {
    metered_.prompt_tokens = all;
    metered_.usage.cache_read_tokens = std::min(cached, all);
    metered_.usage.cache_write_5m_tokens = std::min(written, all - metered_.usage.cache_read_tokens);
    metered_.usage.input_tokens = all - metered_.usage.cache_read_tokens - metered_.usage.cache_write_5m_tokens;
    metered_.audio_input_tokens = std::min(audio, metered_.usage.input_tokens);
    metered_.input_reported = true;
}

void UsageReader::set_output(std::int64_t all, std::int64_t reasoning, std::int64_t audio, std::int64_t image) {
    metered_.usage.reasoning_tokens = std::min(reasoning, all);
    metered_.usage.output_tokens = all - metered_.usage.reasoning_tokens;
    metered_.audio_output_tokens = std::min(audio, metered_.usage.output_tokens);
    metered_.image_output_tokens = std::min(image, metered_.usage.output_tokens - metered_.audio_output_tokens);
}

std::size_t find_bytes(std::string_view data, std::string_view bytes, std::size_t from) {
    if (from >= data.size()) return std::string_view::npos;
    const void* found = memmem(data.data() + from, data.size() - from, bytes.data(), bytes.size());
    return found ? static_cast<std::size_t>(static_cast<const char*>(found) - data.data()) : std::string_view::npos;
}

bool has_member(std::string_view data, std::string_view quoted_name, char first) {
    for (std::size_t at = find_member(data, quoted_name); at != std::string_view::npos;
         at = find_member(data, quoted_name, at)) {
        if (data[at] == first) return true;
    }
    return false;
}

}  // namespace interlock::gateway
