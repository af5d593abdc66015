#include "net/inbox.h"

#include <boost/asio/post.hpp>

namespace interlock::net {

boost::asio::execution_context::id Inbox::id;

Inbox::Inbox(boost::asio::execution_context& context) : service(context) {
    box_->context = static_cast<boost::asio::io_context*>(&context);
}

Inbox& Inbox::of(const Executor& executor) { return boost::asio::use_service<Inbox>(executor.context()); }

bool Inbox::Box::put(Mail& mail) {
    const std::lock_guard lock(mutex);
    if (context) put_locked(mail);
    return context != nullptr;
}

void Inbox::Box::put_locked(Mail& mail) {
    mail.next_ = nullptr;
    if (first) {
        last->next_ = &mail;
        last = &mail;
        return;
    }
    first = last = &mail;
    boost::asio::post(*context, [this] { open_all(*this); });
}

void Inbox::open_all(Box& box) {
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

void Inbox::end_waits() {
    waits_ended_ = true;
    for (Endable& endable : endable_) endable.end();
}

void Inbox::shutdown() {
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
