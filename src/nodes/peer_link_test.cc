#include "nodes/peer_link.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include <fmt/format.h>

#include "base/log.h"
#include "net/http_server.h"
#include "nodes/inbound.h"
#include "nodes/nodes_test_support.h"

namespace interlock::nodes {
namespace {

using namespace std::chrono_literals;

// The other node: answers every command by its cost, and counts the journeys.
class PeerLinkTest : public testing::Test {
 protected:
    PeerLinkTest() : log({.clock = [] { return noon; }, .write = [](std::string_view) {}}) {}

    void listen(engine::SubmitResult answer) {
        Inbound::Options how;
        how.secret = "between nodes";
        how.now = [] { return noon; };
        how.submit = [this, answer](std::vector<engine::Submission> submissions) {
            ++journeys;
            for (engine::Submission& each : submissions) {
                order.push_back(std::get<core::Charge>(each.command.body).cost.nanos());
                each.on_answer(answer);
            }
        };
        how.writes = [](core::OrgId) { return true; };
        how.head = [](core::OrgId org) { return Head{org, core::Seq(12), "abc"}; };
        inbound = std::make_unique<Inbound>(std::move(how));
        net::HttpServerOptions listening;
        listening.host = "127.0.0.1";
        listening.port = 0;
        listening.threads = 1;
        http = std::make_unique<net::HttpServer>(
            std::move(listening),
            [this](net::Request request) -> net::Task<net::Response> { return std::move(*inbound->answer(request)); },
            log);
        const auto port = http->start();
        ASSERT_TRUE(port);
        options.url = fmt::format("http://127.0.0.1:{}", *port);
    }
    PeerLink& link() {
        options.secret = secret;
        options.timeout = 2s;
        options.now = [] { return noon; };
        options.hand_back = [this](PeerError trouble, std::vector<engine::Submission> batch) {
            const std::lock_guard lock(mutex);
            troubles.push_back(trouble);
            handed_back += batch.size();
            for (auto& each : batch) each.on_answer(fail(engine::SubmitError::busy));
        };
        options.not_written_there = [](core::OrgId) {};
        options.on_head = [this](const Head& head) { last_head = head; };
        if (!its_link) its_link = std::make_unique<PeerLink>(options);
        return *its_link;
    }
    // Sends `count` charges at once and waits for what becomes of each.
    std::vector<engine::SubmitResult> send(std::int64_t count) {
        std::vector<std::future<engine::SubmitResult>> waiting;
        std::vector<engine::Submission> submissions;
        for (std::int64_t i = 0; i < count; ++i) {
            const auto promise = std::make_shared<std::promise<engine::SubmitResult>>();
            waiting.push_back(promise->get_future());
            core::Charge charge;
            charge.who.agent = "writer";
            charge.cost = Money::nanos(i);
            submissions.push_back(
                {.command = {.org = core::OrgId(1), .key = core::CommandKey(Id{1, 1}), .body = charge},
                 .on_answer = [promise](engine::SubmitResult answer) { promise->set_value(answer); }});
        }
        link().submit(std::move(submissions));
        std::vector<engine::SubmitResult> answers;
        for (auto& each : waiting) answers.push_back(each.get());
        return answers;
    }

    Log log;
    std::string secret = "between nodes";
    std::atomic<int> journeys = 0;
    std::vector<std::int64_t> order;
    std::unique_ptr<Inbound> inbound;
    std::unique_ptr<net::HttpServer> http;
    PeerLink::Options options;
    std::mutex mutex;
    std::vector<PeerError> troubles;
    std::size_t handed_back = 0;
    std::optional<Head> last_head;
    std::unique_ptr<PeerLink> its_link;
};

TEST_F(PeerLinkTest, what_was_submitted_together_travels_together_and_in_order) {
    listen(engine::CommandResult{core::ChargeReply{}, false});

    for (const engine::SubmitResult& answer : send(100)) EXPECT_TRUE(answer);

    EXPECT_EQ(journeys, 1);
    EXPECT_TRUE(std::ranges::is_sorted(order));
    EXPECT_EQ(last_head, (Head{core::OrgId(1), core::Seq(12), "abc"})) << "known before the answers were";
}

TEST_F(PeerLinkTest, what_is_too_large_for_one_journey_takes_several_in_order) {
    listen(engine::CommandResult{core::ChargeReply{}, false});
    options.journey_bytes_max = 1'000;

    for (const engine::SubmitResult& answer : send(100)) EXPECT_TRUE(answer);

    EXPECT_GT(journeys, 4);
    ASSERT_EQ(order.size(), 100u);
    EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST_F(PeerLinkTest, what_the_other_node_cannot_serve_comes_back) {
    listen(fail(engine::SubmitError::unavailable));

    send(3);

    EXPECT_EQ(troubles, std::vector{PeerError::unavailable});
    EXPECT_EQ(handed_back, 3u);
}

TEST_F(PeerLinkTest, comes_back_when_nobody_listens_there_or_the_secret_is_another) {
    listen(engine::CommandResult{core::ChargeReply{}, false});
    secret = "a guess";
    send(1);
    EXPECT_EQ(troubles, std::vector{PeerError::gone});
    EXPECT_EQ(journeys, 0);

    http.reset();
    send(1);
    EXPECT_EQ(troubles.back(), PeerError::gone);
    EXPECT_EQ(handed_back, 2u);
}

}  // namespace
}  // namespace interlock::nodes
