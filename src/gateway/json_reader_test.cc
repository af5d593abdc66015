#include "gateway/json_reader.h"

#include <random>

#include <gtest/gtest.h>
#include <simdjson.h>
#include <boost/json.hpp>

namespace interlock::gateway {
namespace {

bool accepted(std::string_view text) {
    JsonReader reader(text);
    reader.skip();
    return reader.finished();
}

// The same text, walked instead of skipped.
void walk(JsonReader& reader) {
    switch (reader.kind()) {
        case JsonKind::object:
            reader.each_member([&](std::string_view) { walk(reader); });
            return;
        case JsonKind::array:
            reader.each_element([&] { walk(reader); });
            return;
        default:
            reader.skip();
    }
}

bool accepted_when_walked(std::string_view text) {
    JsonReader reader(text);
    walk(reader);
    return reader.finished();
}

TEST(JsonReader, takes_json_and_nothing_else) {
    for (const char* text :
         {"{}", "[]", " { } ", "[ ]", "null", "true", "false", "0", "-0", "1.5e-3", "1E+2", R"("")",
          R"("a\"\\\/\b\f\n\r\t")", R"("\u0041\ud83d\ude00")", R"({"a":1,"b":[1,2,{"c":null}],"a":2})",
          "\t[\r\n1 , 2 ]\n", R"(["0123456789abcdef\n"])"}) {
        EXPECT_TRUE(accepted(text)) << text;
        EXPECT_TRUE(accepted_when_walked(text)) << text;
    }
    for (const char* text : {"",
                             " ",
                             "{",
                             "}",
                             "[",
                             "]",
                             "{]",
                             "[}",
                             "{\"a\"}",
                             "{\"a\":}",
                             "{\"a\":1,}",
                             "{,}",
                             "[1,]",
                             "[,1]",
                             "[1 2]",
                             "{a:1}",
                             "{'a':1}",
                             "{\"a\":1 \"b\":2}",
                             "nul",
                             "nulll",
                             "True",
                             "01",
                             "-",
                             "1.",
                             ".5",
                             "+1",
                             "1e",
                             "1e+",
                             "0x10",
                             "NaN",
                             "Infinity",
                             "\"",
                             "\"a",
                             "\"\\\"",
                             "\"\\x\"",
                             "\"\\u12\"",
                             "\"\\u12g4\"",
                             "\"\\ud800\"",
                             "\"\\ud800\\u0041\"",
                             "\"\\udc00\"",
                             "\"a\nb\"",
                             "\"a\tb\"",
                             "{}{}",
                             "{} x",
                             "[1]]",
                             "/**/1",
                             "1//",
                             "\xEF\xBB\xBF{}",
                             "1e1000",
                             "\"\\u+123\"",
                             "{\"a\":1,\"b\"",
                             "[[[[",
                             "\"\x01\""}) {
        EXPECT_FALSE(accepted(text)) << text;
        EXPECT_FALSE(accepted_when_walked(text)) << text;
    }
}

TEST(JsonReader, agrees_with_two_other_readers_about_texts_that_were_damaged) {
    const std::string good =
        R"({"model":"m","n":-12.5e1,"list":[true,false,null,{"deep":["a\"b\\c\u00e9\ud83d\ude00",[],{}]}],"s":"long enough text"})";
    std::mt19937 random(7);
    simdjson::dom::parser parser;
    int accepted_ones = 0;
    for (int i = 0; i < 40'000; ++i) {
        std::string text = good;
        for (unsigned edit = 0; edit <= random() % 3; ++edit) {
            const std::size_t at = random() % text.size();
            constexpr std::string_view odd = "\"\\{}[]:,0-.eEtfnu \n\x01\xC3x";
            switch (random() % 3) {
                case 0:
                    text[at] = odd[random() % odd.size()];
                    break;
                case 1:
                    text.erase(at, 1 + random() % 4);
                    break;
                default:
                    text.insert(at, 1, odd[random() % odd.size()]);
            }
        }
        boost::system::error_code error;
        boost::json::parse(text, error);
        const bool by_boost = !error;
        const bool by_simdjson = parser.parse(text).error() == simdjson::SUCCESS;
        const bool by_us = accepted(text) && simdjson::validate_utf8(text.data(), text.size());
        ASSERT_EQ(by_us, accepted_when_walked(text) && simdjson::validate_utf8(text.data(), text.size())) << text;
        // Boost does not check UTF-8 outside of strings, where there can be none.
        if (by_us) ASSERT_TRUE(by_boost && by_simdjson) << text;
        if (by_boost && by_simdjson) ASSERT_TRUE(by_us) << text;
        accepted_ones += by_us ? 1 : 0;
    }
    EXPECT_GT(accepted_ones, 1'000);
}

TEST(JsonReader, says_where_things_stand) {
    const std::string text = R"( { "a" : [ 1 , "x" ] , "b" : {"c":2} } )";
    JsonReader reader(text);
    std::vector<std::pair<std::string, std::string>> members;
    reader.each_member([&](std::string_view key) {
        const std::size_t begin = reader.at();
        const std::string_view value = reader.skip();
        EXPECT_EQ(value.data(), text.data() + begin);
        EXPECT_EQ(text.substr(begin, reader.at() - begin), value);
        members.emplace_back(key, value);
    });
    EXPECT_TRUE(reader.finished());
    EXPECT_EQ(members,
              (std::vector<std::pair<std::string, std::string>>{{"a", R"([ 1 , "x" ])"}, {"b", R"({"c":2})"}}));
}

TEST(JsonReader, a_value_of_another_kind_is_nothing_and_is_passed) {
    JsonReader reader(R"(["text", 12, 1e3, -4, 99999999999999999999, true, null, {"a":1}])");
    std::vector<std::optional<std::int64_t>> numbers;
    reader.each_element([&] { numbers.push_back(reader.whole_number()); });
    EXPECT_TRUE(reader.finished());
    EXPECT_EQ(numbers, (std::vector<std::optional<std::int64_t>>{{}, 12, {}, -4, {}, {}, {}, {}}));
}

TEST(JsonReader, strings_and_keys_are_decoded) {
    JsonReader reader(R"({"\u006dodel":"a\n\u00e9\ud83d\ude00\/"})");
    std::string found;
    reader.each_member([&](std::string_view key) {
        EXPECT_EQ(key, "model");
        found = reader.string().value_or("");
    });
    EXPECT_EQ(found, "a\n\xC3\xA9\xF0\x9F\x98\x80/");
    EXPECT_EQ(decoded("abc", 2), "ab");
    EXPECT_EQ(decoded("a\\u00e9", 2), "a");
    EXPECT_EQ(cut_to("a\xC3\xA9", 2), "a");
}

TEST(JsonReader, a_string_ends_at_its_quote_wherever_that_stands) {
    for (const char filling : {'x', ' ', '!', '#', '[', ']', '\x7F', '\xFF'}) {
        for (std::size_t size = 0; size < 50; ++size) {
            const std::string inside(size, filling);
            EXPECT_EQ(JsonReader('"' + inside + "\"\"behind it, and long enough\"").raw_string(), inside) << size;
            EXPECT_EQ(JsonReader('"' + inside + "\\n\"").string(), inside + '\n') << size;
            for (const char control : {'\0', '\n', '\x1F'}) {
                const std::string text = '"' + inside + control + std::string(20, filling) + '"';
                JsonReader reader(text);
                EXPECT_FALSE(reader.raw_string()) << size;
                EXPECT_EQ(reader.at(), size + 1);
            }
        }
    }
}

TEST(JsonReader, a_key_twice_is_refused_where_that_is_asked_for) {
    const auto reads = [](std::string_view text) {
        JsonReader reader(text, TwiceTheSameKey::refused);
        walk(reader);
        return reader.finished();
    };
    EXPECT_TRUE(reads(R"({"a":{"a":1},"b":{"a":1}})"));
    EXPECT_FALSE(reads(R"({"a":1,"b":2,"a":3})"));
    EXPECT_FALSE(reads(R"({"a":1,"\u0061":3})"));

    std::string many = "{";
    for (int i = 0; i < 1000; ++i) many += '"' + std::to_string(i) + "\":0,";
    EXPECT_TRUE(reads(many + R"("x":1})"));
    EXPECT_FALSE(reads(many + R"("3":1})"));
    EXPECT_FALSE(reads(many + R"("999":1})"));
}

TEST(JsonReader, nesting_has_an_end) {
    const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    EXPECT_TRUE(accepted(nested(JsonReader::depth_max)));
    EXPECT_FALSE(accepted(nested(JsonReader::depth_max + 1)));
    EXPECT_FALSE(accepted(std::string(1'000'000, '[')));
    std::string objects;
    for (int i = 0; i < 300; ++i) objects += "{\"a\":";
    EXPECT_FALSE(accepted_when_walked(objects));
    EXPECT_FALSE(accepted(std::string(JsonReader::number_bytes_max + 1, '1')));
}

}  // namespace
}  // namespace interlock::gateway
