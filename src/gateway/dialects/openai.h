// What OpenAI's two APIs, chat completions and responses, have in common.
#pragma once

#include <array>

#include "gateway/call_request_reader.h"
#include "gateway/dialect.h"
#include "gateway/usage_reader.h"

namespace interlock::gateway {

class OpenAiDialect : public Dialect {
 public:
    ApiFormat format() const override { return ApiFormat::openai; }
    std::string versioned(std::string_view path) const override;
    std::string_view listed_paths() const override;
    net::Header key_header(std::string_view key) const override;
    std::string error_body(const ErrorFacts& error) const override;
    ProviderHome home() const override;
    std::string_view provider_at(std::string_view host) const override;
};

class OpenAiRequestReader : public CallRequestReader {
 protected:
    using CallRequestReader::CallRequestReader;

    // What is said to a client's tools and by them, and the shapes of it.
    static constexpr std::array<std::string_view, 3> opaque_members{"parameters", "schema", "arguments"};

    // Members that both APIs have.
    void shared_member(std::string_view key);
    void tools();

    bool server_tools_ = false;  // The provider runs one itself.
};

class OpenAiUsageReader : public UsageReader {
 protected:
    using UsageReader::UsageReader;
    void usage(JsonReader& json);
    // Whether there is no output to be counted, as with embeddings.
    virtual bool states_input_only() const { return false; }
};

// Whether a provider that speaks OpenAI's API keeps `max_tool_calls`.
bool keeps_max_tool_calls(std::string_view provider);

}  // namespace interlock::gateway
