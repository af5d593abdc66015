#include "store/seals.h"

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "store/sample_rows.h"

namespace interlock::store {
namespace {

const SealKey test_key = SealKey::from_text("a key");

OrgWrites writes_of(const core::Agent& agent) {
    OrgWrites writes{.org = core::OrgId(1), .rows = {}};
    writes.of<core::Agent>().put = {&agent};
    return writes;
}

std::uint64_t digest_of(const core::Agent& agent) {
    return sealed_rows(seal_of(writes_of(agent), {}, test_key, Instant{}).digests)->front().digest;
}

core::Agent sample_agent() {
    core::Agent agent;
    agent.name = "writer";
    agent.command = {"run", "it"};
    agent.tags = {{"team", "red"}};
    return agent;
}

TEST(SealsTest, every_member_of_a_row_counts) {
    const core::Agent agent = sample_agent();
    const std::uint64_t digest = digest_of(agent);

    core::Agent changed = agent;
    changed.max_concurrent_runs = 2;
    EXPECT_NE(digest_of(changed), digest);
    changed = agent;
    changed.command = {"run it"};
    EXPECT_NE(digest_of(changed), digest);
    changed = agent;
    changed.tags.clear();
    EXPECT_NE(digest_of(changed), digest);
    changed = agent;
    changed.process.timeout_s = 5;
    EXPECT_NE(digest_of(changed), digest) << "of a struct in the row too";
    EXPECT_EQ(digest_of(agent), digest);
}

// Seals that are stored are compared with these digests, so the program must go on to compute them.
TEST(SealsTest, the_digest_of_a_row_stays_as_it_is) {
    core::Hold hold;
    hold.id = core::HoldId(Id{1, 2});
    hold.who.agent = "writer";
    hold.who.tags = {{"team", "red"}, {"area", std::string(3000, 'x')}};
    hold.bound = {.usd = 5, .tokens = 6, .calls = 1};
    hold.parts.resize(200, {.budget = "daily", .window = from_micros(7), .amount = 5, .drawn = 0});
    hold.dispatched = true;
    hold.state = core::HoldState::settled;
    core::Claim claim;
    claim.run = core::RunId(Id{3, 4});
    claim.number = 3;
    claim.place.path = std::string(5000, 'p');
    core::Session session;
    session.id = core::SessionId(Id{5, 6});
    session.title = std::string(200, 't');
    core::Agent agent = sample_agent();
    agent.name = std::string(128, 'n');
    OrgWrites writes = writes_of(agent);
    writes.of<core::Hold>().put = {&hold};
    writes.of<core::Claim>().put = {&claim};
    writes.of<core::Session>().put = {&session};

    const std::string digests = seal_of(writes, {}, test_key, Instant{}).digests;
    EXPECT_EQ(to_hex(sha256(digests)), "296407faf8242e1ca7f60c2ff3edab863e4a87c3f4e2dbb6c41265b516839d1f");
}

TEST(SealsTest, counters_and_derived_rows_are_left_out) {
    core::Window window;
    window.budget = "daily";
    core::AgentTotals totals;
    OrgWrites writes{.org = core::OrgId(1), .rows = {}};
    writes.of<core::Window>().put = {&window};
    writes.of<core::AgentTotals>().put = {&totals};
    const std::string before = seal_of(writes, {}, test_key, Instant{}).digests;
    window.settled = window.held = 5;
    EXPECT_EQ(seal_of(writes, {}, test_key, Instant{}).digests, before);
    EXPECT_EQ(sealed_rows(before)->size(), 1u);
    window.limit_units = 5;
    EXPECT_NE(seal_of(writes, {}, test_key, Instant{}).digests, before);
}

TEST(SealsTest, a_seal_names_what_was_written_and_erased) {
    const core::Agent agent = sample_agent();
    OrgWrites writes = writes_of(agent);
    writes.of<core::Claim>().erased = {{core::RunId(Id{1, 2}), 3}};

    const core::Seal seal = seal_of(writes, {}, test_key, Instant{});

    const auto rows = sealed_rows(seal.digests);
    ASSERT_TRUE(rows && rows->size() == 2);
    const auto agent_name = name_of((*rows)[0].kind, core::OrgId(1), (*rows)[0].key);
    EXPECT_EQ(*agent_name, (RowName{"agents", {{"org", std::int64_t{1}}, {"name", std::string("writer")}}}));
    EXPECT_TRUE((*rows)[1].erased);
    const auto claim_name = name_of((*rows)[1].kind, core::OrgId(1), (*rows)[1].key);
    EXPECT_EQ(claim_name->table, "claims");
    EXPECT_EQ(claim_name->key[2], (Cell{"number", std::int64_t{3}}));
}

TEST(SealsTest, seals_are_chained_under_a_key) {
    const core::Agent agent = sample_agent();
    const core::Seal first = seal_of(writes_of(agent), {}, test_key, Instant{});
    const core::Seal second = seal_of(writes_of(agent), first, test_key, Instant{});

    EXPECT_EQ(first.number, 1);
    EXPECT_EQ(second.number, 2);
    EXPECT_EQ(chain_hash(second, first.hash, test_key), second.hash);
    EXPECT_NE(chain_hash(second, second.hash, test_key), second.hash);
    EXPECT_NE(chain_hash(second, first.hash, SealKey::from_text("another")), second.hash);
    EXPECT_NE(seal_of(writes_of(agent), {}, SealKey::from_text("another"), Instant{}).digests, first.digests);
    EXPECT_EQ(second.key_id, test_key.id);
}

// Computed with Python's hmac and hashlib, so that seals of today can be read later.
TEST(SealsTest, the_chain_is_hmac_sha_256) {
    core::Seal seal;
    seal.number = 7;
    seal.at = from_micros(1'700'000'000'000'000);
    seal.digests = "digests";
    EXPECT_EQ(to_hex(chain_hash(seal, {}, test_key)),
              "d2d7544866005a23d14e72e26b7f97feab4b4085efe62d0a36972bdd1d78e0d8");
}

TEST(SealsTest, bytes_that_are_no_digests_are_refused) {
    EXPECT_FALSE(sealed_rows("\x7f"));
    EXPECT_FALSE(sealed_rows(std::string("\x01\x05name", 6)));
    const std::string good = seal_of(writes_of(sample_agent()), {}, test_key, Instant{}).digests;
    for (std::size_t size = 1; size < good.size(); ++size) EXPECT_FALSE(sealed_rows(good.substr(0, size))) << size;
    EXPECT_TRUE(sealed_rows(""));
}

}  // namespace
}  // namespace interlock::store
