#include "gateway/usage_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include <simdjson.h>

namespace interlock::gateway {
namespace {

// More than anybody has used in one call; sums of a few of them fit.
constexpr std::int64_t metered_tokens_max = 1'000'000'000'000;
constexpr std::size_t word_bytes_max = 128;

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
std::size_t find_bytes(std::string_view data, std::string_view bytes, std::size_t from) {
    if (from >= data.size()) return std::string_view::npos;
    const void* found = memmem(data.data() + from, data.size() - from, bytes.data(), bytes.size());
    return found ? static_cast<std::size_t>(static_cast<const char*>(found) - data.data()) : std::string_view::npos;
}

// Where the value of a member of that name begins, at or behind `from`. The name comes with its quotes, which no string
// within a string has, so what a model says cannot be taken for a member.
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

bool has_member(std::string_view data, std::string_view quoted_name, char first) {
    for (std::size_t at = find_member(data, quoted_name); at != std::string_view::npos;
         at = find_member(data, quoted_name, at)) {
        if (data[at] == first) return true;
    }
    return false;
}

// Which event of OpenAI's responses this is: "completed" of "response.completed". Empty: another one.
std::string_view responses_type(std::string_view data) {
    constexpr std::string_view begin = "\"response.";
    constexpr std::array<std::string_view, 6> known{"completed\"", "incomplete\"",       "failed\"",
                                                    "created\"",   "output_item.done\"", "output_item.added\""};
    std::size_t at = 0;
    while ((at = find_bytes(data, begin, at)) != std::string_view::npos) {
        at += begin.size();
        for (const std::string_view type : known) {
            if (data.substr(at).starts_with(type)) return type.substr(0, type.size() - 1);
        }
    }
    return {};
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

// ---- what all answers share -----------------------------------------------------------------------------------------

void UsageReader::whole(std::string_view body) {
    JsonReader valid(body);
    valid.skip();
    if (!valid.finished()) return;
    JsonReader json(body);
    if (json.kind() != JsonKind::object) return;
    switch (operation_) {
        case Operation::chat:
        case Operation::embeddings:
            chat(json);
            return;
        case Operation::responses:
            json.each_member([&](std::string_view key) { responses_member(json, key); });
            return;
        case Operation::messages:
            json.each_member([&](std::string_view key) { messages_member(json, key); });
            break;
        case Operation::generate:
            generate(json);
            break;
        case Operation::count_tokens:
        case Operation::models:
            return;
    }
    // These two say their counts bit by bit while they stream; in a whole answer they are the last word.
    metered_.reported = metered_.input_reported && (gemini_counted_ || counts_.output_said);
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
    if (json.kind() != JsonKind::object) return false;
    switch (operation_) {
        case Operation::chat:
            return chat(json);
        case Operation::responses:
            responses(json);
            break;
        case Operation::messages:
            messages(json);
            break;
        case Operation::generate:
            generate(json);
            break;
        default:
            break;
    }
    return false;
}

bool UsageReader::matters(std::string_view data) const {
    switch (operation_) {
        case Operation::chat:
            return has_member(data, "\"usage\"", '{') || has_member(data, "\"finish_reason\"", '"') ||
                   has_member(data, "\"error\"", '{');
        case Operation::responses: {
            const std::string_view type = responses_type(data);
            return (!type.empty() && type != "output_item.added") ||
                   find_bytes(data, "\"error\"", 0) != std::string_view::npos;
        }
        case Operation::messages:
            return has_member(data, "\"usage\"", '{') ||
                   find_bytes(data, "\"message_stop\"", 0) != std::string_view::npos ||
                   has_member(data, "\"error\"", '{');
        case Operation::generate:
            return true;
        default:
            return false;
    }
}

std::optional<std::int64_t> UsageReader::tokens(JsonReader& json) {
    const auto number = json.whole_number();
    if (!number) return std::nullopt;
    metered_.impossible = metered_.impossible || *number < 0 || *number > metered_tokens_max;
    return std::clamp<std::int64_t>(*number, 0, metered_tokens_max);
}

void UsageReader::set_word(std::string& word, JsonReader& json) {
    const auto text = json.string(word_bytes_max);
    if (text && simdjson::validate_utf8(text->data(), text->size())) word = *text;
}

void UsageReader::say(std::string_view raw) {
    if (keep_ == KeepText::no) return;
    const std::string text = decoded(raw, kept_text_bytes_max - metered_.text.size());
    if (simdjson::validate_utf8(text.data(), text.size())) metered_.text.append(text);
}

// Text, or a list of parts that have text. Thoughts are marked, and are not what was said.
void UsageReader::content(JsonReader& json) {
    if (json.kind() == JsonKind::string) return say(json.raw_string().value_or(""));
    each_element(json, [&] {
        std::string_view text;
        bool thought = false;
        each_member(json, [&](std::string_view key) {
            if (key == "text")
                text = json.raw_string().value_or("");
            else if (key == "thought")
                thought = json.boolean().value_or(false);
        });
        if (!thought) say(text);
    });
}

// Kinds that are parts of another are cut to it, so that the sum is the provider's whatever its parts are.
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

// ---- OpenAI ---------------------------------------------------------------------------------------------------------

bool UsageReader::chat(JsonReader& json) {
    bool has_usage = false;
    bool has_choices = false;
    bool no_choices = false;
    json.each_member([&](std::string_view key) {
        if (key == "usage") {
            has_usage = json.kind() == JsonKind::object;
            openai_usage(json);
        } else if (key == "x_groq") {
            each_member(json, [&](std::string_view name) {
                if (name == "usage") openai_usage(json);
            });
        } else if (key == "model") {
            set_word(metered_.model, json);
        } else if (key == "service_tier") {
            set_word(metered_.service_tier, json);
        } else if (key == "choices") {
            no_choices = json.kind() == JsonKind::array;
            chat_choices(json, has_choices);
        } else if (key == "error" && json.kind() == JsonKind::object) {
            metered_.finish = "error";
            ended_ = true;
        }
    });
    return has_usage && no_choices && !has_choices;
}

void UsageReader::chat_choices(JsonReader& json, bool& any) {
    each_element(json, [&] {
        any = true;
        each_member(json, [&](std::string_view key) {
            if (key == "finish_reason") {
                set_word(metered_.finish, json);
            } else if (key == "delta" || key == "message") {
                each_member(json, [&](std::string_view name) {
                    if (name == "content") content(json);
                });
            }
        });
    });
}

void UsageReader::openai_usage(JsonReader& json) {
    if (json.kind() != JsonKind::object) return;
    std::optional<std::int64_t> prompt, completion, total;
    std::int64_t cached = 0, written = 0, audio_in = 0, reasoning = 0, audio_out = 0, image_out = 0;
    json.each_member([&](std::string_view key) {
        if (key == "prompt_tokens" || key == "input_tokens") {
            prompt = tokens(json);
        } else if (key == "completion_tokens" || key == "output_tokens") {
            completion = tokens(json);
        } else if (key == "total_tokens") {
            total = tokens(json);
        } else if (key == "cost" && json.kind() == JsonKind::number) {
            metered_.stated_cost = stated_money(json.skip());
            metered_.impossible = metered_.impossible || !metered_.stated_cost;
        } else if (key == "prompt_tokens_details" || key == "input_tokens_details") {
            each_member(json, [&](std::string_view detail) {
                if (detail == "cached_tokens")
                    cached = tokens(json).value_or(0);
                else if (detail == "cache_write_tokens" || detail == "cache_creation_tokens")
                    written = tokens(json).value_or(0);
                else if (detail == "audio_tokens")
                    audio_in = tokens(json).value_or(0);
            });
        } else if (key == "completion_tokens_details" || key == "output_tokens_details") {
            each_member(json, [&](std::string_view detail) {
                if (detail == "reasoning_tokens")
                    reasoning = tokens(json).value_or(0);
                else if (detail == "audio_tokens")
                    audio_out = tokens(json).value_or(0);
                else if (detail == "image_tokens")
                    image_out = tokens(json).value_or(0);
            });
        } else if (key == "num_sources_used") {
            metered_.paid_tools = tokens(json).value_or(0);
        }
    });
    if (!prompt) return;
    set_input(*prompt, cached, written, audio_in);
    if (operation_ == Operation::embeddings) completion = completion.value_or(0);
    if (!completion) return;
    // Some who speak this dialect count reasoning beside the completion and not within it; their total says so.
    const bool beside = reasoning > 0 && total == *prompt + *completion + reasoning;
    set_output(*completion + (beside ? reasoning : 0), reasoning, audio_out, image_out);
    metered_.reported = true;
}

void UsageReader::responses(JsonReader& json) {
    std::string type;
    std::string_view delta;
    PaidItem paid = PaidItem::no;
    json.each_member([&](std::string_view key) {
        if (key == "type") {
            set_word(type, json);
        } else if (key == "response") {
            each_member(json, [&](std::string_view name) { responses_member(json, name); });
        } else if (key == "item" && json.kind() == JsonKind::object) {
            paid = paid_item(json);
        } else if (key == "delta") {
            delta = json.raw_string().value_or("");
        }
    });
    if (type == "response.output_text.delta") say(delta);
    if (type == "response.output_item.done" && paid == PaidItem::tool) ++metered_.paid_tools;
    if (type == "response.output_item.done" && paid == PaidItem::image) ++metered_.images_made;
    ended_ = ended_ || type == "response.completed" || type == "response.incomplete" || type == "response.failed" ||
             type == "error";
    if (type == "error") metered_.finish = "error";
}

void UsageReader::responses_member(JsonReader& json, std::string_view key) {
    if (key == "usage") {
        openai_usage(json);
    } else if (key == "model") {
        set_word(metered_.model, json);
    } else if (key == "service_tier") {
        set_word(metered_.service_tier, json);
    } else if (key == "status") {
        // The reason says more than "incomplete", and may stand on either side of it.
        std::string status;
        set_word(status, json);
        if (status != "incomplete" || metered_.finish.empty() || metered_.finish == "in_progress")
            metered_.finish = status;
    } else if (key == "incomplete_details") {
        each_member(json, [&](std::string_view name) {
            if (name == "reason") set_word(metered_.finish, json);
        });
    } else if (key == "output") {
        std::int64_t tools = 0, images = 0;
        each_element(json, [&] {
            const PaidItem paid = json.kind() == JsonKind::object ? paid_item(json) : PaidItem::no;
            tools += paid == PaidItem::tool ? 1 : 0;
            images += paid == PaidItem::image ? 1 : 0;
        });
        metered_.paid_tools = std::max(metered_.paid_tools, tools);
        metered_.images_made = std::max(metered_.images_made, images);
    }
}

// What the item is: the use of a tool that is billed by the use, or none. What a message among them says is kept on the
// way, unless it was kept while it streamed.
UsageReader::PaidItem UsageReader::paid_item(JsonReader& json) {
    std::string type;
    std::string action;
    json.each_member([&](std::string_view key) {
        if (key == "type") {
            set_word(type, json);
        } else if (key == "content" && !any_event_) {
            content(json);
        } else if (key == "action") {
            each_member(json, [&](std::string_view name) {
                if (name == "type") set_word(action, json);
            });
        }
    });
    // Opening a page that a search has found costs nothing.
    if (type == "image_generation_call") return PaidItem::image;
    const bool is_search = type == "web_search_call" && (action.empty() || action == "search");
    const bool is_paid = is_search || type == "file_search_call" || type == "code_interpreter_call";
    return is_paid ? PaidItem::tool : PaidItem::no;
}

// ---- Anthropic ------------------------------------------------------------------------------------------------------

void UsageReader::messages(JsonReader& json) {
    std::string type;
    counts_.output_said = false;
    json.each_member([&](std::string_view key) {
        if (key == "type") {
            set_word(type, json);
        } else if (key == "message") {
            each_member(json, [&](std::string_view name) { messages_member(json, name); });
        } else if (key == "usage") {
            anthropic_usage(json);
        } else if (key == "delta") {
            each_member(json, [&](std::string_view name) {
                if (name == "stop_reason")
                    set_word(metered_.finish, json);
                else if (name == "text")
                    say(json.raw_string().value_or(""));
            });
        }
    });
    // What message_start says of the output is only its beginning.
    if (type == "message_delta" && counts_.output_said) metered_.reported = metered_.input_reported;
    if (type == "error") metered_.finish = "error";
    ended_ = ended_ || type == "message_stop" || type == "error";
}

void UsageReader::messages_member(JsonReader& json, std::string_view key) {
    if (key == "usage")
        anthropic_usage(json);
    else if (key == "model")
        set_word(metered_.model, json);
    else if (key == "stop_reason")
        set_word(metered_.finish, json);
    else if (key == "content")
        content(json);
}

void UsageReader::anthropic_usage(JsonReader& json) {
    if (json.kind() != JsonKind::object) return;
    json.each_member([&](std::string_view key) {
        if (key == "service_tier") {
            set_word(metered_.service_tier, json);
        } else if (key == "inference_geo") {
            set_word(metered_.inference_geo, json);
        } else if (key == "server_tool_use") {
            each_member(json, [&](std::string_view name) {
                if (name == "web_search_requests") metered_.paid_tools = tokens(json).value_or(metered_.paid_tools);
            });
        } else if (key == "iterations") {
            // The totals are those of the messages alone; what shortened the conversation before them is billed as
            // well.
            beside_ = {};
            each_element(json, [&] {
                std::string type = "message";
                Counts run;
                each_member(json, [&](std::string_view name) {
                    if (name == "type")
                        set_word(type, json);
                    else
                        anthropic_counts(json, name, run);
                });
                if (type == "message") return;
                beside_.input += run.input;
                beside_.output += run.output;
                beside_.cache_read += run.cache_read;
                beside_.cache_write += run.cache_write;
                beside_.cache_write_1h += run.cache_write_1h;
            });
        } else {
            anthropic_counts(json, key, counts_);
        }
    });
    const std::int64_t written = counts_.cache_write + beside_.cache_write;
    metered_.usage.input_tokens = counts_.input + beside_.input;
    metered_.usage.output_tokens = counts_.output + beside_.output;
    metered_.usage.cache_read_tokens = counts_.cache_read + beside_.cache_read;
    metered_.usage.cache_write_1h_tokens = std::min(counts_.cache_write_1h + beside_.cache_write_1h, written);
    metered_.usage.cache_write_5m_tokens = written - metered_.usage.cache_write_1h_tokens;
    metered_.prompt_tokens = counts_.input + counts_.cache_read + counts_.cache_write;
    metered_.input_reported = counts_.input_said;
}

void UsageReader::anthropic_counts(JsonReader& json, std::string_view key, Counts& counts) {
    const auto set = [&](std::int64_t& count) {
        const auto said = tokens(json);
        count = said.value_or(count);
        return said.has_value();
    };
    if (key == "input_tokens") {
        counts.input_said = set(counts.input) || counts.input_said;
    } else if (key == "output_tokens") {
        counts.output_said = set(counts.output) || counts.output_said;
    } else if (key == "cache_read_input_tokens") {
        set(counts.cache_read);
    } else if (key == "cache_creation_input_tokens") {
        set(counts.cache_write);
    } else if (key == "cache_creation") {
        std::int64_t five_minutes = 0;
        each_member(json, [&](std::string_view name) {
            if (name == "ephemeral_1h_input_tokens")
                set(counts.cache_write_1h);
            else if (name == "ephemeral_5m_input_tokens")
                set(five_minutes);
        });
        counts.cache_write = std::max(counts.cache_write, five_minutes + counts.cache_write_1h);
    }
}

// ---- Gemini ---------------------------------------------------------------------------------------------------------

void UsageReader::generate(JsonReader& json) {
    json.each_member([&](std::string_view key) {
        if (key == "usageMetadata") {
            gemini_usage(json);
        } else if (key == "modelVersion") {
            set_word(metered_.model, json);
        } else if (key == "candidates") {
            each_element(json, [&] { gemini_candidate(json); });
        } else if (key == "promptFeedback") {
            each_member(json, [&](std::string_view name) {
                if (name != "blockReason") return;
                set_word(metered_.finish, json);
                ended_ = true;
            });
        } else if (key == "error" && json.kind() == JsonKind::object) {
            metered_.finish = "error";
            ended_ = true;
        }
    });
    // Each chunk has the counts so far; those that come with the end are the last.
    metered_.reported = metered_.reported || (gemini_counted_ && ended_ && metered_.finish != "error");
}

void UsageReader::gemini_candidate(JsonReader& json) {
    each_member(json, [&](std::string_view key) {
        if (key == "finishReason") {
            set_word(metered_.finish, json);
            ended_ = true;
        } else if (key == "content") {
            each_member(json, [&](std::string_view name) {
                if (name == "parts") content(json);
            });
        } else if (key == "groundingMetadata") {
            each_member(json, [&](std::string_view name) {
                std::int64_t searches = 0;
                if (name == "webSearchQueries") each_element(json, [&] { ++searches; });
                metered_.paid_tools = std::max(metered_.paid_tools, searches);
            });
        }
    });
}

void UsageReader::gemini_usage(JsonReader& json) {
    if (json.kind() != JsonKind::object) return;
    std::optional<std::int64_t> prompt;
    std::int64_t cached = 0, tool_prompt = 0, candidates = 0, thoughts = 0, audio_in = 0, audio_cached = 0,
                 audio_out = 0, image_out = 0, image = 0;
    const auto audio_of = [&] {
        std::int64_t audio = 0;
        image = 0;
        each_element(json, [&] {
            std::string modality;
            std::int64_t count = 0;
            each_member(json, [&](std::string_view name) {
                if (name == "modality")
                    set_word(modality, json);
                else if (name == "tokenCount")
                    count = tokens(json).value_or(0);
            });
            if (modality == "AUDIO") audio = std::min(audio + count, metered_tokens_max);
            if (modality == "IMAGE") image = std::min(image + count, metered_tokens_max);
        });
        return audio;
    };
    json.each_member([&](std::string_view key) {
        if (key == "promptTokenCount")
            prompt = tokens(json);
        else if (key == "cachedContentTokenCount")
            cached = tokens(json).value_or(0);
        else if (key == "toolUsePromptTokenCount")
            tool_prompt = tokens(json).value_or(0);
        else if (key == "candidatesTokenCount")
            candidates = tokens(json).value_or(0);
        else if (key == "thoughtsTokenCount")
            thoughts = tokens(json).value_or(0);
        else if (key == "promptTokensDetails")
            audio_in = audio_of();
        else if (key == "cacheTokensDetails")
            audio_cached = audio_of();
        else if (key == "candidatesTokensDetails")
            audio_out = audio_of(), image_out = image;
    });
    if (!prompt) return;
    gemini_counted_ = true;
    set_input(*prompt + tool_prompt, cached, 0, std::max<std::int64_t>(audio_in - audio_cached, 0));
    set_output(candidates + thoughts, thoughts, audio_out, image_out);
}

}  // namespace interlock::gateway
