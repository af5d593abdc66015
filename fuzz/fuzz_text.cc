// Any text from outside: what the gate for text lets through is UTF-8, one line or JSON with one meaning,
// and what it mends is good afterwards.
//
// Everything is said twice: the decoder and the duplicate search below are naive and share nothing with src/base.
#include <boost/json.hpp>
#include <optional>
#include <string>

#include "base/ensure.h"
#include "base/shell.h"
#include "base/strict_json.h"
#include "base/text.h"

namespace {

using namespace interlock;

// The code points, or nothing where the text is not UTF-8.
std::optional<std::u32string> decoded(std::string_view text) {
    std::u32string points;
    for (std::size_t at = 0; at < text.size();) {
        const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
        const std::size_t more = byte(at) < 0x80       ? 0
                                 : byte(at) >> 5 == 6  ? 1
                                 : byte(at) >> 4 == 14 ? 2
                                 : byte(at) >> 3 == 30 ? 3
                                                       : 9;
        if (more == 9 || at + more >= text.size()) return std::nullopt;
        char32_t point = more == 0 ? byte(at) : byte(at) & (0x3Fu >> more);
        for (std::size_t i = 1; i <= more; ++i) {
            if (byte(at + i) >> 6 != 2) return std::nullopt;
            point = point << 6 | (byte(at + i) & 0x3Fu);
        }
        constexpr char32_t least[] = {0, 0x80, 0x800, 0x10000};
        if (point < least[more] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return std::nullopt;
        points += point;
        at += more + 1;
    }
    return points;
}

bool has_control(const std::u32string& points) {
    for (const char32_t point : points) {
        if (point < 0x20 || (point >= 0x7F && point < 0xA0) || (point >= 0x2028 && point <= 0x202E) ||
            (point >= 0x2066 && point <= 0x2069))
            return true;
    }
    return false;
}

// Written out again, a document without duplicates has as many members as its text.
std::size_t members(const boost::json::value& value) {
    std::size_t count = 0;
    if (const auto* object = value.if_object()) {
        for (const auto& [name, member] : *object) count += 1 + members(member);
    } else if (const auto* array = value.if_array()) {
        for (const auto& element : *array) count += members(element);
    }
    return count;
}

void check_json(std::string_view text) {
    const auto flaw = flaw_of_json(text);
    const auto parsed = parse_strict_json(text);
    ensure(parsed.has_value() == !flaw, "both ways agree");
    if (flaw) {
        ensure(is_utf8(flaw->detail) || !is_utf8(text), "a refusal can be shown");
        return;
    }
    ensure(is_utf8(text), "JSON is UTF-8");
    const std::string again = boost::json::serialize(*parsed);
    const auto reread = parse_strict_json(again);
    ensure(reread.has_value() && members(*reread) == members(*parsed), "what is written reads back");
    ensure(flaw_of_json_object(text).has_value() == !parsed->is_object(), "an object is one");
    if (!parsed->is_object() || parsed->get_object().empty()) return;
    // The first member once more is a member twice.
    const std::string name = boost::json::serialize(boost::json::value(parsed->get_object().begin()->key()));
    const std::string twice = "{" + name + ":0," + again.substr(1);
    const auto found = flaw_of_json(twice);
    ensure(found.has_value() && !parse_strict_json(twice), "a member twice is found");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto points = decoded(text);
    ensure(is_utf8(text) == points.has_value(), "UTF-8 is UTF-8");
    ensure(is_line(text) == (points && !has_control(*points)), "a line is a line");
    const auto mended = decoded(as_utf8(text));
    ensure(mended && (!points || mended == points), "what is good stays, what is not is mended");
    const auto line = decoded(as_line(text));
    ensure(line && !has_control(*line), "a line is made of anything");
    for (const std::size_t most : {std::size_t{0}, std::size_t{1}, size / 2, size}) {
        const std::string cut = cut_text(as_utf8(text), most);
        ensure(cut.size() <= most && is_utf8(cut), "a cut is between characters");
    }
    const std::string word = shell_word(text);
    ensure(!word.empty() && is_line(word), "a word can be shown");
    check_json(text);
    return 0;
}
