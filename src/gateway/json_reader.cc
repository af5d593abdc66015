#include "gateway/json_reader.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

namespace interlock::gateway {
namespace {

constexpr std::string_view not_json = "is not valid JSON";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// How many bytes at the front are plain: no quote, no backslash, no control character. Looks at sixteen at a time,
// because most bytes of most bodies stand in long strings.
std::size_t plain_bytes(const char* text, std::size_t size) {
    using Byte = unsigned char;
    using Bytes = Byte __attribute__((vector_size(16)));
    static_assert(std::endian::native == std::endian::little, "the first byte is the lowest");
    std::size_t i = 0;
    for (; i + sizeof(Bytes) <= size; i += sizeof(Bytes)) {
        Bytes bytes;
        std::memcpy(&bytes, text + i, sizeof bytes);
        const auto marks = (bytes == Byte{'"'}) | (bytes == Byte{'\\'}) | (bytes < Byte{0x20});
        std::array<std::uint64_t, 2> halves;
        std::memcpy(&halves, &marks, sizeof halves);
        if (halves[0] != 0) return i + static_cast<std::size_t>(std::countr_zero(halves[0])) / 8;
        if (halves[1] != 0) return i + 8 + static_cast<std::size_t>(std::countr_zero(halves[1])) / 8;
    }
    for (; i < size; ++i) {
        const char c = text[i];
        if (c == '"' || c == '\\' || static_cast<Byte>(c) < 0x20) break;
    }
    return i;
}

std::optional<unsigned> hex4_of(std::string_view text) {
    if (text.size() < 4) return std::nullopt;
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + 4, value, 16);
    if (error != std::errc() || end != text.data() + 4) return std::nullopt;
    return value;
}

bool is_high_surrogate(unsigned unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low_surrogate(unsigned unit) { return unit >= 0xDC00 && unit < 0xE000; }

void append_utf8(std::string& text, unsigned code) {
    const auto push = [&](unsigned byte) { text.push_back(static_cast<char>(byte)); };
    if (code < 0x80) {
        push(code);
    } else if (code < 0x800) {
        push(0xC0 | code >> 6);
        push(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        push(0xE0 | code >> 12);
        push(0x80 | (code >> 6 & 0x3F));
        push(0x80 | (code & 0x3F));
    } else {
        push(0xF0 | code >> 18);
        push(0x80 | (code >> 12 & 0x3F));
        push(0x80 | (code >> 6 & 0x3F));
        push(0x80 | (code & 0x3F));
    }
}

}  // namespace

bool JsonReader::Keys::add(std::string_view key) {
    const auto end = few_.begin() + static_cast<std::ptrdiff_t>(std::min(count_, few_.size()));
    if (std::find(few_.begin(), end, key) != end) return false;
    if (count_ < few_.size()) {
        few_[count_] = key;
    } else if (!many_.insert(key).second) {
        return false;
    }
    ++count_;
    return true;
}

bool JsonReader::fail(std::string_view why) {
    if (why_.empty()) why_ = why;
    return false;
}

void JsonReader::blanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
        ++at_;
    }
}

JsonKind JsonReader::kind() {
    blanks();
    if (failed() || at_ == text_.size()) return JsonKind::none;
    switch (text_[at_]) {
        case '{':
            return JsonKind::object;
        case '[':
            return JsonKind::array;
        case '"':
            return JsonKind::string;
        case 't':
        case 'f':
            return JsonKind::boolean;
        case 'n':
            return JsonKind::null;
        default:
            return is_digit(text_[at_]) || text_[at_] == '-' ? JsonKind::number : JsonKind::none;
    }
}

bool JsonReader::finished() {
    blanks();
    return !failed() && at_ == text_.size();
}

bool JsonReader::open(char bracket) {
    blanks();
    if (failed()) return false;
    if (at_ == text_.size() || text_[at_] != bracket) return fail(not_json);
    if (depth_ == depth_max) return fail("is nested too deeply");
    ++depth_;
    ++at_;
    blanks();
    if (at_ == text_.size()) return fail(not_json);
    return true;
}

bool JsonReader::another(char closing) {
    blanks();
    if (failed()) return false;
    if (at_ == text_.size()) return fail(not_json);
    const char c = text_[at_];
    if (c == closing) {
        ++at_;
        --depth_;
        return false;
    }
    if (c != ',') return fail(not_json);
    ++at_;
    return true;
}

bool JsonReader::key(std::string_view& key) {
    blanks();
    name_begin_ = at_;
    const std::size_t begin = at_ + 1;
    if (!skip_string()) return false;
    name_end_ = at_;
    key = text_.substr(begin, at_ - 1 - begin);
    if (escaped_) key = decoded_keys_.emplace_front(decoded(key));
    blanks();
    if (at_ == text_.size() || text_[at_] != ':') return fail(not_json);
    ++at_;
    blanks();
    return true;
}

std::string_view JsonReader::skip() {
    blanks();
    const std::size_t begin = at_;
    return skip_value() ? text_.substr(begin, at_ - begin) : std::string_view();
}

bool JsonReader::skip_value() {
    switch (kind()) {
        case JsonKind::object: {
            // Not each_member(): what nobody looks at may have a key twice.
            if (!open('{')) return false;
            bool more = text_[at_] != '}' || another('}');
            while (more) {
                blanks();
                if (!skip_string()) return false;
                blanks();
                if (at_ == text_.size() || text_[at_] != ':') return fail(not_json);
                ++at_;
                if (!skip_value()) return false;
                more = another('}');
            }
            return !failed();
        }
        case JsonKind::array:
            return each_element([] {});
        case JsonKind::string:
            return skip_string();
        case JsonKind::number:
            return skip_number();
        case JsonKind::boolean:
            return skip_word(text_[at_] == 't' ? "true" : "false");
        case JsonKind::null:
            return skip_word("null");
        case JsonKind::none:
            return fail(not_json);
    }
    return fail(not_json);
}

bool JsonReader::skip_string() {
    if (failed()) return false;
    if (at_ == text_.size() || text_[at_] != '"') return fail(not_json);
    ++at_;
    escaped_ = false;
    while (true) {
        at_ += plain_bytes(text_.data() + at_, text_.size() - at_);
        if (at_ == text_.size()) return fail(not_json);
        if (text_[at_] == '"') break;
        if (text_[at_] != '\\') return fail(not_json);
        if (!skip_escape()) return fail(not_json);
        escaped_ = true;
    }
    ++at_;
    return true;
}

std::optional<unsigned> JsonReader::hex4(std::size_t at) const {
    return at <= text_.size() ? hex4_of(text_.substr(at)) : std::nullopt;
}

bool JsonReader::skip_escape() {
    constexpr std::string_view short_ones = "\"\\/bfnrt";
    if (at_ + 1 >= text_.size()) return false;
    if (text_[at_ + 1] != 'u') {
        if (short_ones.find(text_[at_ + 1]) == std::string_view::npos) return false;
        at_ += 2;
        return true;
    }
    const auto unit = hex4(at_ + 2);
    if (!unit || is_low_surrogate(*unit)) return false;
    at_ += 6;
    if (!is_high_surrogate(*unit)) return true;
    if (text_.substr(at_, 2) != "\\u") return false;
    const auto low = hex4(at_ + 2);
    if (!low || !is_low_surrogate(*low)) return false;
    at_ += 6;
    return true;
}

bool JsonReader::skip_number() {
    const std::size_t begin = at_;
    const auto digits = [&] {
        const std::size_t first = at_;
        while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
        return at_ - first;
    };
    const auto take = [&](std::string_view any) {
        const bool taken = at_ < text_.size() && any.find(text_[at_]) != std::string_view::npos;
        at_ += taken ? 1 : 0;
        return taken;
    };
    take("-");
    const bool zero = at_ < text_.size() && text_[at_] == '0';
    const std::size_t whole = digits();
    if (whole == 0 || (zero && whole > 1)) return fail(not_json);
    if (take(".") && digits() == 0) return fail(not_json);
    if (take("eE")) {
        take("+-");
        const std::size_t exponent = digits();
        if (exponent == 0) return fail(not_json);
        if (exponent > 3) return fail("has a number that is too long");
    }
    if (at_ - begin > number_bytes_max) return fail("has a number that is too long");
    return true;
}

bool JsonReader::skip_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return fail(not_json);
    at_ += word.size();
    return true;
}

std::optional<std::string_view> JsonReader::raw_string() {
    if (kind() != JsonKind::string) return skip_value(), std::nullopt;
    const std::size_t begin = at_ + 1;
    if (!skip_string()) return std::nullopt;
    return text_.substr(begin, at_ - 1 - begin);
}

std::optional<std::string> JsonReader::string(std::size_t bytes_max) {
    const auto raw = raw_string();
    return raw ? std::optional(decoded(*raw, bytes_max)) : std::nullopt;
}

std::optional<std::int64_t> JsonReader::whole_number() {
    const bool number = kind() == JsonKind::number;
    const std::string_view text = skip();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (!number || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<bool> JsonReader::boolean() {
    const bool boolean = kind() == JsonKind::boolean;
    const std::string_view text = skip();
    return boolean && !text.empty() ? std::optional(text == "true") : std::nullopt;
}

std::string decoded(std::string_view raw, std::size_t bytes_max) {
    std::string text;
    while (!raw.empty() && text.size() < bytes_max) {
        const std::size_t plain = std::min(raw.find('\\'), raw.size());
        text.append(raw.substr(0, plain));
        raw.remove_prefix(plain);
        if (raw.size() < 2) break;
        const char c = raw[1];
        if (c != 'u') {
            constexpr std::string_view written = "bfnrt";
            constexpr std::string_view meant = "\b\f\n\r\t";
            const std::size_t which = written.find(c);
            text.push_back(which == std::string_view::npos ? c : meant[which]);
            raw.remove_prefix(2);
            continue;
        }
        unsigned code = hex4_of(raw.substr(2)).value_or(0xFFFD);
        raw.remove_prefix(std::min<std::size_t>(raw.size(), 6));
        if (is_high_surrogate(code) && raw.size() >= 6) {
            const unsigned low = hex4_of(raw.substr(2)).value_or(0xDC00);
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            raw.remove_prefix(6);
        }
        append_utf8(text, code);
    }
    if (text.size() > bytes_max) text.resize(cut_to(text, bytes_max).size());
    return text;
}

std::string_view cut_to(std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) return text;
    while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xC0u) == 0x80u) --bytes_max;
    return text.substr(0, bytes_max);
}

}  // namespace interlock::gateway
