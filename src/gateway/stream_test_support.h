// For tests: streams as providers send them, cut in every way.
#pragma once

#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "gateway/call_request_test_support.h"
#include "gateway/usage.h"

namespace interlock::gateway {

// A file of src/gateway/dialects/recorded.
inline std::string recorded(const std::string& name) {
    std::ifstream file(INTERLOCK_RECORDED_STREAMS "/" + name, std::ios::binary);
    EXPECT_TRUE(file) << name;
    return std::string(std::istreambuf_iterator<char>(file), {});
}
// What stands before a text that is in the stream, and what begins with it.
inline std::pair<std::string, std::string> cut_at(const std::string& stream, std::string_view text) {
    const std::size_t at = stream.find(text);
    EXPECT_NE(at, std::string::npos) << text;
    return {stream.substr(0, at), stream.substr(std::min(at, stream.size()))};
}

struct ChatStream {
    std::string begin;
    std::string usage;  // The event that has usage and nothing else.
    std::string done;
    std::string all() const { return begin + usage + done; }
};
inline ChatStream recorded_chat() {
    auto [before_done, done] = cut_at(recorded("openai_chat.sse"), "data: [DONE]");
    const std::size_t last = before_done.rfind("data: ");
    return {before_done.substr(0, last), before_done.substr(last), std::move(done)};
}

// The data of the two events of gemini.sse.
inline std::pair<std::string, std::string> recorded_objects() {
    const auto [before, last] = cut_at(recorded("gemini.sse"), "\n\ndata: ");
    return {before.substr(6), last.substr(8, last.size() - 10)};
}

inline Metered read_answer(Operation operation, std::string_view body) {
    return read_usage(route_of_operation(operation), body, KeepText::yes);
}

struct Outcome {
    std::string passed;
    Metered metered;
    bool ended = false;
};

template <class NextSize>
Outcome fed(Operation operation, bool strip, std::string_view stream, NextSize&& next_size) {
    StreamMeter meter(route_of_operation(operation), strip, KeepText::yes);
    Outcome outcome;
    while (!stream.empty()) {
        // A copy that ends with the piece, so that reading past it or keeping a view of it is found out.
        const std::string piece(stream.substr(0, next_size()));
        stream.remove_prefix(piece.size());
        outcome.passed.append(meter.feed(piece));
    }
    outcome.passed.append(meter.finish());
    outcome.metered = meter.metered();
    outcome.ended = meter.ended();
    return outcome;
}

inline void expect_same(const Outcome& a, const Outcome& b) {
    EXPECT_EQ(a.passed, b.passed);
    EXPECT_EQ(a.ended, b.ended);
    EXPECT_EQ(a.metered.usage, b.metered.usage);
    EXPECT_EQ(a.metered.reported, b.metered.reported);
    EXPECT_EQ(a.metered.input_reported, b.metered.input_reported);
    EXPECT_EQ(a.metered.paid_tools, b.metered.paid_tools);
    EXPECT_EQ(a.metered.finish, b.metered.finish);
    EXPECT_EQ(a.metered.model, b.metered.model);
    EXPECT_EQ(a.metered.text, b.metered.text);
    EXPECT_EQ(a.metered.stated_cost, b.metered.stated_cost);
}

// Invariant (2): whole, byte by byte and at random places the same. Gives back the outcome.
inline Outcome meter(Operation operation, bool strip, const std::string& stream) {
    const Outcome whole = fed(operation, strip, stream, [&] { return stream.size(); });
    expect_same(whole, fed(operation, strip, stream, [] { return std::size_t{1}; }));
    std::mt19937 random(11);
    for (int i = 0; i < 200; ++i) {
        expect_same(whole, fed(operation, strip, stream, [&] { return 1 + random() % (i % 2 == 0 ? 10 : 200); }));
        if (testing::Test::HasFailure()) break;
    }
    if (!strip) EXPECT_EQ(whole.passed, stream);
    return whole;
}

inline std::string with_line_ends(std::string stream, std::string_view line_end) {
    std::string changed;
    for (const char c : stream) c == '\n' ? changed.append(line_end) : changed.append(1, c);
    return changed;
}

}  // namespace interlock::gateway
