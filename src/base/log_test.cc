#include "base/log.h"
#include "base/base_test_support.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace interlock {
namespace {

using namespace std::string_view_literals;

std::string text_value(std::string_view value) {
    const std::string line = format_log_line(LogFormat::text, morning, LogLevel::info, "e", {{"v", value}});
    constexpr std::string_view before = "2026-11-15T09:00:00.123Z info  e v=";
    EXPECT_TRUE(line.starts_with(before) && line.ends_with("\n")) << line;
    return line.substr(before.size(), line.size() - before.size() - 1);
}

// An own strict reader: the bytes of well-formed UTF-8 outside of control characters, all code points decoded.
bool is_printable_utf8(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const auto first = static_cast<unsigned char>(text[i]);
        const std::size_t length = first < 0x80       ? 1
                                   : first >> 5 == 6  ? 2
                                   : first >> 4 == 14 ? 3
                                   : first >> 3 == 30 ? 4
                                                      : 0;
        if (length == 0 || i + length > text.size()) return false;
        std::uint32_t point = length == 1 ? first : first & (0x7Fu >> length);
        for (std::size_t k = 1; k < length; ++k) {
            const auto next = static_cast<unsigned char>(text[i + k]);
            if (next >> 6 != 2) return false;
            point = point << 6 | (next & 0x3Fu);
        }
        constexpr std::array<std::uint32_t, 5> first_of_length = {0, 0, 0x80, 0x800, 0x10000};
        if (point < first_of_length[length] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) return false;
        if (point < 0x20 || (point >= 0x7F && point < 0xA0)) return false;
        i += length;
    }
    return true;
}

TEST(Log, a_line_is_the_time_the_level_the_event_and_its_values) {
    EXPECT_EQ(format_log_line(LogFormat::text, morning, LogLevel::warn, "store_reopened",
                              {{"reason", "disk I/O error"}, {"commands", 12}}),
              "2026-11-15T09:00:00.123Z warn  store_reopened reason=\"disk I/O error\" commands=12\n");
    EXPECT_EQ(format_log_line(LogFormat::text, morning, LogLevel::debug, "step", {}),
              "2026-11-15T09:00:00.123Z debug step\n");
}

TEST(Log, a_json_line_is_one_object) {
    EXPECT_EQ(format_log_line(LogFormat::json, morning, LogLevel::error, "store_reopened",
                              {{"reason", "disk \"full\""}, {"commands", INT64_MIN}}),
              R"({"at":"2026-11-15T09:00:00.123Z","level":"error","event":"store_reopened",)"
              R"("reason":"disk \"full\"","commands":-9223372036854775808})"
              "\n");
    EXPECT_EQ(format_log_line(LogFormat::json, morning, LogLevel::info, "step", {}),
              R"({"at":"2026-11-15T09:00:00.123Z","level":"info","event":"step"})"
              "\n");
}

TEST(Log, time_always_has_three_decimals_and_is_never_ahead) {
    const auto time = [](std::int64_t micros_since_1970) {
        return format_log_line(LogFormat::text, from_micros(micros_since_1970), LogLevel::info, "e", {}).substr(0, 24);
    };

    EXPECT_EQ(time(0), "1970-01-01T00:00:00.000Z");
    EXPECT_EQ(time(1'000'000), "1970-01-01T00:00:01.000Z");
    EXPECT_EQ(time(1'050'000), "1970-01-01T00:00:01.050Z");
    EXPECT_EQ(time(1'999'999), "1970-01-01T00:00:01.999Z");
    EXPECT_EQ(time(-1), "1969-12-31T23:59:59.999Z");
}

TEST(Log, a_value_can_neither_end_its_line_nor_its_quotes) {
    EXPECT_EQ(text_value(""), R"("")");
    EXPECT_EQ(text_value("a\nb"), R"("a\nb")");
    EXPECT_EQ(text_value("a\r\tb"), R"("a\u000d\u0009b")");
    EXPECT_EQ(text_value("x\" level=error fake=\""), R"("x\" level=error fake=\"")");
    EXPECT_EQ(text_value("back\\slash\\"), R"("back\\slash\\")");
    EXPECT_EQ(text_value("\0\x1B[31m\x7F"sv), R"("\u0000\u001b[31m\u007f")");
}

TEST(Log, letters_of_every_script_stay_as_they_are) { EXPECT_EQ(text_value("Grüße, 東京, 🙂"), "\"Grüße, 東京, 🙂\""); }

TEST(Log, bytes_that_are_not_utf8_are_replaced_one_by_one) {
    EXPECT_EQ(text_value("\xFF"), R"("\ufffd")");
    EXPECT_EQ(text_value("caf\xE9!"), R"("caf\ufffd!")");
    EXPECT_EQ(text_value("\xC3"), R"("\ufffd")");                                // Cut off.
    EXPECT_EQ(text_value("\xE2\x82"), R"("\ufffd\ufffd")");                      // Cut off.
    EXPECT_EQ(text_value("\xC0\xAF"), R"("\ufffd\ufffd")");                      // A slash, longer than need be.
    EXPECT_EQ(text_value("\xED\xA0\x80"), R"("\ufffd\ufffd\ufffd")");            // Half of a pair.
    EXPECT_EQ(text_value("\xF4\x90\x80\x80"), R"("\ufffd\ufffd\ufffd\ufffd")");  // Past the last character.
    EXPECT_EQ(text_value("\xC2\x9B"
                         "31m"),
              R"("\u009b31m")");  // Starts a terminal's command, as ESC [ does.
    EXPECT_EQ(text_value("\xC2\xA0"), "\"\xC2\xA0\"");
}

TEST(Log, any_bytes_give_one_line_of_printable_utf8) {
    std::mt19937_64 random(4);
    constexpr std::array<unsigned char, 24> edges = {0x00, 0x0A, 0x0D, 0x1B, 0x22, 0x5C, 0x7F, 0x80,
                                                     0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xDF,
                                                     0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF, 'a'};
    for (int i = 0; i < 200'000; ++i) {
        std::string value;
        for (auto length = random() % 10; length > 0; --length) {
            value += static_cast<char>(random() % 4 == 0 ? random() : edges[random() % edges.size()]);
        }

        const std::string quoted = text_value(value);

        ASSERT_TRUE(is_printable_utf8(quoted));
        ASSERT_TRUE(quoted.size() >= 2 && quoted.front() == '"' && quoted.back() == '"');
        const std::string_view inside = std::string_view(quoted).substr(1, quoted.size() - 2);
        for (std::size_t at = 0; at < inside.size(); ++at) {
            ASSERT_NE(inside[at], '"') << quoted;
            if (inside[at] != '\\') continue;
            ASSERT_LT(++at, inside.size()) << quoted;
            ASSERT_NE("\"\\nu"sv.find(inside[at]), std::string_view::npos) << quoted;
        }
    }
}

TEST(Log, lines_below_the_level_are_not_written_and_do_not_ask_for_the_time) {
    std::vector<std::string> lines;
    int asked = 0;
    const auto log_at = [&](LogLevel level_min) {
        const auto clock = [&] { return ++asked, morning; };
        Log log({.level_min = level_min, .clock = clock, .write = [&](std::string_view line) {
                     lines.emplace_back(line);
                 }});
        log.debug("a");
        log.info("b");
        log.warn("c");
        log.error("d", {{"n", 1}});
    };

    log_at(LogLevel::warn);

    EXPECT_EQ(lines, (std::vector<std::string>{"2026-11-15T09:00:00.123Z warn  c\n",  //
                                               "2026-11-15T09:00:00.123Z error d n=1\n"}));
    EXPECT_EQ(asked, 2);

    constexpr std::array<std::size_t, 4> expected = {4, 3, 2, 1};
    for (const LogLevel level : {LogLevel::debug, LogLevel::info, LogLevel::warn, LogLevel::error}) {
        lines.clear();
        log_at(level);
        EXPECT_EQ(lines.size(), expected[static_cast<std::size_t>(level)]);
    }
}

TEST(Log, every_call_of_any_thread_writes_one_whole_line) {
    std::mutex mutex;
    std::vector<std::string> lines;
    const auto write = [&](std::string_view line) {
        const std::lock_guard lock(mutex);
        lines.emplace_back(line);
    };
    Log log({.format = LogFormat::json, .clock = [] { return morning; }, .write = write});

    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int k = 0; k < 500; ++k) log.info("e", {{"k", k}, {"text", "two\nlines"}});
        });
    }
    for (std::thread& thread : threads) thread.join();

    ASSERT_EQ(lines.size(), 2000u);
    for (const std::string& line : lines) {
        ASSERT_TRUE(line.starts_with('{') && line.ends_with("}\n") && line.find('\n') == line.size() - 1) << line;
    }
}

TEST(LogDeathTest, a_log_without_a_clock_or_a_place_to_write_is_our_mistake) {
    EXPECT_DEATH(Log({.clock = [] { return morning; }, .write = {}}), "contradiction");
    EXPECT_DEATH(Log({.clock = {}, .write = [](std::string_view) {}}), "contradiction");
}

}  // namespace
}  // namespace interlock
