// An answer, whatever it is: however its bytes are cut, the same is metered and the same is passed on; without
// stripping, what is passed on is what came.
//
// The first byte of an input chooses the API (c, r, m, g), in upper case with stripping; the second one the cuts.
#include <cctype>
#include <random>

#include "base/ensure.h"
#include "fuzz/routes.h"
#include "gateway/dialect.h"
#include "gateway/usage.h"

namespace {

using namespace interlock::gateway;

struct Outcome {
    std::string passed;
    Metered metered;
    bool ended;
};

template <class NextSize>
Outcome fed(const ModelRoute& route, bool strip, KeepText keep, std::string_view stream, NextSize&& next_size) {
    StreamMeter meter(route, strip, keep);
    std::string passed;
    while (!stream.empty()) {
        const std::string piece(stream.substr(0, next_size()));
        stream.remove_prefix(piece.size());
        passed.append(meter.feed(piece));
    }
    passed.append(meter.finish());
    return {std::move(passed), meter.metered(), meter.ended()};
}

void check_counts(const Metered& metered) {
    const interlock::Usage& usage = metered.usage;
    for (const std::int64_t count :
         {usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens,
          usage.cache_write_1h_tokens, usage.reasoning_tokens, metered.audio_input_tokens, metered.audio_output_tokens,
          metered.paid_tools, metered.prompt_tokens}) {
        ensure(count >= 0, "nothing is counted below zero");
    }
    ensure(metered.audio_input_tokens <= usage.input_tokens, "audio is a part of the input");
    ensure(metered.audio_output_tokens <= usage.output_tokens, "audio is a part of the output");
    ensure(!metered.reported || metered.input_reported, "all of it has the input in it");
}

void check_same(const Outcome& a, const Outcome& b) {
    ensure(a.passed == b.passed, "the same bytes go on");
    ensure(a.ended == b.ended, "the same end is seen");
    ensure(a.metered.usage == b.metered.usage && a.metered.reported == b.metered.reported &&
               a.metered.input_reported == b.metered.input_reported && a.metered.paid_tools == b.metered.paid_tools &&
               a.metered.prompt_tokens == b.metered.prompt_tokens && a.metered.text == b.metered.text &&
               a.metered.model == b.metered.model && a.metered.finish == b.metered.finish &&
               a.metered.stated_cost == b.metered.stated_cost,
           "the same is metered");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const char api = static_cast<char>(data[0]);
    const ModelRoute route = route_for(static_cast<char>(std::tolower(static_cast<unsigned char>(api))));
    const bool strip = std::isupper(static_cast<unsigned char>(api)) != 0;
    std::mt19937 random(data[1]);
    const std::string stream(reinterpret_cast<const char*>(data) + 2, size - 2);

    for (const KeepText keep : {KeepText::no, KeepText::yes}) {
        const Outcome whole = fed(route, strip, keep, stream, [&] { return stream.size(); });
        check_counts(whole.metered);
        ensure((strip && route.dialect().has_usage_event()) || whole.passed == stream, "what goes on is what came");
        ensure(whole.passed.size() <= stream.size(), "nothing is added");
        check_same(whole, fed(route, strip, keep, stream, [] { return std::size_t{1}; }));
        check_same(whole, fed(route, strip, keep, stream, [&] { return 1 + random() % 40; }));
        check_counts(read_usage(route, stream, keep));
    }
    return 0;
}
