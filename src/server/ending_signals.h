// SIGINT and SIGTERM, or others, taken as the wish that a server end in order. Made before any thread begins, so that
// only wait() gets them; a client that has gone is no signal either.
#pragma once

#include <signal.h>

#include <cerrno>
#include <chrono>
#include <initializer_list>
#include <string_view>

namespace interlock::server {

class EndingSignals {
 public:
    explicit EndingSignals(std::initializer_list<int> which = {SIGINT, SIGTERM}) {
        sigemptyset(&signals_);
        for (const int each : which) {
            // Whoever was started by nohup is to stay when the terminal goes.
            struct sigaction now{};
            const bool nohup = each == SIGHUP && sigaction(each, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
            if (!nohup) sigaddset(&signals_, each);
        }
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
    // The same, but not for longer than this.
    void wait_for(std::chrono::duration<double> time) {
        const auto end = std::chrono::steady_clock::now() + time;
        auto left = time;
        // Other signals, such as the end of a child, interrupt it.
        while (left.count() > 0) {
            const auto seconds = static_cast<time_t>(left.count());
            const timespec timeout{seconds, static_cast<long>((left.count() - static_cast<double>(seconds)) * 1e9)};
            if (sigtimedwait(&signals_, nullptr, &timeout) >= 0 || errno != EINTR) break;
            left = end - std::chrono::steady_clock::now();
        }
        pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
    }

 private:
    sigset_t signals_;
};

}  // namespace interlock::server
