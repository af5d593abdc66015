// The door for shims: a socket in the data directory, and what comes in by it.
//
//   (1) Only this user's processes, and root's, come in.
//   (2) Nothing here waits for a shim: what one does not take at once is kept for it, up to a bound, and a shim that
//       takes nothing for longer than that is shown out. It comes back by itself.
//
// For one thread, but for wake().
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/strong.h"
#include "shim/fd.h"
#include "shim/message.h"

namespace interlock::supervisor {

using Guest = Strong<struct GuestTag, std::uint64_t>;

class ShimDoor {
 public:
    static constexpr const char* name = "supervisor.sock";
    static constexpr std::size_t unsent_max = std::size_t{8} << 20;

    // In this directory; what a server before left there is replaced. The error is a sentence.
    static Result<std::unique_ptr<ShimDoor>, std::string> open(const std::string& directory);

    struct Heard {
        Guest guest;
        pid_t process = 0;                     // Whose it is, by the system's word.
        std::optional<shim::Message> message;  // None: it has left.
    };
    // What was said meanwhile; waits for at most this long if it was nothing.
    std::vector<Heard> wait(std::chrono::milliseconds timeout);

    void send(Guest guest, const shim::Message& message);
    void show_out(Guest guest);
    // Ends a wait. From any thread.
    void wake();

 private:
    struct Visit {
        shim::Fd socket;
        pid_t process = 0;
        shim::MessageReader reader = {};
        std::string unsent = {};
        bool asks_to_write = false;
    };

    ShimDoor() = default;
    void let_in();
    bool read_from(Guest guest, Visit& visit, std::vector<Heard>& heard);
    bool write_to(Guest guest, Visit& visit);

    shim::Fd listening_;
    shim::Fd poll_;
    shim::Fd bell_;
    std::uint64_t guests_ = 0;
    std::unordered_map<std::uint64_t, Visit> visits_;
};

}  // namespace interlock::supervisor
