#include "server/secret_hosts.h"

#include <gtest/gtest.h>

#include "api/secret_hosts.h"
#include "core/settings.h"

namespace interlock::server {
namespace {

core::Setting secret(std::string name, std::int64_t version, std::string document = "c2VhbGVk") {
    return {.kind = std::string(core::secret_setting),
            .name = std::move(name),
            .document = std::move(document),
            .version = version};
}

gateway::Upstream upstream(std::string name, std::string document) {
    return gateway::upstream_from(name, document).value();
}

const auto openai = R"({"dialect":"openai","key":{"secret":"k"}})";

TEST(SecretHosts, a_host_is_written_in_one_way) {
    EXPECT_EQ(host_from("API.OpenAI.com"), "api.openai.com");
    EXPECT_EQ(host_from("api.openai.com:443"), "api.openai.com");
    EXPECT_EQ(host_from("api.openai.com:80"), "api.openai.com:80");
    EXPECT_EQ(host_from("[::1]:8080"), "[::1]:8080");
    for (const char* text : {"", "https://a", "a/b", "a?b", "*", "*.openai.com", "a b", "a:0", "a:x", "user@a"}) {
        EXPECT_FALSE(host_from(text)) << text;
    }
}

TEST(SecretHosts, a_secret_without_hosts_is_bound_to_the_upstreams_that_use_it) {
    SecretHosts hosts({secret("k", 3)});
    EXPECT_TRUE(hosts.of("k").empty());

    const auto to_store = hosts.bind(
        {upstream("a", openai),
         upstream("b", R"({"dialect":"openai","url":"http://127.0.0.1:80","headers":{"x-more":"secret:k"}})")},
        {});

    EXPECT_EQ(hosts.of("k"), (std::vector<std::string>{"127.0.0.1:80", "api.openai.com"}));
    ASSERT_EQ(to_store.size(), 1u);
    EXPECT_EQ(to_store[0].kind, "secret_hosts");
    EXPECT_EQ(to_store[0].name, "k");
    EXPECT_EQ(to_store[0].document, R"({"version":3,"hosts":["127.0.0.1:80","api.openai.com"]})");
}

TEST(SecretHosts, what_was_bound_stays_so_for_that_version) {
    const core::Setting binding{.kind = std::string(core::secret_hosts_setting),
                                .name = "k",
                                .document = api::binding_document(3, {"api.openai.com"}),
                                .version = 1};
    const auto elsewhere =
        upstream("evil", R"({"dialect":"openai","url":"https://evil.example","key":{"secret":"k"}})");

    SecretHosts bound({binding, secret("k", 3)});
    EXPECT_TRUE(bound.bind({elsewhere}, {}).empty());
    EXPECT_EQ(bound.of("k"), (std::vector<std::string>{"api.openai.com"}));

    SecretHosts set_with_it({secret("k", 3, R"({"hosts":["a.example"],"sealed":"x"})")});
    EXPECT_TRUE(set_with_it.bind({elsewhere}, {}).empty());
    EXPECT_EQ(set_with_it.of("k"), (std::vector<std::string>{"a.example"}));

    EXPECT_TRUE(SecretHosts({binding, secret("k", 4)}).of("k").empty()) << "another secret of that name";
}

TEST(SecretHosts, a_collector_binds_only_what_no_upstream_uses) {
    SecretHosts hosts({secret("k", 1), secret("only-otlp", 1)});
    const gateway::Otlp otlp{.url = "https://collector.example:4318",
                             .headers = {{"a", "secret:k"}, {"b", "secret:only-otlp"}, {"c", "secret:none"}}};

    hosts.bind({upstream("a", openai)}, otlp);

    EXPECT_EQ(hosts.of("k"), (std::vector<std::string>{"api.openai.com"}));
    EXPECT_EQ(hosts.of("only-otlp"), (std::vector<std::string>{"collector.example:4318"}));
    EXPECT_TRUE(hosts.of("none").empty());
}

}  // namespace
}  // namespace interlock::server
