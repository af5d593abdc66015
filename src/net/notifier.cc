#include "net/notifier.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <mutex>
#include <vector>

#include "net/asio_types.h"
#include "net/completion_queue.h"

namespace interlock::net {

struct InWaiters;

// One coroutine's wait, part of its frame. It is woken by cancelling its timer, which is done on its own thread only.
struct Notifier::Wait final : CompletionQueue::Endable, ListHook<InWaiters> {
    Wait(const Executor& executor, std::shared_ptr<State> its_state) : timer(executor), state(std::move(its_state)) {}
    ~Wait() { leave(); }
    void leave();
    void end() override { timer.cancel(); }

    Timer timer;
    const std::shared_ptr<State> state;
};

namespace {

// The waits of one io_context. It is also the mail that wakes them.
struct ContextWaiters final : Mail {
    explicit ContextWaiters(std::shared_ptr<CompletionQueue::Box> its_box) : box(std::move(its_box)) {}
    void open() override;
    void discard() override { take_waits(); }
    List<Notifier::Wait, InWaiters> take_waits();

    const std::shared_ptr<CompletionQueue::Box> box;
    std::weak_ptr<Notifier::State> state;
    List<Notifier::Wait, InWaiters>
        waits;  // Changed on the box's thread, with the state's lock: notify_all() reads it.
    std::shared_ptr<ContextWaiters>
        underway;  // Keeps the mail alive while it is in the box, also without the notifier.
};

}  // namespace

struct Notifier::State {
    std::mutex mutex;
    std::uint64_t generation = 0;
    std::vector<std::shared_ptr<ContextWaiters>> waiters;  // As many as io_contexts, so a search is short.

    ContextWaiters& waiters_of(const std::shared_ptr<CompletionQueue::Box>& box);
};

Notifier::Notifier() : state_(std::make_shared<State>()) {}
Notifier::~Notifier() = default;

std::uint64_t Notifier::generation() const {
    const std::lock_guard lock(state_->mutex);
    return state_->generation;
}

void Notifier::notify_all() {
    const std::lock_guard lock(state_->mutex);
    ++state_->generation;
    for (const auto& waiters : state_->waiters) {
        if (waiters->waits.empty() || waiters->underway) continue;
        waiters->state = state_;
        waiters->underway = waiters->box->put(*waiters) ? waiters : nullptr;
    }
}

Task<bool> Notifier::wait(std::uint64_t seen, SteadyTime deadline, Hangup* hangup) {
    const Executor executor = co_await boost::asio::this_coro::executor;
    CompletionQueue& completions = CompletionQueue::of(executor);
    const std::shared_ptr<State> state = state_;
    Wait wait(executor, state);
    wait.timer.expires_at(deadline);

    while (true) {
        {
            const std::lock_guard lock(state->mutex);
            if (state->generation != seen) co_return true;
            const bool ended = completions.waits_ended() || (hangup && hangup->hung_up());
            if (ended || std::chrono::steady_clock::now() >= deadline) co_return false;
            state->waiters_of(completions.box()).waits.push_back(wait);
        }
        completions.add(wait);
        if (hangup) hangup->waiting_ = &wait;

        boost::system::error_code ignored;  // Cancelled or expired: the loop finds out which.
        co_await wait.timer.async_wait(boost::asio::redirect_error(use_task, ignored));

        if (hangup) hangup->waiting_ = nullptr;
        wait.CompletionQueue::Endable::unlink();
        wait.leave();
    }
}

void Notifier::Wait::leave() {
    const std::lock_guard lock(state->mutex);
    if (ListHook<InWaiters>::is_linked()) ListHook<InWaiters>::unlink();
}

void ContextWaiters::open() {
    auto woken = take_waits();
    // Cancelling only queues the coroutines, so the list stays as it is meanwhile.
    while (!woken.empty()) {
        Notifier::Wait& wait = woken.front();
        woken.pop_front();
        wait.timer.cancel();
    }
}

List<Notifier::Wait, InWaiters> ContextWaiters::take_waits() {
    List<Notifier::Wait, InWaiters> taken;
    const auto notifier = state.lock();
    if (!notifier) {
        underway.reset();  // The mail itself was the last owner, and it ends here.
        return taken;
    }
    const std::lock_guard lock(notifier->mutex);
    taken.swap(waits);
    underway.reset();
    return taken;
}

ContextWaiters& Notifier::State::waiters_of(const std::shared_ptr<CompletionQueue::Box>& box) {
    const auto found = std::ranges::find(waiters, box, [](const auto& waiters) { return waiters->box; });
    if (found != waiters.end()) return **found;
    return *waiters.emplace_back(std::make_shared<ContextWaiters>(box));
}

void Hangup::hang_up() {
    hung_up_ = true;
    if (waiting_) waiting_->timer.cancel();
}

}  // namespace interlock::net
