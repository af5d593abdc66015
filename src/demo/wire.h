// What the two processes of the demo say to each other: the simulated agents here, the engine there.
//
// A frame is the length of its bytes in four bytes, low end first, and the bytes: a DemoCommand or a DemoEvent, in the
// form of base/codec.h. Both ends are the same program, so there is no version.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <boost/describe/class.hpp>

#include "base/codec.h"
#include "core/command.h"
#include "engine/engine.h"

namespace interlock::demo {

// From an agent to the engine.
struct DemoCommand {
    std::uint64_t number = 0;  // Repeated by the answer.
    core::CommandKey key;
    std::string body;  // An encoded core::CommandBody: kept as it was sent, to be sent again.
};
BOOST_DESCRIBE_STRUCT(DemoCommand, (), (number, key, body))

// From the engine to the agents.
struct StoreOpened {};
BOOST_DESCRIBE_STRUCT(StoreOpened, (), ())
struct StoreNotOpened {
    std::string why;
};
BOOST_DESCRIBE_STRUCT(StoreNotOpened, (), (why))
struct DemoAnswer {
    std::uint64_t number = 0;
    std::optional<engine::SubmitError> error;
    bool repeated = false;
    std::string reply;  // Encoded: compared byte by byte with what was said before.
};
BOOST_DESCRIBE_STRUCT(DemoAnswer, (), (number, error, repeated, reply))
struct Granted {  // A run that waited in line has its place now. Said again and again until it has started.
    core::RunId run;
    core::Fence fence;
};
BOOST_DESCRIBE_STRUCT(Granted, (), (run, fence))
struct Commits {  // Since the process began.
    std::uint64_t count = 0;
};
BOOST_DESCRIBE_STRUCT(Commits, (), (count))

using DemoEvent = std::variant<StoreOpened, StoreNotOpened, DemoAnswer, Granted, Commits>;

void append_frame(std::string& to, std::string_view bytes);

// Finds the frames in a stream of bytes.
class Frames {
 public:
    void add(std::string_view bytes);
    // Good until the next add().
    std::optional<std::string_view> next();

 private:
    std::string bytes_;
    std::size_t read_ = 0;
};

}  // namespace interlock::demo
