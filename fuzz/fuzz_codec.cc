// Bytes in place of a command, a reply or an event: what decodes has one form, and its bytes are that form or what is
// left of it where the last members are at their defaults.
//
// The first byte of an input chooses the type: c, r, and e for anything else.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/codec.h"
#include "base/ensure.h"
#include "core/command.h"
#include "core/event.h"
#include "core/reply.h"

namespace {

template <class T>
void check(std::string_view bytes) {
    const auto value = interlock::decode<T>(bytes);
    if (!value) return;
    const std::string written = interlock::encode(*value);
    ensure(written.starts_with(bytes), "a value has one form");

    const auto again = interlock::decode<T>(written);
    ensure(again.has_value(), "what is written can be read");
    ensure(interlock::encode(*again) == written, "what is written reads back");
    ensure(!interlock::decode<T>(written + '\1'), "nothing stands behind a value");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0]) {
        case 'c':
            check<interlock::core::CommandBody>(bytes);
            break;
        case 'r':
            check<interlock::core::Reply>(bytes);
            break;
        default:
            check<interlock::core::Event>(bytes);
            break;
    }
    return 0;
}
