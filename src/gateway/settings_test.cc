#include "gateway/settings.h"

#include <gtest/gtest.h>

#include "core/settings.h"
#include "gateway/provider_hosts.h"

namespace interlock::gateway {
namespace {

std::string refused(std::string_view kind, std::string_view document) {
    const auto text = canonical(kind, "x", document);
    return text ? "accepted: " + *text : to_sentence(text.error());
}
std::string refused_upstream(std::string_view members) {
    return refused(core::upstream_setting, R"({"dialect":"openai",)" + std::string(members) + "}");
}

TEST(Settings, an_upstream_needs_no_more_than_its_dialect) {
    const auto anthropic = upstream_from("claude", R"({"dialect":"anthropic"})");
    ASSERT_TRUE(anthropic);
    EXPECT_EQ(anthropic->name, "claude");
    EXPECT_EQ(anthropic->url, "https://api.anthropic.com");
    EXPECT_EQ(anthropic->origin, (net::Origin{true, "api.anthropic.com", 443}));
    EXPECT_EQ(anthropic->path, "");
    EXPECT_EQ(anthropic->provider, "anthropic");
    EXPECT_EQ(anthropic->key.from, KeyFrom::none);
    EXPECT_TRUE(anthropic->takes("anything"));
    EXPECT_EQ(upstream_from("g", R"({"dialect":"gemini"})")->provider, "google");
    EXPECT_EQ(upstream_from("o", R"({"dialect":"openai"})")->provider, "openai");
}

TEST(Settings, what_is_canonical_reads_back_equal_and_stays_as_it_is) {
    const std::string document =
        R"({"headers":{"X-Title":"us"},"url":"https://openrouter.ai/api/v1/","dialect":"openai","weight":7,)"
        R"("strip_prefix":"openrouter/","models":["openrouter/*","m"],"key":{"secret":"router"},"ca_file":"/a.pem",)"
        R"("enabled":false,"retries":0,"insecure":null})";

    const auto first = upstream_from("r", document);
    ASSERT_TRUE(first) << to_sentence(first.error());
    const std::string text = document_of(*first);

    EXPECT_EQ(upstream_from("r", text).value(), *first);
    EXPECT_EQ(canonical(core::upstream_setting, "r", text).value(), text);
    EXPECT_EQ(first->headers.at("x-title"), "us");
    EXPECT_EQ(first->provider, "openrouter");
    EXPECT_EQ(first->model_there("openrouter/openai/gpt"), "openai/gpt");
    EXPECT_EQ(first->model_there("m"), "m");
    EXPECT_EQ(first->origin.ca_file, "/a.pem");
    for (const auto kind : {core::rate_limit_setting, core::gateway_setting}) {
        const auto of_kind =
            canonical(kind, "default", kind == core::gateway_setting ? "{}" : R"({"requests_per_minute":1})");
        ASSERT_TRUE(of_kind);
        EXPECT_EQ(canonical(kind, "default", *of_kind).value(), *of_kind);
    }
}

TEST(Settings, a_base_may_be_pasted_as_an_sdk_has_it) {
    struct Case {
        std::string given;
        std::string kept;
        std::string path;
    };
    for (const Case& c : {Case{"https://api.groq.com/openai/v1", "https://api.groq.com/openai", "/openai"},
                          Case{"https://api.openai.com/v1/", "https://api.openai.com", ""},
                          Case{"http://127.0.0.1:8080/", "http://127.0.0.1:8080", ""},
                          Case{"http://[::1]:8080/a/b", "http://[::1]:8080/a/b", "/a/b"}}) {
        const auto upstream = upstream_from("u", R"({"dialect":"openai","url":")" + c.given + "\"}");
        ASSERT_TRUE(upstream) << to_sentence(upstream.error());
        EXPECT_EQ(upstream->url, c.kept);
        EXPECT_EQ(upstream->path, c.path);
    }
}

TEST(Settings, what_goes_in_the_clear_stays_on_this_machine_unless_said_otherwise) {
    EXPECT_TRUE(upstream_from("u", R"({"dialect":"openai","url":"http://localhost:1"})"));
    EXPECT_TRUE(upstream_from("u", R"({"dialect":"openai","url":"http://10.0.0.1","insecure":true})"));
    for (const char* url : {"http://10.0.0.1", "http://127.0.0.1.example.com", "http://localhost.example.com"}) {
        const std::string said = refused_upstream(R"("url":")" + std::string(url) + "\"");
        EXPECT_TRUE(said.starts_with("/url is '" + std::string(url) + "': keys and prompts would go")) << said;
    }
}

TEST(Settings, a_refusal_points_at_the_member_and_says_what_is_wrong_with_it) {
    struct Case {
        std::string members;
        std::string said;
    };
    for (const Case& c : {
             Case{R"("wieght":1)", "/wieght is not known here; did you mean 'weight'?"},
             Case{R"("weight":0)", "/weight is 0; it must be from 1 to 1000"},
             Case{R"("weight":"1")", "/weight must be a whole number"},
             Case{R"("retries":11)", "/retries is 11; it must be from 0 to 10"},
             Case{R"("enabled":1)", "/enabled must be true or false"},
             Case{R"("models":"*")", "/models must be an array of strings"},
             Case{R"("models":["a",2])", "/models/1 must be a string"},
             Case{R"("models":[])", "/models must have a pattern; \"*\" takes every model"},
             Case{R"("models":[""])", "/models/0 must not be empty"},
             Case{R"("url":"ftp://a")", "/url is 'ftp://a': a URL begins with http:// or https://"},
             Case{R"("url":"https://a?b=c")", "/url must not have a query: it is what other paths are added to"},
             Case{R"("provider":"a b")", "/provider must be a name"},
             Case{R"("ca_file":"a.pem")", "/ca_file must be an absolute path on the server's machine"},
             Case{R"("headers":{"Authorization":"x"})",
                  "/headers/authorization cannot be set here: the gateway makes it itself"},
             Case{R"("headers":{"a b":"x"})", "/headers has no header 'a b'"},
             Case{R"("headers":{"x-a":"x","X-A":"y"})", "/headers has the header 'x-a' twice"},
             Case{R"("headers":{"a/b":1})", "/headers/a~1b must be a string"},
             Case{R"("headers":{"a":"x\r\ny"})", "/headers/a must not have control characters"},
             Case{R"("key":{"env":""})", "/key/env must be the name of an environment variable of the server"},
             Case{R"("key":{"file":"key"})", "/key/file must be an absolute path on the server's machine"},
             Case{R"("key":{"secret":"a/b"})", "/key/secret must be the name of a secret"},
         }) {
        EXPECT_EQ(refused_upstream(c.members), c.said);
    }
    EXPECT_EQ(refused(core::upstream_setting, "{}"), "/dialect is required");
    EXPECT_EQ(refused(core::upstream_setting, R"({"dialect":"opnai"})"),
              "/dialect 'opnai' is not one of: openai, anthropic, gemini");
    for (const char* text : {"", "[]", "{", "1"}) {
        EXPECT_EQ(refused(core::upstream_setting, text), "the document must be a JSON object");
    }
}

TEST(Settings, a_key_that_was_pasted_is_not_repeated) {
    for (const char* key : {R"("key":"sk-1234")", R"("key":{"value":"sk-1234"})", R"("key":{"none":"sk-1234"})",
                            R"("key":{"env":"A","file":"sk-1234"})", R"("key":{})"}) {
        EXPECT_EQ(refused_upstream(key),
                  R"(/key must say where the key is: {"env": "NAME"}, {"file": "/path"} or {"secret": "NAME"})");
    }
}

TEST(Settings, a_rate_limit_applies_to_what_it_names) {
    const auto limit = rate_limit_from("l", R"({"match":{"agent":"a","model":"gpt-*"},"tokens_per_minute":10})");
    ASSERT_TRUE(limit) << to_sentence(limit.error());

    EXPECT_TRUE(limit->applies("k", "a", "gpt-5", "openai"));
    EXPECT_FALSE(limit->applies("k", "b", "gpt-5", "openai"));
    EXPECT_FALSE(limit->applies("k", "a", "o3", "openai"));
    EXPECT_FALSE(limit->requests_per_minute.has_value());
    EXPECT_TRUE(rate_limit_from("l", R"({"requests_per_minute":1})")->applies("", "", "", ""));
    EXPECT_EQ(refused(core::rate_limit_setting, "{}"),
              "the document must have requests_per_minute, tokens_per_minute or both");
    EXPECT_EQ(refused(core::rate_limit_setting, R"({"match":{"agnet":"a"}})"),
              "/match/agnet is not known here; did you mean 'agent'?");
}

TEST(Settings, the_gateways_own_have_defaults_and_bounds) {
    const auto settings = gateway_settings_from("{}");
    ASSERT_TRUE(settings);
    EXPECT_EQ(*settings, GatewaySettings());

    const auto otlp = gateway_settings_from(R"({"otlp":{"url":"http://collector:4318/","headers":{"Api-Key":"x"}}})");
    ASSERT_TRUE(otlp) << to_sentence(otlp.error());
    EXPECT_EQ(otlp->otlp.url, "http://collector:4318");
    EXPECT_EQ(otlp->otlp.headers.at("api-key"), "x");

    EXPECT_EQ(refused(core::gateway_setting, R"({"unknown_model":"assume"})"),
              "/assume_price must name the price to assume: provider/model");
    EXPECT_EQ(refused(core::gateway_setting, R"({"share_percent":0})"),
              "/share_percent is 0; it must be from 1 to 100");
    EXPECT_EQ(refused(core::gateway_setting, R"({"otlp":{"url":"collector"}})"),
              "/otlp/url is 'collector': a URL begins with http:// or https://");
}

TEST(Settings, a_price_has_its_name_from_its_setting) {
    const auto price = price_from("openrouter/openai/gpt-5", R"({"input_per_mtok":"3","output_per_mtok":"15.5"})");
    ASSERT_TRUE(price) << to_sentence(price.error());
    EXPECT_EQ(price->provider, "openrouter");
    EXPECT_EQ(price->model, "openai/gpt-5");
    EXPECT_EQ(price->tiers.front().rates.output, 15'500'000);

    const std::string text =
        canonical(core::price_setting, "a/b", R"({"output_per_mtok":"1.50","input_per_mtok":"1"})").value();
    EXPECT_EQ(canonical(core::price_setting, "a/b", text).value(), text);

    const auto refused_price = [](std::string_view name, std::string_view document) {
        const auto bad = canonical(core::price_setting, name, document);
        return bad ? BadDocument{"accepted", *bad} : bad.error();
    };
    EXPECT_EQ(refused_price("a/b", R"({"input_per_mtok":"x"})").pointer, "/input_per_mtok");
    EXPECT_EQ(refused_price("a/b", R"({"inputs":"1"})").pointer, "/inputs");
    EXPECT_EQ(refused_price("a/b", "[]").pointer, "");
    for (const char* name : {"a", "/a", "a/"}) {
        EXPECT_EQ(refused_price(name, "{}"), (BadDocument{"", "must have a provider and a model"}));
    }
}

TEST(Settings, the_sandbox_has_levels_and_hosts_without_patterns) {
    const auto text = canonical(core::sandbox_setting, "default",
                                R"({"minimum":"files","private_hosts":["a.example","b.example:80"]})");
    ASSERT_TRUE(text) << to_sentence(text.error());
    EXPECT_EQ(canonical(core::sandbox_setting, "default", *text).value(), *text);
    const auto settings = sandbox_settings_from(*text);
    EXPECT_EQ(settings->standard, core::SandboxLevel::server_default);
    EXPECT_EQ(settings->minimum, core::SandboxLevel::files);
    EXPECT_EQ(settings->private_hosts, (std::vector<std::string>{"a.example", "b.example:80"}));

    for (const char* host : {"*", "*.example", "10.0.0.1", "a b", ""}) {
        EXPECT_EQ(refused(core::sandbox_setting, std::string(R"({"private_hosts":[")") + host + R"("]})"),
                  "/private_hosts/0 must be the name of a host, and may end with :PORT");
    }
    EXPECT_NE(refused(core::sandbox_setting, R"({"default":"tight"})").find("/default"), std::string::npos);
}

TEST(ProviderHosts, a_provider_is_known_by_its_hosts_and_what_is_below_them) {
    for (const char* host : {"api.openai.com", "eu.api.openai.com", "api.anthropic.com", "me.openai.azure.com",
                             "us-central1-aiplatform.googleapis.com", "bedrock-runtime.eu-west-1.amazonaws.com",
                             "bedrock.us-east-1.api.aws", "openrouter.ai", "chatgpt.com"}) {
        EXPECT_TRUE(is_provider_host(host)) << host;
    }
    for (const char* host : {"openai.com", "anapi.openai.com", "storage.googleapis.com", "s3.amazonaws.com",
                             "packages.example.com", "bedrock.example.org"}) {
        EXPECT_FALSE(is_provider_host(host)) << host;
    }
}

TEST(Settings, a_star_stands_for_anything) {
    for (const auto& [pattern, text] : std::initializer_list<std::pair<const char*, const char*>>{
             {"*", ""}, {"*", "a"}, {"a*", "a"}, {"a*c", "abcbc"}, {"*b*", "abc"}, {"a", "a"}, {"**", "x"}, {"", ""}}) {
        EXPECT_TRUE(matches(pattern, text)) << pattern << " " << text;
    }
    for (const auto& [pattern, text] : std::initializer_list<std::pair<const char*, const char*>>{
             {"", "a"}, {"a", "b"}, {"a*c", "abcb"}, {"a", "aa"}, {"*a", "ab"}, {"a*a", "a"}}) {
        EXPECT_FALSE(matches(pattern, text)) << pattern << " " << text;
    }
}

}  // namespace
}  // namespace interlock::gateway
