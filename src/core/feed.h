// The feed: an org's events in one order, chained by hashes.
//
//   (1) Events are numbered 1, 2, 3, … per org, without gap, in commit order.
//   (2) All events of one commit make one page. A page's body is its events one after another, each as its length (4
//       bytes, little end first) and its encoding (base/codec.h).
//   (3) hash = SHA-256(hash of the page before, or 32 zero bytes · first_seq · last_seq · at · body), the numbers as 8
//       bytes, little end first: whoever changes, drops or reorders an event breaks every hash that follows.
//   (4) `at` never goes back from one page to the next.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/event.h"
#include "core/rows.h"

namespace interlock::core {

class Feed {
 public:
    // The number the event will have once its batch is committed.
    Seq add(const Event& event);
    // Adds what Charged says of the event, straight from its row: it is most of the traffic.
    Seq add_charged(const CostEvent& event, std::int64_t tokens);

    bool has_page() const { return count_ > 0; }
    // Ends the page of this batch. The page stays good until the next seal.
    FeedPage& seal(Instant at);

    void adopt(const FeedPage& last);
    Seq last_seq() const { return Seq(head_.last_seq.value + count_); }
    Instant last_at() const { return head_.at; }

 private:
    FeedPage head_;  // The last sealed page; its body is not kept.
    FeedPage page_;
    std::string body_;
    std::int64_t count_ = 0;
};

Sha256 hash_page(std::string_view hash_before, const FeedPage& page);

// The events of a page. Empty when the body is not a sequence of events.
std::optional<std::vector<Event>> events_of(const FeedPage& page);

}  // namespace interlock::core
