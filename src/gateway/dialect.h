// Everything that differs from one provider's API to another. Each API is a file in gateway/dialects/.
//
//   (1) Code outside of gateway/dialects/ does not branch on the API, the operation or the provider of a call. It may
//       ask is_free().
//   (2) A dialect has no state, so all calls share one object.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gateway/body_edit.h"
#include "gateway/call_request.h"
#include "gateway/model_route.h"
#include "gateway/refusal.h"
#include "gateway/usage.h"
#include "net/http.h"

namespace interlock::gateway {

class UsageReader;

// What a path asks for.
struct Endpoint {
    Operation operation = Operation::chat;
    net::Method method = net::Method::post;
    std::string model = {};  // Where the path names it; percent-decoded.
    bool stream = false;     // Where the path says it.
};

// Where an API is served by the company that made it.
struct ProviderHome {
    std::string_view provider;
    std::string_view host;
    std::string_view version_path;  // Every path of the API begins with it.
};

// What an error says.
struct ErrorFacts {
    RefusalKind kind = RefusalKind::internal;
    int status = 500;
    RefusalCode code = RefusalCode::unavailable;  // Sent where the API has room for it.
    std::string_view message = {};
    std::string_view call_id = {};  // Empty: not stated.
};

class Dialect {
 public:
    virtual ~Dialect() = default;

    virtual ApiFormat format() const = 0;
    // The first dialect of a format is also asked about what all of them share.
    virtual bool serves(Operation operation) const = 0;

    // ---- paths ------------------------------------------------------------------------------------------------------

    // True if a path that stands behind no prefix belongs to this API and to no other.
    virtual bool owns(std::string_view path) const = 0;
    // True if the headers say that the request is for this API. They decide where several APIs have the path.
    virtual bool is_named_by(const net::Request&) const { return false; }
    // The path with its version, if it stands behind a prefix and may leave that out.
    virtual std::string versioned(std::string_view path) const { return std::string(path); }
    // What the path asks for; nothing: it is not passed on.
    virtual std::optional<Endpoint> endpoint(std::string_view path) const = 0;
    // Why a request is not answered although its path is passed on; nothing: it is.
    virtual std::optional<NoRoute> refuse(const Endpoint&, const net::Request&) const { return std::nullopt; }
    // For a client whose path is not passed on: "POST /v1/messages is metered, and …"
    virtual std::string_view listed_paths() const = 0;
    // Whether a key in the query of a GET is taken.
    virtual bool takes_key_in_query(net::Method method) const { return method == net::Method::post; }
    // The route's target with another model in it, if the API names the model there.
    virtual std::string target_for(const ModelRoute& route, const std::string& /*model*/) const { return route.target; }

    // ---- requests ---------------------------------------------------------------------------------------------------

    // Whether the body of such a request says which model it is for.
    virtual bool has_body_to_read(Operation operation) const { return !is_free(operation); }
    // The body was checked to be UTF-8. The error is a sentence for the client.
    virtual Result<CallRequest, std::string> read(const ModelRoute& route, std::string_view body) const = 0;
    // The member of the body that has the conversation.
    virtual std::string_view messages_member() const { return "messages"; }
    // Whether the provider states the usage of this request's stream only if the gateway asks it to.
    virtual bool hides_usage(const ModelRoute&, const CallRequest&) const { return false; }
    virtual void edit(const ModelRoute& route, const CallRequest& request, const Edits& edits,
                      BodyEdit& body) const = 0;
    // Whether that provider keeps a limit on uses of tools that run at its side (Edits::tool_calls_max).
    virtual bool keeps_tool_limit(std::string_view /*provider*/) const { return true; }
    virtual net::Header key_header(std::string_view key) const = 0;

    // ---- answers ----------------------------------------------------------------------------------------------------

    virtual std::unique_ptr<UsageReader> usage_reader(Operation operation, KeepText keep) const = 0;
    // Whether a stream may be one JSON array instead of events.
    virtual bool streams_arrays() const { return false; }
    // Whether a stream can have an event with usage and nothing else.
    virtual bool has_usage_event() const { return false; }

    // ---- errors -----------------------------------------------------------------------------------------------------

    virtual std::string error_body(const ErrorFacts& error) const = 0;
    // What ends a stream cleanly that cannot go on: an event in the API's own shape, and what its clients need to see
    // after it.
    virtual std::string stream_error(const ErrorFacts& error) const = 0;

    // ---- providers --------------------------------------------------------------------------------------------------

    virtual ProviderHome home() const = 0;
    // The provider, as the price catalog calls it, that speaks this API at that host too; empty: none is known.
    virtual std::string_view provider_at(std::string_view /*host*/) const { return {}; }
};

// The dialect of the operation; of an operation that the API does not have, as of its format alone.
const Dialect& dialect_of(ApiFormat format, Operation operation);
const Dialect& dialect_of(ApiFormat format);

// The provider at a host, as the price catalog calls it. One that is not known is called as the format's own.
std::string_view provider_at(ApiFormat format, std::string_view host);
// What a provider that speaks OpenAI's API calls the limit of a chat's output. A name that it does not know is no limit
// there.
std::string_view chat_limit_name(std::string_view provider);

// In the order in which they are asked whose a path is. Of each format the first one stands for all of them.
std::span<const Dialect* const> all_dialects();

// One per file in gateway/dialects/.
const Dialect& openai_chat();
const Dialect& openai_responses();
const Dialect& anthropic();
const Dialect& gemini();

// ---- for those who write them ---------------------------------------------------------------------------------------

// Takes "/first" off "/first/rest" or "/first", and nothing off "/firstling".
bool take_prefix(std::string_view& path, std::string_view prefix);
// The first segment behind "/v1/"; empty: there is none.
std::string_view noun_of(std::string_view path);
// Of "/models" or "/models/{model}", without a version before it: the free description of models. Names of models may
// have slashes in them.
std::optional<Endpoint> models_endpoint(std::string_view path);

}  // namespace interlock::gateway
