// SIGINT and SIGTERM, taken as the wish that a server end in order. Made before any thread begins, so that only wait()
// gets them; a client that has gone is no signal either.
#pragma once

#include <signal.h>

#include <string_view>

namespace interlock::server {

class EndingSignals {
 public:
    EndingSignals() {
        sigemptyset(&signals_);
        sigaddset(&signals_, SIGINT);
        sigaddset(&signals_, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
        signal(SIGPIPE, SIG_IGN);
    }
    EndingSignals(const EndingSignals&) = delete;
    EndingSignals& operator=(const EndingSignals&) = delete;

    // Which one came. A second one ends the process at once.
    std::string_view wait() {
        int number = 0;
        sigwait(&signals_, &number);
        pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
        return number == SIGINT ? "SIGINT" : "SIGTERM";
    }

 private:
    sigset_t signals_;
};

}  // namespace interlock::server
