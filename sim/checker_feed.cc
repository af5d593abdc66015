// The feed: numbered without gap, chained by hashes, and telling what the rows tell.
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "base/sha256.h"
#include "sim/checker.h"

namespace interlock::sim {
namespace {

using namespace core;

class FeedChecker : public Checker {
 public:
    void check(World& world, const Rows& rows) override;

 private:
    void check_chain(World& world, const Rows& rows);
    void check_told(World& world, const Rows& rows);

    std::map<OrgId, FeedPage> last_;  // Checked so far; the body is not kept.
};

void FeedChecker::check(World& world, const Rows& rows) {
    if (world.is_calm()) last_.clear();  // At the end, all of it once more.
    check_chain(world, rows);
    check_told(world, rows);
}

void FeedChecker::check_chain(World& world, const Rows& rows) {
    const auto& pages = rows.rows<FeedPage>();
    for (const auto& [org_key, org] : rows.rows<Org>()) {
        const OrgId id = org_key.first;
        FeedPage& before = last_[id];
        if (before.hash.empty()) before.hash.assign(32, '\0');
        for (auto at = pages.upper_bound({id, before.last_seq}); at != pages.end() && at->first.first == id; ++at) {
            const FeedPage& page = at->second;
            const auto wrong = [&](const char* what) {
                world.violated(Promise::unbroken_feed, fmt::format("org {} feed page {} … {} {}", id.value,
                                                                   page.first_seq.value, page.last_seq.value, what));
            };
            std::string bytes = before.hash;
            for (const std::int64_t number : {page.first_seq.value, page.last_seq.value, micros(page.at)}) {
                char little[8];
                std::memcpy(little, &number, sizeof little);
                bytes.append(little, sizeof little);
            }
            bytes += page.body;
            const Sha256 hash = sha256(bytes);
            if (page.hash != std::string(hash.begin(), hash.end())) wrong("does not have the hash of what is in it");
            if (page.first_seq.value != before.last_seq.value + 1) wrong("does not begin where the one before ended");
            if (page.at < before.at) wrong("is older than the one before");
            before.first_seq = page.first_seq;
            before.last_seq = page.last_seq;
            before.at = page.at;
            before.hash = page.hash;
        }
    }
}

void FeedChecker::check_told(World& world, const Rows& rows) {
    const auto wrong = [&](std::string what) { world.violated(Promise::unbroken_feed, std::move(what)); };
    std::map<OrgId, std::size_t> cost_events;
    for (const auto& [key, event] : rows.rows<CostEvent>()) {
        ++cost_events[key.first];
        const auto* told = History::at<Charged>(world.history.of(key.first), event.seq.value);
        if (told == nullptr || told->key != event.key || told->cost != event.cost || told->agent != event.who.agent) {
            wrong(fmt::format("cost event {} (key {:x}) is not what the feed tells at its number", event.seq.value,
                              event.key.value.low));
        }
    }
    std::map<std::pair<OrgId, SessionId>, std::int64_t> appended;
    std::map<OrgId, std::size_t> sessions;
    for (const auto& [org_key, org] : rows.rows<Org>()) {
        std::size_t charged = 0;
        for (const Event& event : world.history.of(org_key.first)) {
            charged += std::holds_alternative<Charged>(event);
            sessions[org_key.first] += std::holds_alternative<SessionCreated>(event);
            if (const auto* turn = std::get_if<Appended>(&event)) {
                appended[{org_key.first, turn->session}] += turn->last_seq - turn->first_seq + 1;
            }
        }
        if (charged != cost_events[org_key.first]) {
            wrong(fmt::format("org {} has {} cost events, the feed tells of {}", org_key.first.value,
                              cost_events[org_key.first], charged));
        }
    }
    for (const auto& [key, session] : rows.rows<Session>()) {
        --sessions[key.first];
        if (appended[{key.first, session.id}] != session.next_seq - session.first_seq) {
            wrong(fmt::format("session {:x} has {} messages, the feed tells of {}", session.id.value.low,
                              session.next_seq - session.first_seq, appended[{key.first, session.id}]));
        }
    }
    for (const auto& [org, difference] : sessions) {
        if (difference != 0) wrong(fmt::format("org {} does not have the sessions that the feed tells of", org.value));
    }
}

}  // namespace

std::unique_ptr<Checker> make_feed_checker() { return std::make_unique<FeedChecker>(); }

}  // namespace interlock::sim
