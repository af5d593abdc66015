#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/ensure.h"

namespace interlock::engine {
namespace {

std::size_t bytes_of(const core::CommandBody& body) {
    const auto* append = std::get_if<core::Append>(&body);
    if (append == nullptr) return 0;
    std::size_t bytes = 0;
    for (const core::NewMessage& message : append->messages) bytes += message.content.size() + message.metadata.size();
    return bytes;
}

// How long a store that could not be opened is left alone when nobody asks for it.
constexpr std::chrono::seconds retry_interval{1};

store::OrgWrites writes_of(core::OrgState& state, const store::SealKey& key, Instant now) {
    store::OrgWrites writes{.org = state.id, .rows = {}};
    state.collect([&]<class Row>(const Row& row) { writes.of<Row>().put.push_back(&row); },
                  [&]<class Row>(const core::KeyOf<Row>& key) { writes.of<Row>().erased.push_back(key); });
    core::FeedPage* page = state.feed.has_page() ? &state.feed.seal(now) : nullptr;
    if (page != nullptr) writes.of<core::FeedPage>().put.push_back(page);
    writes.follows = state.last_seal.number;
    state.last_seal = store::seal_of(writes, state.last_seal, key, page != nullptr ? page->at : now);
    if (page != nullptr) {
        store::put_seal(*page, state.last_seal);
    } else {
        writes.of<core::Seal>().put.push_back(&state.last_seal);
    }
    return writes;
}

}  // namespace

Engine::Engine(store::Store& store, Options options) : store_(store), options_(options), machine_(store) {
    ensure(options_.queue_max > 0 && options_.batch_max > 0, "an engine has room for a command");
}

Result<void, store::OpenError> Engine::open(Instant now) try {
    ready_ = false;
    if (auto opened = store_.open(); !opened) return opened;
    const auto unreadable = [] {
        return fail(
            store::OpenError{store::OpenError::Kind::unavailable, "the store opened, but its rows cannot be read"});
    };
    const auto newest = store_.newest_key();
    if (!newest) return unreadable();
    machine_.forget_everything(*newest);
    const auto loaded = store_.load_live([this](core::OrgId org, store::LiveRow&& row) {
        std::visit([&](auto& kind) { machine_.org(org).adopt(std::move(kind)); }, row);
    });
    if (!loaded) return unreadable();
    last_now_ = std::max(last_now_, now);
    for (auto& [org, state] : machine_.orgs()) {
        if (auto sealed = seal_older_rows(*state, last_now_); !sealed) return sealed;
    }
    for (auto& [org, state] : machine_.orgs())
        machine_.apply({last_now_}, {.org = org, .key = {}, .body = core::Reopened{}});
    ready_ = true;
    return {};
} catch (const core::SourceFailed&) {
    return fail(store::OpenError{store::OpenError::Kind::unavailable, "the store opened, but a row cannot be read"});
}

// An org that a version without seals wrote: what it has now is what later checks compare with.
Result<void, store::OpenError> Engine::seal_older_rows(core::OrgState& state, Instant now) {
    if (state.last_seal.number > 0 || state.feed.last_seq().value == 0) return {};
    const auto unavailable = [](std::string why) {
        return fail(store::OpenError{store::OpenError::Kind::unavailable, "cannot seal the stored rows: " + why});
    };
    auto snapshot = store_.snapshot();
    if (!snapshot) return unavailable(snapshot.error().detail);
    const auto seals = store::seals_of_stored_rows(**snapshot, state.id, options_.seal_key, now);
    if (!seals) return unavailable(seals.error().detail);
    store::WriteSet writes;
    store::OrgWrites& of_org = writes.orgs.emplace_back(store::OrgWrites{.org = state.id, .rows = {}});
    of_org.follows = 0;
    for (const core::Seal& seal : *seals) of_org.of<core::Seal>().put.push_back(&seal);
    if (auto committed = store_.commit(writes); !committed) return unavailable(committed.error().detail);
    state.adopt(seals->back());
    return {};
}

void Engine::submit(Submission submission) {
    std::vector<Submission> one;
    one.push_back(std::move(submission));
    submit(std::move(one));
}

void Engine::submit(std::vector<Submission> submissions) {
    // Work that needs no order is done here, by the caller's own thread.
    for (Submission& submission : submissions) {
        ensure(!submission.command.key.value.empty() || !core::makes_cost_event(submission.command.body),
               "a command that makes a cost event has a key");
        submission.command.fingerprint = core::fingerprint_of(submission.command.body);
    }
    std::size_t taken = 0;
    {
        const std::lock_guard lock(queue_mutex_);
        const std::size_t room = options_.queue_max - std::min(options_.queue_max, queue_.size() - queue_head_);
        taken = std::min(room, submissions.size());
        hurried_ = hurried_ || !std::ranges::all_of(submissions, &Submission::can_wait);
        std::move(submissions.begin(), submissions.begin() + static_cast<std::ptrdiff_t>(taken),
                  std::back_inserter(queue_));
    }
    for (std::size_t i = taken; i < submissions.size(); ++i) submissions[i].on_answer(fail(SubmitError::busy));
}

std::size_t Engine::step(Instant now) {
    now = last_now_ = std::max(last_now_, now);

    // 1. Take. The queue is locked for the length of a move, never across a write.
    std::vector<Submission>& batch = take_batch();
    if (!ready_ && !recover(now)) return turn_away(batch);

    // 2. Apply. Here, and nowhere else, order and time enter the core. 3. Write. One transaction for the whole batch;
    // this is where the time goes.
    const auto committed = apply_and_commit(batch, now);

    // 4. Answer. Nobody hears of anything before it is durable.
    stats_.batches += 1;
    stats_.commands += batch.size();
    stats_.batch_max = std::max<std::uint64_t>(stats_.batch_max, batch.size());
    if (committed) {
        for (std::size_t i = 0; i < batch.size(); ++i) batch[i].on_answer(std::move(answers_[i]));
        return batch.size();
    }

    // The core ran ahead of a store that did not follow: what memory believes is void. What the store holds once it is
    // open again is the truth, and each command's own key finds its part of it.
    ready_ = false;
    stats_.run_commits += 1;
    const bool known = committed.error().kind == store::CommitError::Kind::rolled_back;
    const bool recovered = recover(now);
    if (!moved_) {
        stats_.failed_commits += 1;
        stats_.last_failure = committed.error().detail;
    } else {
        // Without a key nobody can find out what became of it, not even the one who writes now.
        if (!known) {
            std::erase_if(batch, [](const Submission& submission) {
                const bool keyless = submission.command.key.value.empty();
                if (keyless) submission.on_answer(fail(SubmitError::outcome_unknown));
                return keyless;
            });
        }
        return turn_away(batch);
    }
    for (Submission& submission : batch) submission.on_answer(answer_by_key(submission, known, recovered));
    return batch.size();
}

std::size_t Engine::turn_away(std::vector<Submission>& batch) {
    const std::size_t count = batch.size();
    if (moved_ && options_.on_moved) {
        if (count > 0) options_.on_moved(std::exchange(batch, {}));
        return count;
    }
    for (Submission& submission : batch) submission.on_answer(fail(SubmitError::unavailable));
    return count;
}

bool Engine::has_work(Instant now) const {
    const auto deadline = next_deadline();
    if (deadline && *deadline <= now) return true;
    const std::lock_guard lock(queue_mutex_);
    return queue_head_ < queue_.size();
}

std::optional<Instant> Engine::next_deadline() const {
    if (ready_) return machine_.next_deadline();
    return moved_ ? std::nullopt : std::optional(retry_at_);
}

bool Engine::can_wait() const {
    const std::lock_guard lock(queue_mutex_);
    return queue_head_ < queue_.size() && !hurried_;
}

std::size_t Engine::queue_depth() const {
    const std::lock_guard lock(queue_mutex_);
    return queue_.size() - queue_head_;
}

std::vector<Submission>& Engine::take_batch() {
    batch_.clear();
    const std::lock_guard lock(queue_mutex_);
    std::size_t end = queue_head_;
    std::size_t bytes = 0;
    while (end < queue_.size() && end - queue_head_ < options_.batch_max) {
        const core::CommandBody& body = queue_[end].command.body;
        bytes += bytes_of(body);
        const bool first = end == queue_head_;
        if (!first && (core::reads_ledger(body) || bytes > options_.batch_bytes_max)) break;
        ++end;
    }
    hurried_ = end < queue_.size();  // What has waited for one batch does not wait for another.
    if (queue_head_ == 0 && end == queue_.size()) {
        queue_.swap(batch_);  // Both keep the room they once needed.
        return batch_;
    }
    const auto begin = queue_.begin() + static_cast<std::ptrdiff_t>(queue_head_);
    const auto stop = queue_.begin() + static_cast<std::ptrdiff_t>(end);
    batch_.assign(std::make_move_iterator(begin), std::make_move_iterator(stop));
    queue_head_ = end;
    if (queue_head_ * 2 >= queue_.size()) {
        queue_.erase(queue_.begin(), stop);
        queue_head_ = 0;
    }
    return batch_;
}

Result<void, store::CommitError> Engine::apply_and_commit(const std::vector<Submission>& batch, Instant now) try {
    answers_.clear();
    if (store_.is_remote()) prefetch(batch, now);
    apply_ticks(now);
    // A command that sums the ledger is the first of its batch, and what time alone has done is written before it.
    if (!batch.empty() && core::reads_ledger(batch.front().command.body)) {
        if (auto committed = commit(now); !committed) return committed;
    }
    for (const Submission& submission : batch) answers_.push_back(apply(submission, now));
    return commit(now);
} catch (const core::SourceFailed&) {
    return fail(store::CommitError{store::CommitError::Kind::rolled_back, "a row could not be read"});
}

void Engine::prefetch(const std::vector<Submission>& batch, Instant now) {
    std::vector<const core::Command*> commands;
    for (const Submission& submission : batch) commands.push_back(&submission.command);
    machine_.prefetch({now}, commands);
}

void Engine::apply_ticks(Instant now) {
    const bool anew = std::exchange(stood_still_, false);
    for (auto& [org, state] : machine_.orgs()) {
        if (anew) machine_.apply({now}, {.org = org, .key = {}, .body = core::Reopened{}});
        const auto deadline = state->first_deadline();
        if (deadline && deadline->at <= now) machine_.apply({now}, {.org = org, .key = {}, .body = core::Tick{}});
    }
}

SubmitResult Engine::apply(const Submission& submission, Instant now) {
    if (submission.deadline < now) return fail(SubmitError::too_late);
    core::Applied applied = machine_.apply({now}, submission.command);
    if (applied.key_reused) return fail(SubmitError::key_reused);
    return CommandResult{std::move(applied.reply), applied.repeated};
}

Result<void, store::CommitError> Engine::commit(Instant now) {
    store::WriteSet writes;
    for (auto& [org, state] : machine_.orgs()) {
        if (state->has_changes()) writes.orgs.push_back(writes_of(*state, options_.seal_key, now));
    }
    // A refusal writes nothing and is a decision all the same. Where others may write, they must be known not to have.
    if (writes.orgs.empty() && !store_.is_remote()) return {};
    if (auto committed = store_.commit(writes); !committed) return committed;
    const auto has_runs = [](const store::OrgWrites& org) { return !org.of<core::Run>().put.empty(); };
    if (std::ranges::any_of(writes.orgs, has_runs)) stats_.run_commits += 1;
    for (const store::OrgWrites& org : writes.orgs) machine_.org(org.org).committed();
    return {};
}

bool Engine::recover(Instant now) {
    if (moved_) return false;
    stats_.reloads += 1;
    const auto opened = open(now);
    retry_at_ = now + retry_interval;
    moved_ = !opened && opened.error().kind == store::OpenError::Kind::in_use;
    return opened.has_value();
}

SubmitResult Engine::answer_by_key(const Submission& submission, bool known, bool recovered) try {
    const auto otherwise = known ? SubmitError::not_committed : SubmitError::outcome_unknown;
    if (!recovered || submission.command.key.value.empty()) return fail(otherwise);
    auto found = machine_.find_answer(submission.command);
    if (!found) return fail(SubmitError::not_committed);
    if (found->key_reused) return fail(SubmitError::key_reused);
    return CommandResult{std::move(found->reply), found->repeated};
} catch (const core::SourceFailed&) {
    // It will be opened again by the next step; whoever asks again then gets the answer.
    ready_ = false;
    return fail(known ? SubmitError::not_committed : SubmitError::outcome_unknown);
}

}  // namespace interlock::engine
