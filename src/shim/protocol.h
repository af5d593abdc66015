// The messages between a shim and the server, as types, and their one codec. docs/internals/supervisor.md lists them.
//
//   (1) Runs outlive an upgrade of the server, so both sides read the messages of the previous release. A new field has
//       a default and goes to the end of its message. A field keeps its meaning for good.
//   (2) A message with an unknown verb, with too few fields or with a field that is not of its kind is not decoded.
//       The receiver ignores it. Fields beyond the known ones are ignored too.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "shim/message.h"

namespace interlock::shim {

// 1: hello without a secret. 2: hello and ended carry the shim's secret. 3: ended says what its code is.
constexpr int protocol_version = 3;

enum class ShimPhase { waiting, running, ended };
// How a run ended, as its shim saw it. `none`: it has not.
enum class How { none, exited, signaled, stopped, timed_out, not_started };
// What the code of an end is. `unknown`: a shim before version 3 did not say.
enum class CodeIs { unknown, exit_code, signal };

std::string_view text_of(ShimPhase phase);
std::string_view text_of(How how);
std::string_view text_of(CodeIs code_is);
std::optional<ShimPhase> phase_of(std::string_view text);
// An unknown text comes from a newer shim. The run has ended all the same, in a way that has no exit code here.
How how_of(std::string_view text);
CodeIs code_is_of(std::string_view text);

// ---- from a shim ----

struct Hello {
    int version = protocol_version;
    std::string run = {};
    pid_t pid = 0;
    std::string start = {};
    std::string boot = {};
    ShimPhase phase = ShimPhase::waiting;
    pid_t child_pid = 0;  // 0: the run has no process yet.
    std::string child_start = {};
    bool foreground = false;
    std::string secret = {};  // Since version 2.

    friend bool operator==(const Hello&, const Hello&) = default;
};

struct Beat {
    std::int64_t log_end = 0, hole_begin = 0, hole_end = 0;

    friend bool operator==(const Beat&, const Beat&) = default;
};

struct Started {
    pid_t child_pid = 0;
    std::string child_start = {};
    std::string note = {};
    std::string level = {};  // Of the sandbox; "" from shims before the levels.

    friend bool operator==(const Started&, const Started&) = default;
};

struct Paused {
    friend bool operator==(const Paused&, const Paused&) = default;
};

struct Resumed {
    friend bool operator==(const Resumed&, const Resumed&) = default;
};

struct Ended {
    How how = How::none;
    int code = 0;
    std::string detail = {};
    std::int64_t user_ms = 0, system_ms = 0, max_rss_kb = 0;
    std::string secret = {};           // Since version 2.
    CodeIs code_is = CodeIs::unknown;  // Since version 3.

    friend bool operator==(const Ended&, const Ended&) = default;
};

// Comes with a descriptor: the listening socket of a sealed run (entrance.h).
struct Entrance {
    friend bool operator==(const Entrance&, const Entrance&) = default;
};

using FromShim = std::variant<Hello, Beat, Started, Paused, Resumed, Ended, Entrance>;

// ---- from the server ----

struct Wait {
    std::string text = {};

    friend bool operator==(const Wait&, const Wait&) = default;
};

// Pairs of key and value behind the verb; see launch.h. Unknown keys come from a newer server and are ignored.
struct LaunchOrder {
    ShimMessage message = {};

    friend bool operator==(const LaunchOrder&, const LaunchOrder&) = default;
};

struct Refused {
    std::string why = {};
    int code = 1;

    friend bool operator==(const Refused&, const Refused&) = default;
};

struct Stop {
    std::string reason = {};

    friend bool operator==(const Stop&, const Stop&) = default;
};

struct Pause {
    friend bool operator==(const Pause&, const Pause&) = default;
};

struct Resume {
    friend bool operator==(const Resume&, const Resume&) = default;
};

struct Fenced {
    std::string why = {};

    friend bool operator==(const Fenced&, const Fenced&) = default;
};

struct Done {
    std::string receipt = {};

    friend bool operator==(const Done&, const Done&) = default;
};

using FromServer = std::variant<Wait, LaunchOrder, Refused, Stop, Pause, Resume, Fenced, Done>;

ShimMessage to_message(const FromShim& message);
ShimMessage to_message(const FromServer& message);
std::optional<FromShim> read_from_shim(const ShimMessage& message);
std::optional<FromServer> read_from_server(const ShimMessage& message);

}  // namespace interlock::shim
