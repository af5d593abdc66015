// await_answer(): a coroutine waits for a value that another thread delivers by calling a function once.
//
//     const auto answer = co_await await_answer<engine::SubmitResult>([&](Deliver<engine::SubmitResult> deliver) {
//         engine.submit({.command = …, .on_answer = deliver});
//     });
//
//   (1) The coroutine goes on exactly once, on its own thread: with the first value delivered, or with AnswerDropped
//   when
//       every copy of the function is gone without a call.
//   (2) Answers that come in a burst wake the thread once (completion_queue.h).
//   (3) A value that comes after the coroutine's io_context has ended is dropped.
//
// There is no deadline: whoever takes the function answers in the end.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/this_coro.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/ensure.h"
#include "net/completion_queue.h"

namespace interlock::net {

struct AnswerDropped : std::runtime_error {
    AnswerDropped() : std::runtime_error("nobody is left who could answer") {}
};

// The coroutine's side: part of its frame, so an answer costs no allocation here.
template <class T>
class AnswerSlot final : public Mail, public CompletionQueue::Waiting {
 public:
    using Resume = boost::asio::async_result<boost::asio::use_awaitable_t<Executor>, void()>::handler_type;

    void wait(CompletionQueue& completions, Resume resume) {
        resume_.emplace(std::move(resume));
        completions.add(*this);
    }
    void open() override {
        Waiting::unlink();
        // Moved out first: going on destroys the frame that this slot is part of.
        Resume resume = std::move(*resume_);
        resume_.reset();
        std::move(resume)();
    }
    void discard() override {}
    void abandon() override { resume_.reset(); }

    std::optional<T> value;

 private:
    std::optional<Resume> resume_;
};

// What the other thread calls. Copies stand for the same one call.
template <class T>
class Deliver {
 public:
    Deliver(std::shared_ptr<CompletionQueue::Box> box, AnswerSlot<T>& slot)
        : caller_(std::make_shared<Caller>(std::move(box), &slot)) {}

    void operator()(T value) const {
        const std::lock_guard lock(caller_->box->mutex);
        ensure(caller_->slot, "an answer is delivered once, invariant (1)");
        caller_->finish(std::optional<T>(std::move(value)));
    }

 private:
    struct Caller {
        Caller(std::shared_ptr<CompletionQueue::Box> its_box, AnswerSlot<T>* its_slot)
            : box(std::move(its_box)), slot(its_slot) {}
        ~Caller() {
            const std::lock_guard lock(box->mutex);
            if (slot) finish(std::nullopt);
        }
        Caller(const Caller&) = delete;
        Caller& operator=(const Caller&) = delete;

        // With the box's lock: while there is a context, the slot is alive.
        void finish(std::optional<T> value) {
            AnswerSlot<T>& waiting = *std::exchange(slot, nullptr);
            if (!box->context) return;
            waiting.value = std::move(value);
            box->put_locked(waiting);
        }

        std::shared_ptr<CompletionQueue::Box> box;
        AnswerSlot<T>* slot;
    };
    std::shared_ptr<Caller> caller_;
};

template <class T, class Start>
Task<T> await_answer(Start start) {
    const Executor executor = co_await boost::asio::this_coro::executor;
    CompletionQueue& completions = CompletionQueue::of(executor);
    AnswerSlot<T> slot;
    co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<Executor>, void()>(
        [&](typename AnswerSlot<T>::Resume resume) {
            slot.wait(completions, std::move(resume));
            start(Deliver<T>(completions.box(), slot));
        },
        use_task);
    if (!slot.value) throw AnswerDropped();
    co_return std::move(*slot.value);
}

}  // namespace interlock::net
