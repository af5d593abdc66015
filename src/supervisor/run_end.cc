#include "supervisor/run_end.h"

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include <fmt/format.h>

#include "base/id.h"
#include "base/text.h"
#include "core/limits.h"

namespace interlock::supervisor {
namespace {

// For a shim that ends its run after the timeout and the grace period.
constexpr std::chrono::seconds timeout_margin{5};

std::string signal_name(int signal) {
    const char* name = ::sigabbrev_np(signal);
    return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

// As a shell has it: 128 and the signal. -1: the shim is of a release that did not say whether the code is a signal.
std::int32_t exit_code_of(const shim::Ended& ended) {
    using shim::CodeIs, shim::How;
    const bool by_signal = ended.how == How::signaled || ended.code_is == CodeIs::signal;
    const bool by_exit =
        ended.how == How::exited || ended.how == How::not_started || ended.code_is == CodeIs::exit_code;
    if (!by_signal && !by_exit) return -1;
    return std::clamp(by_signal ? 128 + ended.code : ended.code, 0, 255);
}

}  // namespace

std::string bounded(const std::string& reason) {
    std::string line = as_line(reason);
    if (line.size() <= core::limits::text_bytes_max) return line;
    std::size_t end = core::limits::text_bytes_max - std::strlen("…");
    while (end > 0 && (line[end] & 0xc0) == 0x80) --end;  // No character is cut in two.
    line.resize(end);
    return line + "…";
}

core::CommandBody end_of(core::RunId run, core::Fence fence, bool foreground, const std::string& stop,
                         const shim::Ended& ended) {
    using shim::How;
    const auto& [how, code, detail] = std::tie(ended.how, ended.code, ended.detail);
    core::FinishRun finish{run, fence, core::RunState::failed, {}, {}};
    finish.exit_code = exit_code_of(ended);
    // Only a committed request to stop makes a run cancelled. The run itself can send its shim a signal.
    if (!stop.empty() && (how == How::stopped || how == How::not_started)) {
        core::CancelRun cancel{run, fence, stop, {}};
        cancel.exit_code = finish.exit_code;
        return cancel;
    }
    const bool interrupted = code == SIGINT || code == SIGTERM || code == SIGHUP || code == SIGQUIT;
    if (foreground && how == How::signaled && interrupted) {
        core::CancelRun cancel{run, fence, "interrupted by " + signal_name(code), {}};
        cancel.exit_code = finish.exit_code;
        return cancel;
    }
    if (how == How::exited && code == 0) {
        finish.outcome = core::RunState::succeeded;
    } else if (how == How::exited) {
        finish.reason = fmt::format("exit code {}", code);
    } else if (how == How::signaled) {
        finish.reason = "killed by " + signal_name(code);
    } else if (how == How::stopped) {
        finish.reason = "its shim received a signal that Interlock did not send";
    } else if (how == How::timed_out) {
        finish.outcome = core::RunState::timed_out;
        finish.reason = "it ran for longer than it may";
    } else {
        finish.reason = detail.empty() ? "it could not be started" : detail;
    }
    return finish;
}

core::CommandKey key_of_end(core::RunId run, core::Fence fence, const core::CommandBody& end) {
    if (std::holds_alternative<core::LoseRun>(end)) return {};
    return core::CommandKey(id_from_hash(fmt::format("end of {} {}", to_text("run", run.value), fence.value)));
}

core::CommandBody with_keeper(core::CommandBody end, const std::string& process) {
    auto* lose = std::get_if<core::LoseRun>(&end);
    if (lose != nullptr && !process.empty()) {
        lose->reason += fmt::format("; it kept its place until another process was gone ({})", process);
    }
    return end;
}

std::optional<std::chrono::seconds> ends_within(const core::ProcessSpec& process) {
    if (process.timeout_s == 0) return std::nullopt;
    return std::chrono::seconds(process.timeout_s) + std::chrono::seconds(process.grace_s) + timeout_margin;
}

void bound_reason(core::CommandBody& end) {
    if (auto* finish = std::get_if<core::FinishRun>(&end)) finish->reason = bounded(finish->reason);
    if (auto* cancel = std::get_if<core::CancelRun>(&end)) cancel->reason = bounded(cancel->reason);
    if (auto* lose = std::get_if<core::LoseRun>(&end)) lose->reason = bounded(lose->reason);
}

}  // namespace interlock::supervisor
