#include "net/bell.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <mutex>
#include <vector>

#include "net/asio_types.h"
#include "net/inbox.h"

namespace interlock::net {

struct InRoom;

// One coroutine's wait, part of its frame. It is woken by cancelling its timer, which is done on its own thread only.
struct Bell::Wait final : Inbox::Endable, ListHook<InRoom> {
    Wait(const Executor& executor, std::shared_ptr<State> its_state) : timer(executor), state(std::move(its_state)) {}
    ~Wait() { leave_room(); }
    void leave_room();
    void end() override { timer.cancel(); }

    Timer timer;
    const std::shared_ptr<State> state;
};

namespace {

// Those who wait on one io_context. It is also the mail that wakes them.
struct Room final : Mail {
    explicit Room(std::shared_ptr<Inbox::Box> its_box) : box(std::move(its_box)) {}
    void open() override;
    void discard() override { take_waits(); }
    List<Bell::Wait, InRoom> take_waits();

    const std::shared_ptr<Inbox::Box> box;
    std::weak_ptr<Bell::State> state;
    List<Bell::Wait, InRoom> waits;  // Changed on the box's thread, with the state's lock: ring() looks at it.
    std::shared_ptr<Room> underway;  // Keeps the mail alive while it is in the box, though the bell be gone.
};

}  // namespace

struct Bell::State {
    std::mutex mutex;
    std::uint64_t generation = 0;
    std::vector<std::shared_ptr<Room>> rooms;  // As many as io_contexts, so a search is short.

    Room& room_of(const std::shared_ptr<Inbox::Box>& box);
};

Bell::Bell() : state_(std::make_shared<State>()) {}
Bell::~Bell() = default;

std::uint64_t Bell::generation() const {
    const std::lock_guard lock(state_->mutex);
    return state_->generation;
}

void Bell::ring() {
    const std::lock_guard lock(state_->mutex);
    ++state_->generation;
    for (const auto& room : state_->rooms) {
        if (room->waits.empty() || room->underway) continue;
        room->state = state_;
        room->underway = room->box->put(*room) ? room : nullptr;
    }
}

Task<bool> Bell::wait(std::uint64_t seen, SteadyTime deadline, Hangup* hangup) {
    const Executor executor = co_await boost::asio::this_coro::executor;
    Inbox& inbox = Inbox::of(executor);
    const std::shared_ptr<State> state = state_;
    Wait wait(executor, state);
    wait.timer.expires_at(deadline);

    while (true) {
        {
            const std::lock_guard lock(state->mutex);
            if (state->generation != seen) co_return true;
            const bool ended = inbox.waits_ended() || (hangup && hangup->hung_up());
            if (ended || std::chrono::steady_clock::now() >= deadline) co_return false;
            state->room_of(inbox.box()).waits.push_back(wait);
        }
        inbox.add(wait);
        if (hangup) hangup->waiting_ = &wait;

        boost::system::error_code ignored;  // Cancelled or expired: the loop finds out which.
        co_await wait.timer.async_wait(boost::asio::redirect_error(use_task, ignored));

        if (hangup) hangup->waiting_ = nullptr;
        wait.Inbox::Endable::unlink();
        wait.leave_room();
    }
}

void Bell::Wait::leave_room() {
    const std::lock_guard lock(state->mutex);
    if (ListHook<InRoom>::is_linked()) ListHook<InRoom>::unlink();
}

void Room::open() {
    auto woken = take_waits();
    // Cancelling only queues the coroutines, so the list stays as it is meanwhile.
    while (!woken.empty()) {
        Bell::Wait& wait = woken.front();
        woken.pop_front();
        wait.timer.cancel();
    }
}

List<Bell::Wait, InRoom> Room::take_waits() {
    List<Bell::Wait, InRoom> taken;
    const auto bell = state.lock();
    if (!bell) {
        underway.reset();  // The last one to know of this room was the mail itself, which ends here.
        return taken;
    }
    const std::lock_guard lock(bell->mutex);
    taken.swap(waits);
    underway.reset();
    return taken;
}

Room& Bell::State::room_of(const std::shared_ptr<Inbox::Box>& box) {
    const auto found = std::ranges::find(rooms, box, [](const auto& room) { return room->box; });
    if (found != rooms.end()) return **found;
    return *rooms.emplace_back(std::make_shared<Room>(box));
}

void Hangup::hang_up() {
    hung_up_ = true;
    if (waiting_) waiting_->timer.cancel();
}

}  // namespace interlock::net
