#include "net/completion_queue.h"

#include <boost/asio/post.hpp>

namespace interlock::net {

boost::asio::execution_context::id CompletionQueue::id;

CompletionQueue::CompletionQueue(boost::asio::execution_context& context) : service(context) {
    box_->context = static_cast<boost::asio::io_context*>(&context);
}

CompletionQueue& CompletionQueue::of(const Executor& executor) {
    return boost::asio::use_service<CompletionQueue>(executor.context());
}

bool CompletionQueue::Box::put(Mail& mail) {
    const std::lock_guard lock(mutex);
    if (context) put_locked(mail);
    return context != nullptr;
}

void CompletionQueue::Box::put_locked(Mail& mail) {
    mail.next_ = nullptr;
    if (first) {
        last->next_ = &mail;
        last = &mail;
        return;
    }
    first = last = &mail;
    boost::asio::post(*context, [this] { open_all(*this); });
}

void CompletionQueue::open_all(Box& box) {
    Mail* mail = nullptr;
    {
        const std::lock_guard lock(box.mutex);
        mail = box.first;
        box.first = box.last = nullptr;
    }
    while (mail) {
        // Opening may destroy it.
        Mail* const next = mail->next_;
        mail->open();
        mail = next;
    }
}

void CompletionQueue::end_waits() {
    waits_ended_ = true;
    for (Endable& endable : endable_) endable.end();
}

void CompletionQueue::shutdown() {
    Mail* mail = nullptr;
    {
        const std::lock_guard lock(box_->mutex);
        box_->context = nullptr;
        mail = box_->first;
        box_->first = box_->last = nullptr;
    }
    while (mail) {
        Mail* const next = mail->next_;
        mail->discard();
        mail = next;
    }
    // Letting go of a coroutine posts its destruction; the scheduler, which ends after us, carries it out.
    while (!waiting_.empty()) {
        Waiting& waiting = waiting_.front();
        waiting_.pop_front();
        waiting.abandon();
    }
}

}  // namespace interlock::net
