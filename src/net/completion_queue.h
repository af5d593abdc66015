// The inbox of an io_context: what other threads leave for the coroutines that run there.
//
//   (1) Whatever many put() calls leave is opened together, on the io_context's thread, for the price of one post: only
//       the first piece of mail in an empty box wakes the thread.
//   (2) After the io_context has ended, put() takes nothing: an answer that comes too late finds nobody, not a dead
//       object. The coroutines that waited for one were destroyed with the io_context.
//
// One thread runs the io_context. Everything but Box::put() belongs to that thread.
#pragma once

#include <boost/asio/execution_context.hpp>
#include <boost/intrusive/list.hpp>
#include <memory>
#include <mutex>

#include "net/task.h"

namespace interlock::net {

// A piece of mail. It is not owned by the box, and is in at most one.
class Mail {
 public:
    virtual void open() = 0;     // On the io_context's thread.
    virtual void discard() = 0;  // Instead of open(), when the io_context ends with the mail in the box.

 protected:
    ~Mail() = default;

 private:
    friend class CompletionQueue;
    Mail* next_ = nullptr;
};

// A list whose nodes leave it when they are destroyed: they live in coroutine frames. A node names each list it can be
// in by a tag.
template <class Tag>
using ListHook = boost::intrusive::list_base_hook<boost::intrusive::tag<Tag>,
                                                  boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
template <class Node, class Tag>
using List = boost::intrusive::list<Node, boost::intrusive::base_hook<ListHook<Tag>>,
                                    boost::intrusive::constant_time_size<false>>;

class CompletionQueue final : public boost::asio::execution_context::service {
 public:
    using key_type = CompletionQueue;
    static boost::asio::execution_context::id id;

    // The part that other threads see. It outlives the io_context for as long as somebody holds it.
    struct Box {
        // With the lock, so that the io_context cannot end between the look and the post.
        std::mutex mutex;
        boost::asio::io_context* context = nullptr;  // Null once it has ended.
        Mail* first = nullptr;
        Mail* last = nullptr;

        [[nodiscard]] bool put(Mail& mail);  // False: the io_context has ended, and the mail is not in the box.
        void put_locked(Mail& mail);         // The caller holds the mutex and has seen that there is a context.
    };

    // A coroutine that waits for mail: destroyed when the io_context ends before the mail comes.
    class Waiting : public ListHook<Waiting> {
     public:
        virtual void abandon() = 0;

     protected:
        ~Waiting() = default;
    };

    // A wait that a draining server ends early.
    class Endable : public ListHook<Endable> {
     public:
        virtual void end() = 0;

     protected:
        ~Endable() = default;
    };

    explicit CompletionQueue(boost::asio::execution_context& context);
    static CompletionQueue& of(const Executor& executor);

    const std::shared_ptr<Box>& box() const { return box_; }
    void add(Waiting& waiting) { waiting_.push_back(waiting); }
    void add(Endable& endable) { endable_.push_back(endable); }

    // From here on every wait ends at once.
    void end_waits();
    bool waits_ended() const { return waits_ended_; }

 private:
    void shutdown() override;
    static void open_all(Box& box);

    std::shared_ptr<Box> box_ = std::make_shared<Box>();
    List<Waiting, Waiting> waiting_;
    List<Endable, Endable> endable_;
    bool waits_ended_ = false;
};

}  // namespace interlock::net
