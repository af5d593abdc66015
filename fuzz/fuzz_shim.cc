// The stream between a shim and the server: it gives the same messages however it is cut, each has one form on the
// wire, and what a message means survives being written again.
//
// The first byte of an input chooses the cuts and whether messages are limited to a few bytes.
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ensure.h"
#include "shim/message.h"
#include "shim/protocol.h"

namespace {

using namespace interlock;
using Texts = std::vector<std::string>;  // A message.

constexpr std::size_t few_bytes = 40;

struct Read {
    std::vector<Texts> messages;
    bool broken = false;
    friend bool operator==(const Read&, const Read&) = default;
};

template <class NextSize>
Read fed(std::string_view stream, bool limited, NextSize next_size) {
    shim::MessageReader reader;
    if (limited) reader.limit(few_bytes);
    Read read;
    while (!stream.empty()) {
        const std::string piece(stream.substr(0, next_size()));
        stream.remove_prefix(piece.size());
        reader.add(piece);
        while (auto message = reader.next()) read.messages.push_back(std::move(*message));
    }
    read.broken = reader.broken();
    ensure(!reader.next(), "a reader that waits or is broken gives nothing");
    return read;
}

std::size_t stated_length(std::string_view bytes) {
    std::size_t length = 0;
    for (std::size_t i = 4; i > 0; --i) length = length << 8 | static_cast<unsigned char>(bytes[i - 1]);
    return length;
}

// The messages are the stream, up to one that is not whole or not a message.
void check_stream(std::string_view stream, bool limited, const Read& read) {
    for (const Texts& message : read.messages) {
        ensure(!message.empty(), "a message has a verb");
        const std::string bytes = shim::encode(message);
        ensure(stream.starts_with(bytes), "a message has one form");
        ensure(!limited || bytes.size() - 4 <= few_bytes, "the limit holds");
        stream.remove_prefix(bytes.size());
    }
    const std::size_t most = limited ? few_bytes : shim::message_bytes_max;
    if (stream.size() < 4) {
        ensure(!read.broken, "what may become a message breaks nothing");
    } else if (stated_length(stream) > most) {
        ensure(read.broken, "a message that is too long breaks the stream");
    } else if (stream.size() - 4 < stated_length(stream)) {
        ensure(!read.broken, "what may become a message breaks nothing");
    } else {
        ensure(read.broken, "a whole message is given out or breaks the stream");
    }
}

// `read` is read_from_shim or read_from_server.
template <class ReadAs>
void check_meaning(const Texts& message, ReadAs read) {
    const auto meaning = read(message);
    if (!meaning) return;
    const Texts written = shim::to_message(*meaning);
    ensure(written.front() == message.front(), "a verb stays");
    ensure(read(written) == meaning, "what is written reads back");
    if (message.front() == "launch") return;  // Has pairs instead of fields.
    Texts longer = written;
    longer.emplace_back("of a newer version");
    ensure(read(longer) == meaning, "a field that is not known changes nothing");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    std::mt19937 random(data[0]);
    const bool limited = (data[0] & 1u) != 0;
    const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);

    const Read whole = fed(stream, limited, [&] { return stream.size(); });
    check_stream(stream, limited, whole);
    ensure(whole == fed(stream, limited, [] { return std::size_t{1}; }), "byte by byte, the same messages");
    ensure(whole == fed(stream, limited, [&] { return 1 + random() % 20; }), "however cut, the same messages");
    for (const Texts& message : whole.messages) {
        check_meaning(message, [](const Texts& texts) { return shim::read_from_shim(texts); });
        check_meaning(message, [](const Texts& texts) { return shim::read_from_server(texts); });
    }
    return 0;
}
