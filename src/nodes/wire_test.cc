#include "nodes/wire.h"
#include "nodes/nodes_test_support.h"

#include <gtest/gtest.h>

#include "engine/id_source.h"

namespace interlock::nodes {
namespace {

engine::Submission charge(Id key, Instant deadline) {
    core::Charge body;
    body.who.agent = "writer";
    body.who.tags = {{"team", "red"}};
    body.cost = Money::nanos(750'000);
    return {.command = {.org = core::OrgId(7), .key = core::CommandKey(key), .body = body},
            .on_answer = {},
            .deadline = deadline,
            .hops = 1};
}

TEST(Wire, a_command_arrives_with_its_org_its_key_and_what_is_left_of_its_patience) {
    engine::IdSource ids(1);
    std::vector<engine::Submission> sent;
    sent.push_back(charge(ids.next(noon), noon + std::chrono::seconds(30)));
    sent.push_back(charge(ids.next(noon), far_future));

    const auto arrived = decode_commands(encode_commands(sent, noon + std::chrono::seconds(10)));

    ASSERT_TRUE(arrived);
    ASSERT_EQ(arrived->size(), 2u);
    const Forwarded& first = arrived->front();
    EXPECT_EQ(first.command.org, core::OrgId(7));
    EXPECT_EQ(first.command.key, sent[0].command.key);
    EXPECT_EQ(core::fingerprint_of(first.command.body), core::fingerprint_of(sent[0].command.body));
    EXPECT_EQ(first.timeout, std::chrono::seconds(20));
    EXPECT_EQ(first.hops, 2u);
    EXPECT_EQ(arrived->back().timeout, Duration::max());
}

TEST(Wire, answers_arrive_as_they_were_given) {
    Answers sent{.written_here = true, .heads = {{core::OrgId(7), core::Seq(41), "abc"}}, .answers = {}};
    sent.answers.push_back(engine::CommandResult{core::ChargeReply{.status = core::ChargeStatus::budget_exceeded,
                                                                   .seq = core::Seq(9),
                                                                   .cost = Money::nanos(5),
                                                                   .overage = {},
                                                                   .budget = {},
                                                                   .detail = "no"},
                                                 true});
    sent.answers.push_back(fail(engine::SubmitError::key_reused));

    const auto arrived = decode_answers(encode_answers(sent));

    ASSERT_TRUE(arrived);
    EXPECT_TRUE(arrived->written_here);
    EXPECT_EQ(arrived->heads, sent.heads);
    ASSERT_EQ(arrived->answers.size(), 2u);
    ASSERT_TRUE(arrived->answers[0]);
    EXPECT_TRUE(arrived->answers[0]->repeated);
    const auto& reply = std::get<core::ChargeReply>(arrived->answers[0]->reply);
    EXPECT_EQ(reply.status, core::ChargeStatus::budget_exceeded);
    EXPECT_EQ(reply.detail, "no");
    EXPECT_EQ(arrived->answers[1].error(), engine::SubmitError::key_reused);
}

TEST(Wire, what_is_cut_or_longer_or_of_another_format_is_refused_whole) {
    engine::IdSource ids(1);
    std::vector<engine::Submission> sent;
    sent.push_back(charge(ids.next(noon), far_future));
    const std::string bytes = encode_commands(sent, noon);

    for (std::size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_FALSE(decode_commands(std::string_view(bytes).substr(0, size))) << size;
    }
    EXPECT_FALSE(decode_commands(bytes + "x"));
    std::string other = bytes;
    other[8] = static_cast<char>(format + 1);  // Behind the length.
    EXPECT_FALSE(decode_commands(other));
}

}  // namespace
}  // namespace interlock::nodes
