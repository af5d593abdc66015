#include "api/key_ring.h"

#include <gtest/gtest.h>

namespace interlock::api {
namespace {

core::ApiKey row_of(const NewKey& key, std::vector<std::string> scopes) {
    return {.id = key.id,
            .hash = key.hash,
            .scopes = std::move(scopes),
            .agent = "ada",
            .run = {},
            .budget = {},
            .note = {},
            .created_at = {},
            .revoked_at = far_past};
}

TEST(KeyRingTest, a_key_lets_in_with_its_whole_text_and_nothing_less) {
    KeyRing ring;
    const NewKey key = make_key();
    ring.put(core::OrgId(7), row_of(key, {"operator", "read"}));

    const auto caller = ring.find(key.text);

    ASSERT_TRUE(caller.has_value());
    EXPECT_EQ(caller->org, core::OrgId(7));
    EXPECT_TRUE(caller->may(Access::operate));
    EXPECT_FALSE(caller->may(Access::administer));
    EXPECT_TRUE(caller->may_see_agent("ada"));
    EXPECT_FALSE(caller->may_see_agent("bob"));
    std::string other = key.text;
    other.back() = other.back() == '0' ? '1' : '0';
    for (const std::string& wrong :
         {other, key.text.substr(0, key.text.size() - 1), key.text + "0", "ilk_" + key.id + "_", "ilk_" + key.id,
          key.id, std::string(), make_key().text, "Bearer " + key.text}) {
        EXPECT_FALSE(ring.find(wrong).has_value()) << wrong;
    }
}

TEST(KeyRingTest, the_holder_of_a_key_is_known_by_its_id_while_it_is_in_force) {
    KeyRing ring;
    const NewKey key = make_key();
    ring.put(core::OrgId(7), row_of(key, {"read"}));

    const auto holder = ring.holder_of(key.id);

    ASSERT_TRUE(holder.has_value());
    EXPECT_EQ(holder->org, core::OrgId(7));
    EXPECT_EQ(holder->agent, "ada");
    EXPECT_EQ(holder->most, Access::read);
    EXPECT_FALSE(ring.holder_of("").has_value());
    EXPECT_FALSE(ring.holder_of(key.text).has_value());
    ring.revoke(key.id);
    EXPECT_FALSE(ring.holder_of(key.id).has_value());
}

TEST(KeyRingTest, a_revoked_key_lets_nobody_in) {
    KeyRing ring;
    const NewKey key = make_key();
    ring.put(core::OrgId(1), row_of(key, {"admin"}));
    ring.revoke(key.id);
    EXPECT_FALSE(ring.find(key.text).has_value());

    core::ApiKey revoked = row_of(key, {"admin"});
    revoked.revoked_at = from_micros(1);
    ring.put(core::OrgId(1), revoked);
    EXPECT_FALSE(ring.find(key.text).has_value());
}

TEST(KeyRingTest, no_two_keys_are_alike_and_the_row_does_not_hold_the_secret) {
    const NewKey a = make_key();
    const NewKey b = make_key();

    EXPECT_NE(a.id, b.id);
    EXPECT_NE(a.text, b.text);
    EXPECT_EQ(a.text.find(a.hash), std::string::npos);
    EXPECT_GE(a.text.size(), 4 + 12 + 1 + 64u);
}

}  // namespace
}  // namespace interlock::api
