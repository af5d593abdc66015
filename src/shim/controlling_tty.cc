#include "shim/controlling_tty.h"

#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <csignal>

namespace interlock::shim {
namespace {

constexpr int user_wait_ms = 1'000;

// Texts name directories and reasons that other people chose. Control characters in them, C1 ones included, would act
// on the terminal, so each becomes a '?'.
std::string printable(std::string_view text) {
    std::string shown;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const bool is_c1 = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
        if (is_c1) ++i;
        shown += is_c1 || byte < 0x20 || byte == 0x7f ? '?' : text[i];
    }
    return shown;
}

// A terminal that was told to stop (Ctrl-S), or a reader that went to sleep, must not keep us from the run.
void write_to_user(std::string_view text) {
    pollfd wait{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (poll(&wait, 1, user_wait_ms) > 0) write_all(STDERR_FILENO, text);
}

}  // namespace

ControllingTty ControllingTty::of_this_process() {
    ControllingTty terminal;
    terminal.tty_ = Fd(open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
    if (terminal.tty_ && tcgetattr(terminal.tty_.get(), &terminal.modes_) != 0) terminal.tty_.reset();
    return terminal;
}

bool ControllingTty::ours() const { return tty_ && tcgetpgrp(tty_.get()) == getpgrp(); }

bool ControllingTty::wanted_at_once() const {
    return ours() && tcgetsid(STDIN_FILENO) == getsid(0) && isatty(STDOUT_FILENO) == 1;
}

bool ControllingTty::give(pid_t group) {
    if (!tty_ || tcsetpgrp(tty_.get(), group) != 0) return false;
    if (has_modes_of_run_) tcsetattr(tty_.get(), TCSANOW, &modes_of_run_);
    return true;
}

void ControllingTty::take_back(pid_t group) {
    if (!tty_ || tcgetpgrp(tty_.get()) != group) return;
    has_modes_of_run_ = tcgetattr(tty_.get(), &modes_of_run_) == 0;
    tcsetpgrp(tty_.get(), getpgrp());
    tcsetattr(tty_.get(), TCSANOW, &modes_);
}

void ControllingTty::stop_ourselves(int signal) {
    kill(0, signal);
    // Ours is blocked: it takes effect here, and here we go on.
    sigset_t only_this;
    sigemptyset(&only_this);
    sigaddset(&only_this, signal);
    sigprocmask(SIG_UNBLOCK, &only_this, nullptr);
    sigprocmask(SIG_BLOCK, &only_this, nullptr);
}

void StatusLine::show(const std::string& raw) {
    const std::string text = printable(raw);
    if (text == shown_) return;
    shown_ = text;
    winsize size{};
    if (isatty(STDERR_FILENO) != 1) {
        say(text);
        return;
    }
    // A line that wraps could not be rewritten. No character is cut in two.
    std::size_t length = text.size();
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) {
        length = std::min<std::size_t>(length, size.ws_col - 1U);
        while (length < text.size() && length > 0 && (text[length] & 0xc0) == 0x80) --length;
    }
    write_to_user("\r\033[K" + text.substr(0, length));
}

void StatusLine::clear() {
    if (!shown_.empty() && isatty(STDERR_FILENO) == 1) write_to_user("\r\033[K");
    shown_.clear();
}

void say(std::string_view text) { write_to_user(printable(text) + "\n"); }

}  // namespace interlock::shim
