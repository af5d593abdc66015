#include "gateway/ledger_link.h"

#include <algorithm>
#include <utility>

#include "base/id.h"
#include "core/limits.h"

namespace interlock::gateway {
namespace {

constexpr std::chrono::milliseconds interval{100};
constexpr int tries_max = 600;  // About a minute, and by then the lease has lapsed.

core::Command command_of(core::OrgId org, core::CommandKey key, core::CommandBody body) {
    return {.org = org, .key = key, .body = std::move(body)};
}

}  // namespace

LedgerLink::LedgerLink(Options options, Headroom& headroom, Log& log)
    : options_(std::move(options)), headroom_(headroom), log_(log), thread_([this] { run(); }) {}

LedgerLink::~LedgerLink() { close(); }

void LedgerLink::close() {
    {
        const std::lock_guard lock(mutex_);
        if (std::exchange(stopping_, true)) return;
    }
    stop_.notify_all();
    thread_.join();
    repeat();
    write_calls();
}

net::Task<engine::SubmitResult> LedgerLink::ask(core::OrgId org, core::CommandBody body) {
    co_return co_await net::await_answer<engine::SubmitResult>([&](net::Deliver<engine::SubmitResult> deliver) {
        std::vector<engine::Submission> one(1);
        one.front().command = command_of(org, {}, std::move(body));
        one.front().on_answer = std::move(deliver);
        options_.submit(std::move(one));
    });
}

void LedgerLink::keep(core::OrgId org, core::HoldId hold, std::int64_t ttl_s) {
    const Instant extend_at = options_.now() + std::chrono::milliseconds(ttl_s * 1000 / 3);
    const std::lock_guard lock(mutex_);
    kept_[hold.value] = {org, ttl_s, extend_at};
}

void LedgerLink::end(core::OrgId org, core::HoldId hold, core::CommandBody settle_or_release) {
    {
        const std::lock_guard lock(mutex_);
        kept_.erase(hold.value);
    }
    // A settle is kept under its key, which is the hold's id; a release that is said twice finds nothing to release.
    const bool settles = std::holds_alternative<core::SettleHold>(settle_or_release);
    say({org, settles ? core::CommandKey(hold.value) : core::CommandKey(), std::move(settle_or_release)});
}

void LedgerLink::append(core::OrgId org, core::Append turn) {
    say({org, core::CommandKey(options_.fresh_id()), std::move(turn)});
}

void LedgerLink::say(Said said) {
    std::vector<engine::Submission> one(1);
    one.front().command = command_of(said.org, said.key, said.body);
    // The client has its answer, or gets it meanwhile. It keeps its place in the queue: whatever the client does next
    // comes behind it.
    one.front().can_wait = !headroom_.anybody_waits();
    one.front().on_answer = [this, said = std::move(said)](const engine::SubmitResult& answer) {
        const bool again = !answer && answer.error() != engine::SubmitError::key_reused && said.tries < tries_max;
        if (again) {
            const std::lock_guard lock(mutex_);
            unheard_.push_back(said);
            ++unheard_.back().tries;
            return;
        }
        const auto* settled = answer ? std::get_if<core::SettleReply>(&answer->reply) : nullptr;
        const bool refused = settled != nullptr && settled->status != core::HoldStatus::done;
        if (!answer || refused) {
            log_.error("hold_not_settled", {{"hold", to_text("hold", said.key.value)}});
        }
        headroom_.released(said.org);
    };
    options_.submit(std::move(one));
}

void LedgerLink::record(core::OrgId org, core::ModelCall call) {
    const std::lock_guard lock(mutex_);
    calls_[org].push_back(std::move(call));
}

void LedgerLink::run() {
    std::unique_lock lock(mutex_);
    while (!stop_.wait_for(lock, interval, [this] { return stopping_; })) {
        lock.unlock();
        repeat();
        extend_leases();
        write_calls();
        headroom_.tick(std::chrono::steady_clock::now());
        lock.lock();
    }
}

void LedgerLink::repeat() {
    std::vector<Said> again;
    {
        const std::lock_guard lock(mutex_);
        again.swap(unheard_);
    }
    for (Said& said : again) say(std::move(said));
}

void LedgerLink::extend_leases() {
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

void LedgerLink::write_calls() {
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
