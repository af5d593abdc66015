// For tests: an engine that gives every hold that it is asked for, and keeps books of what became of it.
#pragma once

#include <mutex>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/ledger_client.h"

namespace interlock::gateway {

class FakeLedger {
 public:
    LedgerClient::Options options() {
        return {.submit = [this](std::vector<engine::Submission> some) { submit(std::move(some)); },
                .now = [] { return from_micros(1'000'000); },
                .fresh_id = [this] { return fresh_id(); }};
    }
    Id fresh_id() {
        const std::lock_guard lock(mutex_);
        return {7, ++last_id_};
    }
    // The answer to all next commands; nothing: as they should be answered.
    void say(std::optional<engine::SubmitResult> answer) {
        const std::lock_guard lock(mutex_);
        answer_ = std::move(answer);
    }

    std::size_t open() const {
        const std::lock_guard lock(mutex_);
        return open_.size();
    }
    std::vector<core::SettleHold> settled() const {
        const std::lock_guard lock(mutex_);
        return settled_;
    }
    std::size_t released() const {
        const std::lock_guard lock(mutex_);
        return released_;
    }

 private:
    void submit(std::vector<engine::Submission> some) {
        for (engine::Submission& one : some) one.on_answer(answer_to(one.command.body));
    }

    engine::SubmitResult answer_to(const core::CommandBody& body) {
        const std::lock_guard lock(mutex_);
        if (answer_) return *answer_;
        if (const auto* reserve = std::get_if<core::Reserve>(&body)) {
            open_.insert(reserve->hold.value);
            core::ReserveReply reply;
            reply.hold = reserve->hold;
            reply.bound = reserve->bound;
            reply.left = 0;
            return engine::CommandResult{.reply = std::move(reply)};
        }
        if (const auto* settle = std::get_if<core::SettleHold>(&body)) {
            settled_.push_back(*settle);
            return end(settle->hold);
        }
        if (const auto* release = std::get_if<core::ReleaseHold>(&body)) {
            ++released_;
            return end(release->hold);
        }
        if (std::holds_alternative<core::Append>(body)) return engine::CommandResult{.reply = core::AppendReply{}};
        return engine::CommandResult{.reply = core::CallsReply{}};
    }

    engine::SubmitResult end(core::HoldId hold) {
        core::SettleReply reply;
        if (open_.erase(hold.value) == 0) reply.status = core::HoldStatus::hold_not_found;
        return engine::CommandResult{.reply = std::move(reply)};
    }

    mutable std::mutex mutex_;
    std::uint64_t last_id_ = 0;
    std::optional<engine::SubmitResult> answer_;
    std::set<Id> open_;
    std::vector<core::SettleHold> settled_;
    std::size_t released_ = 0;
};

}  // namespace interlock::gateway
