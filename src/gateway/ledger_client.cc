#include "gateway/ledger_client.h"

#include <algorithm>
#include <utility>

#include <boost/describe/enum_to_string.hpp>

#include "base/id.h"
#include "core/limits.h"

namespace interlock::gateway {
namespace {

constexpr std::chrono::milliseconds interval{100};
constexpr int tries_max = 600;  // About a minute, and by then the lease has lapsed.

core::Command command_of(core::OrgId org, core::CommandKey key, core::CommandBody body) {
    return {.org = org, .key = key, .body = std::move(body)};
}

template <class Status>
std::optional<std::string> unless(Status status, Status good) {
    if (status == good) return std::nullopt;
    return boost::describe::enum_to_string(status, "");
}

// Why a command that the engine has taken was not carried out; nothing: it was.
std::optional<std::string> refusal_in(const core::Reply& reply) {
    if (const auto* settled = std::get_if<core::SettleReply>(&reply)) {
        return unless(settled->status, core::HoldStatus::done);
    }
    if (const auto* appended = std::get_if<core::AppendReply>(&reply)) {
        return unless(appended->status, core::AppendStatus::appended);
    }
    return std::nullopt;
}

}  // namespace

LedgerClient::LedgerClient(Options options, BudgetWaitQueue& budget_waits, Log& log)
    : options_(std::move(options)), budget_waits_(budget_waits), log_(log), thread_([this] { run(); }) {}

LedgerClient::~LedgerClient() { close(); }

void LedgerClient::close() {
    {
        const std::lock_guard lock(mutex_);
        if (std::exchange(stopping_, true)) return;
    }
    stop_.notify_all();
    thread_.join();
    send_again();
    write_calls();
}

net::Task<engine::SubmitResult> LedgerClient::submit(core::OrgId org, core::CommandBody body) {
    co_return co_await net::await_answer<engine::SubmitResult>([&](net::Deliver<engine::SubmitResult> deliver) {
        std::vector<engine::Submission> one(1);
        one.front().command = command_of(org, {}, std::move(body));
        one.front().on_answer = std::move(deliver);
        options_.submit(std::move(one));
    });
}

void LedgerClient::keep_alive(core::OrgId org, core::HoldId hold, std::int64_t ttl_s) {
    const Instant extend_at = options_.now() + std::chrono::milliseconds(ttl_s * 1000 / 3);
    const std::lock_guard lock(mutex_);
    kept_[hold.value] = {org, ttl_s, extend_at};
}

void LedgerClient::stop_extending(core::HoldId hold) {
    const std::lock_guard lock(mutex_);
    kept_.erase(hold.value);
}

// A settlement is kept under its key, which is the hold's id.
void LedgerClient::settle(core::OrgId org, core::HoldId hold, const Settlement& settlement) {
    stop_extending(hold);
    send({.org = org,
          .key = core::CommandKey(hold.value),
          .body = core::SettleHold{.hold = hold,
                                   .cost = settlement.cost,
                                   .usage = settlement.usage,
                                   .calls = 1,
                                   .price = settlement.receipt,
                                   .estimated = settlement.estimated,
                                   .unpriced = settlement.unpriced,
                                   .by = by_gateway},
          .purpose = Purpose::settle,
          .subject = hold.value});
}

// A release that is sent twice finds no hold to release.
void LedgerClient::release(core::OrgId org, core::HoldId hold) {
    stop_extending(hold);
    send({.org = org,
          .key = core::CommandKey(),
          .body = core::ReleaseHold{hold, by_gateway},
          .purpose = Purpose::release,
          .subject = hold.value});
}

void LedgerClient::append(core::OrgId org, core::Append turn) {
    const Id session = turn.session.value;
    send({.org = org,
          .key = core::CommandKey(options_.fresh_id()),
          .body = std::move(turn),
          .purpose = Purpose::append,
          .subject = session});
}

void LedgerClient::send(PendingCommand command) {
    std::vector<engine::Submission> one(1);
    one.front().command = command_of(command.org, command.key, command.body);
    // The client has its answer, or gets it meanwhile. The command keeps its place in the queue, so the client's next
    // command comes behind it.
    one.front().can_wait = !budget_waits_.anybody_waits();
    one.front().on_answer = [this, command = std::move(command)](const engine::SubmitResult& answer) {
        on_answer(command, answer);
    };
    options_.submit(std::move(one));
}

void LedgerClient::on_answer(const PendingCommand& command, const engine::SubmitResult& answer) {
    if (!answer && answer.error() != engine::SubmitError::key_reused && command.tries < tries_max) {
        const std::lock_guard lock(mutex_);
        untaken_.push_back(command);
        ++untaken_.back().tries;
        return;
    }
    if (!answer) {
        log_failure(command, boost::describe::enum_to_string(answer.error(), ""));
    } else if (const auto why = refusal_in(answer->reply)) {
        log_failure(command, *why);
    }
    budget_waits_.released(command.org);
}

void LedgerClient::log_failure(const PendingCommand& command, const std::string& why) {
    switch (command.purpose) {
        case Purpose::settle:
            log_.error("hold_not_settled", {{"hold", to_text("hold", command.subject)}, {"why", why}});
            return;
        case Purpose::release:
            log_.error("hold_not_released", {{"hold", to_text("hold", command.subject)}, {"why", why}});
            return;
        case Purpose::append:
            log_.warn("turn_not_kept", {{"session", to_text("ses", command.subject)}, {"why", why}});
            return;
    }
}

void LedgerClient::record(core::OrgId org, core::ModelCall call) {
    const std::lock_guard lock(mutex_);
    calls_[org].push_back(std::move(call));
}

void LedgerClient::run() {
    std::unique_lock lock(mutex_);
    while (!stop_.wait_for(lock, interval, [this] { return stopping_; })) {
        lock.unlock();
        send_again();
        extend_leases();
        write_calls();
        budget_waits_.tick(std::chrono::steady_clock::now());
        lock.lock();
    }
}

void LedgerClient::send_again() {
    std::vector<PendingCommand> again;
    {
        const std::lock_guard lock(mutex_);
        again.swap(untaken_);
    }
    for (PendingCommand& command : again) send(std::move(command));
}

void LedgerClient::extend_leases() {
    const Instant now = options_.now();
    std::vector<engine::Submission> submissions;
    {
        const std::lock_guard lock(mutex_);
        for (auto& [id, kept] : kept_) {
            if (kept.extend_at > now) continue;
            kept.extend_at = now + std::chrono::milliseconds(kept.ttl_s * 1000 / 3);
            engine::Submission& extend = submissions.emplace_back();
            extend.command = command_of(kept.org, {}, core::ExtendHold{core::HoldId(id), kept.ttl_s, true, by_gateway});
            extend.on_answer = [](const engine::SubmitResult&) {};
            extend.can_wait = true;
        }
    }
    if (!submissions.empty()) options_.submit(std::move(submissions));
}

void LedgerClient::write_calls() {
    std::map<core::OrgId, std::vector<core::ModelCall>> calls;
    {
        const std::lock_guard lock(mutex_);
        calls.swap(calls_);
    }
    std::vector<engine::Submission> submissions;
    for (auto& [org, rows] : calls) {
        for (std::size_t begin = 0; begin < rows.size(); begin += core::limits::calls_per_record_max) {
            const std::size_t end = std::min(rows.size(), begin + core::limits::calls_per_record_max);
            core::RecordCalls body;
            std::move(rows.begin() + static_cast<std::ptrdiff_t>(begin),
                      rows.begin() + static_cast<std::ptrdiff_t>(end), std::back_inserter(body.calls));
            engine::Submission& record = submissions.emplace_back();
            record.command = command_of(org, core::CommandKey(options_.fresh_id()), std::move(body));
            record.can_wait = true;
            // No retry: a call that was not recorded was charged all the same.
            record.on_answer = [this](const engine::SubmitResult& answer) {
                const auto* reply = answer ? std::get_if<core::CallsReply>(&answer->reply) : nullptr;
                const bool whole = reply != nullptr && reply->detail.empty();
                if (!whole)
                    log_.warn("calls_not_recorded", {{"why", reply != nullptr ? reply->detail : "not committed"}});
            };
        }
    }
    if (!submissions.empty()) options_.submit(std::move(submissions));
}

}  // namespace interlock::gateway
