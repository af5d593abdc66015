// The door for shims: a socket in the data directory, and what comes in by it.
//
//   (1) Only this user's processes, and root's, come in.
//   (2) A connection is a stranger's until admit() is called for its guest. A stranger has one second and messages of
//       64 KiB. There is room for two strangers per live run and a few more; then the oldest gives way to a new one.
//   (3) Nothing here waits for a shim: what one does not take at once is kept for it, up to a bound, and a shim that
//       takes nothing for longer than that is shown out. It comes back by itself.
//
// For one thread, but for wake().
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "shim/fd.h"
#include "shim/message.h"
#include "shim/protocol.h"
#include "supervisor/connection_id.h"

namespace interlock::supervisor {

class ShimListener {
 public:
    static constexpr const char* name = "supervisor.sock";
    static constexpr std::size_t unsent_max = std::size_t{8} << 20;
    static constexpr std::size_t strangers_per_run = 2, strangers_beside = 16;
    static constexpr std::size_t message_of_stranger_max = std::size_t{64} << 10;
    static constexpr std::chrono::milliseconds stranger_stays{1000};

    // In this directory; what a server before left there is replaced. The error is a sentence.
    static Result<std::unique_ptr<ShimListener>, std::string> open(const std::string& directory);

    struct Heard {
        ConnectionId connection;
        pid_t process = 0;                      // Whose it is, by the system's word.
        std::optional<shim::FromShim> message;  // None: it has left.
        shim::Fd entrance = {};                 // Came with shim::Entrance.
    };
    // What was said meanwhile; waits for at most this long if it was nothing.
    std::vector<Heard> wait(std::chrono::milliseconds timeout);

    // A descriptor that is given goes with the message; the guest gets one of its own.
    void send(ConnectionId connection, const shim::FromServer& message, const shim::Fd& with = {});
    // The guest has proven whose shim it is.
    void admit(ConnectionId connection);
    void set_live_runs(std::size_t count) { live_runs_ = count; }
    void show_out(ConnectionId connection);
    // Ends a wait. From any thread.
    void wake();

 private:
    struct Visit {
        shim::Fd socket;
        pid_t process = 0;
        shim::MessageReader reader = {};
        std::string unsent = {};
        shim::Fd passing = {};  // Goes with the first of what is unsent, so it is there before the message is whole.
        bool asks_to_write = false;
        shim::Fd entrance = {};  // Its message has not come whole. One at a time: a stranger cannot fill our table.
    };

    ShimListener() = default;
    void let_in();
    void end_long_stays(std::vector<Heard>& heard);
    bool read_from(ConnectionId connection, Visit& visit, std::vector<Heard>& heard);
    bool write_to(ConnectionId connection, Visit& visit);

    shim::Fd listening_;
    shim::Fd poll_;
    shim::Fd wake_up_;
    std::uint64_t connections_ = 0;
    std::size_t live_runs_ = 0;
    bool knocked_ = false;
    std::map<std::uint64_t, std::chrono::steady_clock::time_point> strangers_;  // In the order of their coming.
    std::unordered_map<std::uint64_t, Visit> visits_;
};

}  // namespace interlock::supervisor
