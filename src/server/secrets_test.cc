#include "server/secrets.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "store/temporary_directory.h"

namespace interlock::server {
namespace {

constexpr core::OrgId ours{1};

struct Secrets : testing::Test {
    store::TemporaryDirectory directory;
    SecretBox box{directory.path()};
};

// For a host that it may go to.
Result<std::string, std::string> opened(SecretBox& with, core::OrgId org, std::string_view name,
                                        std::string_view stored) {
    return with.open(org, name, stored, "api.openai.com", {"api.openai.com"});
}

TEST_F(Secrets, what_was_sealed_opens_again_after_a_restart_too) {
    for (const std::string& secret :
         {std::string("sk-live-1"), std::string(), std::string("\0\n\xff", 3), std::string(10'000, 'x')}) {
        const auto sealed = box.seal(ours, "openai", secret);
        ASSERT_TRUE(sealed) << sealed.error();
        SecretBox later(directory.path());

        EXPECT_EQ(opened(box, ours, "openai", *sealed).value(), secret);
        EXPECT_EQ(opened(later, ours, "openai", *sealed).value(), secret);
    }
}

TEST_F(Secrets, nothing_of_a_secret_is_seen_in_what_is_stored) {
    const std::string sealed = box.seal(ours, "openai", "sk-live-1").value();

    EXPECT_EQ(sealed.find("sk-live"), std::string::npos);
    EXPECT_EQ(sealed.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="),
              std::string::npos);
}

TEST_F(Secrets, the_same_secret_is_the_same_text_and_another_is_another) {
    const std::string sealed = box.seal(ours, "openai", "sk-live-1").value();

    EXPECT_EQ(box.seal(ours, "openai", "sk-live-1").value(), sealed);
    EXPECT_NE(box.seal(ours, "openai", "sk-live-2").value(), sealed);
    EXPECT_NE(box.seal(ours, "other", "sk-live-1").value(), sealed);
    EXPECT_NE(box.seal(core::OrgId(2), "openai", "sk-live-1").value(), sealed);
}

TEST_F(Secrets, one_opens_under_its_own_name_and_org_only) {
    const std::string sealed = box.seal(ours, "openai", "sk-live-1").value();

    EXPECT_FALSE(opened(box, ours, "other", sealed));
    EXPECT_FALSE(opened(box, core::OrgId(2), "openai", sealed));
}

TEST_F(Secrets, a_changed_byte_anywhere_is_noticed) {
    // Of a length that base64 has no bits to spare for.
    const std::string sealed = box.seal(ours, "openai", "sk-live-10").value();

    for (std::size_t i = 0; i < sealed.size(); ++i) {
        std::string changed = sealed;
        changed[i] = changed[i] == 'A' ? 'B' : 'A';
        EXPECT_FALSE(opened(box, ours, "openai", changed)) << i;
    }
    for (const char* nonsense : {"", "AAAA", "no base64", "AQ=="}) EXPECT_FALSE(opened(box, ours, "openai", nonsense));
}

TEST_F(Secrets, the_key_is_the_owners_alone_and_is_made_only_to_seal) {
    const std::string path = directory.path() + "/secrets.key";
    EXPECT_EQ(opened(box, ours, "openai", "AAAA").error(),
              path + " is missing, which has the key of the secrets; restore it, or set the secrets again");
    EXPECT_FALSE(std::filesystem::exists(path));

    ASSERT_TRUE(box.seal(ours, "openai", "sk-live-1"));

    struct stat there{};
    ASSERT_EQ(::stat(path.c_str(), &there), 0);
    EXPECT_EQ(there.st_mode & 0777, 0600u);
}

TEST_F(Secrets, another_key_file_is_told_from_a_damaged_secret) {
    const std::string sealed = box.seal(ours, "openai", "sk-live-1").value();
    store::TemporaryDirectory elsewhere;
    SecretBox other(elsewhere.path());
    ASSERT_TRUE(other.seal(ours, "x", "y"));

    const auto found = opened(other, ours, "openai", sealed);

    ASSERT_FALSE(found);
    EXPECT_TRUE(found.error().starts_with("secret 'openai' was encrypted with another key")) << found.error();
}

TEST_F(Secrets, one_opens_for_its_hosts_only) {
    const std::vector<std::string> hosts{"api.openai.com", "127.0.0.1:8080"};
    const std::string stored = box.seal(ours, "openai", "sk-live-1", hosts).value();

    for (const std::string& host : hosts) EXPECT_EQ(box.open(ours, "openai", stored, host, hosts).value(), "sk-live-1");
    EXPECT_FALSE(box.open(ours, "openai", stored, "evil.example", hosts));
    EXPECT_FALSE(box.open(ours, "openai", stored, "127.0.0.1", hosts)) << "another port";
    EXPECT_FALSE(box.open(ours, "openai", stored, "api.openai.com", {})) << "bound to nothing yet";
}

TEST_F(Secrets, hosts_that_were_changed_in_the_store_are_noticed) {
    std::string stored = box.seal(ours, "openai", "sk-live-1", {"api.openai.com"}).value();
    const std::size_t at = stored.find("api.openai.com");
    ASSERT_NE(at, std::string::npos);
    stored.replace(at, 14, "evil.example.x");

    EXPECT_FALSE(box.open(ours, "openai", stored, "evil.example.x", {"evil.example.x"}));
}

}  // namespace
}  // namespace interlock::server
