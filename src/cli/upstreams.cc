// Settings of the gateway and of sandboxes: upstreams, rate limits, secrets, gateway and sandbox documents.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>

#include "base/strict_json.h"
#include "cli/context.h"
#include "cli/files.h"
#include "cli/nouns.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

const View& upstreams_view() {
    static const View view{
        .id = "name",
        .columns = {{"NAME", "name", Format::id},
                    {"STATE", "state", Format::status},
                    {"CALLS/H", "calls", Format::count},
                    {"ERRORS", "errors", Format::count, Room::if_there_is},
                    {"P50", "first_byte_ms_p50", Format::milliseconds, Room::if_there_is},
                    {"P95", "first_byte_ms_p95", Format::milliseconds, Room::if_there_is},
                    {"API", "dialect", Format::text},
                    {"URL", "url", Format::id},
                    {"PROVIDER", "provider", Format::id},
                    {"KEY", "key", Format::pairs},
                    {"MODELS", "models", Format::words},
                    {"PRIORITY", "priority", Format::count},
                    {"WEIGHT", "weight", Format::count, Room::if_there_is},
                    {"ON", "enabled", Format::yes},
                    {"SIMULATED", "simulated", Format::yes, Room::if_there_is},
                    {"LAST ERROR", "last_error", Format::free_text, Room::if_there_is}},
        .fields = {{"upstream", "name", Format::id},
                   {"on", "enabled", Format::yes},
                   {"API format", "dialect"},
                   {"url", "url", Format::id},
                   {"insecure", "insecure", Format::yes},
                   {"provider", "provider", Format::id},
                   {"key", "key", Format::pairs},
                   {"models", "models", Format::words},
                   {"strips prefix", "strip_prefix"},
                   {"output limit", "limit_name"},
                   {"priority", "priority", Format::count},
                   {"weight", "weight", Format::count},
                   {"connect timeout", "connect_timeout_ms", Format::milliseconds},
                   {"first byte timeout", "first_byte_timeout_ms", Format::milliseconds},
                   {"silence timeout", "silence_timeout_ms", Format::milliseconds},
                   {"total timeout", "total_timeout_ms", Format::milliseconds},
                   {"retries", "retries", Format::count},
                   {"backoff", "backoff_ms", Format::milliseconds},
                   {"cooldown after", "cooldown_after", Format::count},
                   {"cooldown", "cooldown_s", Format::length},
                   {"headers", "headers", Format::pairs},
                   {"ca file", "ca_file", Format::id},
                   {"version", "version", Format::count},
                   {"changed", "changed_at", Format::time}},
        .when_empty =
            "No upstreams. Create one: interlock upstreams add claude --api-format anthropic --key-env "
            "ANTHROPIC_API_KEY"};
    return view;
}

const View& limits_view() {
    static const View view{.id = "name",
                           .columns = {{"NAME", "name", Format::id},
                                       {"APPLIES TO", "match", Format::pairs},
                                       {"REQUESTS/MIN", "requests_per_minute", Format::count},
                                       {"TOKENS/MIN", "tokens_per_minute", Format::count},
                                       {"CHANGED", "changed_at", Format::time, Room::if_there_is}},
                           .fields = {{"limit", "name", Format::id},
                                      {"applies to", "match", Format::pairs},
                                      {"requests/min", "requests_per_minute", Format::count},
                                      {"tokens/min", "tokens_per_minute", Format::count},
                                      {"version", "version", Format::count},
                                      {"changed", "changed_at", Format::time}},
                           .when_empty = "No rate limits. Create one: interlock limits set NAME --rpm 60"};
    return view;
}

const View& secrets_view() {
    static const View view{.id = "name",
                           .columns = {{"NAME", "name", Format::id},
                                       {"HOSTS", "hosts", Format::words},
                                       {"VERSION", "version", Format::count},
                                       {"CHANGED", "changed_at", Format::time}},
                           .fields = {{"secret", "name", Format::id},
                                      {"hosts", "hosts", Format::words},
                                      {"version", "version", Format::count},
                                      {"changed", "changed_at", Format::time}},
                           .when_empty = "No secrets. Create one: interlock secrets set NAME < FILE"};
    return view;
}

const View& gateway_view() {
    static const View view{.id = "name",
                           .fields = {{"unknown_model", "unknown_model"},
                                      {"assume_price", "assume_price", Format::id},
                                      {"floor_tokens", "floor_tokens", Format::count},
                                      {"share_percent", "share_percent", Format::count},
                                      {"wait_s", "wait_s", Format::count},
                                      {"default_output_tokens", "default_output_tokens", Format::count},
                                      {"drain_s", "drain_s", Format::count},
                                      {"drain_bytes", "drain_bytes", Format::count},
                                      {"hold_lease_s", "hold_lease_s", Format::count},
                                      {"unbounded_cost", "unbounded_cost"},
                                      {"tool_rounds_max", "tool_rounds_max", Format::count},
                                      {"hidden_input_tokens", "hidden_input_tokens", Format::count},
                                      {"image_tokens_max", "image_tokens_max", Format::count},
                                      {"file_tokens_max", "file_tokens_max", Format::count},
                                      {"cache_ttl_s", "cache_ttl_s", Format::count},
                                      {"cache_keys", "cache_keys", Format::words},
                                      {"otlp.url", "otlp.url", Format::id},
                                      {"otlp.headers", "otlp.headers", Format::pairs},
                                      {"otlp.interval_s", "otlp.interval_s", Format::count},
                                      {"otlp.insecure", "otlp.insecure", Format::yes},
                                      {"private_orgs", "private_orgs", Format::words},
                                      {"version", "version", Format::count},
                                      {"changed", "changed_at", Format::time}}};
    return view;
}

const View& sandbox_view() {
    static const View view{.id = "name",
                           .fields = {{"default", "default"},
                                      {"minimum", "minimum"},
                                      {"private_hosts", "private_hosts", Format::words},
                                      {"version", "version", Format::count},
                                      {"changed", "changed_at", Format::time}}};
    return view;
}

const View& models_view() {
    static const View view{.id = "model",
                           .columns = {{"PROVIDER", "provider", Format::id},
                                       {"MODEL", "model", Format::id},
                                       {"COST", "cost", Format::money},
                                       {"CALLS", "calls", Format::count},
                                       {"TOKENS", "tokens", Format::count},
                                       {"LAST DAY", "last_day", Format::text, Room::if_there_is},
                                       {"INPUT", "price.input_per_mtok", Format::money},
                                       {"OUTPUT", "price.output_per_mtok", Format::money},
                                       {"PRICE", "price_source", Format::text},
                                       {"VERSION", "price_version", Format::text, Room::if_there_is},
                                       {"FROM", "price_from", Format::text, Room::if_there_is}},
                           .when_empty = "No model was used in the last 30 days."};
    return view;
}

Argument upstream_argument() { return {.name = "NAME", .help = "The upstream", .completes = "upstreams"}; }
Argument limit_argument() { return {.name = "NAME", .help = "The limit", .completes = "limits"}; }
Argument secret_argument() { return {.name = "NAME", .help = "The secret", .completes = "secrets"}; }

std::vector<Flag> upstream_flags() {
    const auto number = [](std::string name, std::string value, std::string help, std::string member = {}) {
        return Flag{.name = std::move(name),
                    .value = std::move(value),
                    .help = std::move(help),
                    .takes = ValueType::number,
                    .member = std::move(member)};
    };
    return {
        {.name = "api-format",
         .value = "FORMAT",
         .help = "API format of the upstream",
         .member = "dialect",
         .choices = {"openai", "anthropic", "gemini"},
         .required = true,
         .old_names = {"dialect"}},
        {.name = "url", .value = "URL", .help = "Address (default that of the provider)"},
        {.name = "provider",
         .value = "NAME",
         .help = "Provider for prices, caps and budgets (default by address or API format)"},
        {.name = "key-env",
         .value = "VAR",
         .help = "Environment variable of the server with the provider key",
         .member = "key.env"},
        {.name = "key-file",
         .value = "FILE",
         .help = "File on the server's machine with the provider key",
         .takes = ValueType::path,
         .member = "key.file"},
        {.name = "key-secret",
         .value = "NAME",
         .help = "Secret with the provider key",
         .member = "key.secret",
         .completes = "secrets"},
        {.name = "model",
         .value = "PATTERN",
         .help = "Models to send there, '*' matches anything; repeatable (default *)",
         .takes = ValueType::repeat,
         .member = "models"},
        {.name = "strip-prefix", .value = "TEXT", .help = "Prefix to remove from model names before sending"},
        {.name = "limit-name",
         .value = "NAME",
         .help = "Request member for the output limit of a chat (default by provider)",
         .choices = {"max_tokens", "max_completion_tokens"}},
        number("priority", "N", "Upstreams with the lowest number are tried first (default 100)"),
        number("weight", "N", "Share of the calls among upstreams of one priority (default 1)"),
        number("connect-timeout", "MS", "Limit for connecting (default 5000)", "connect_timeout_ms"),
        number("first-byte-timeout", "MS", "Limit until the response begins (default 120000)", "first_byte_timeout_ms"),
        number("silence-timeout", "MS", "Limit between two chunks of a response (default 120000)",
               "silence_timeout_ms"),
        number("total-timeout", "MS", "Limit for the whole call (default 3600000)", "total_timeout_ms"),
        number("retries", "N", "Retries before the first byte (default 2)"),
        number("backoff", "MS", "Delay before the first retry, doubled for each further one (default 250)",
               "backoff_ms"),
        number("cooldown-after", "N", "Consecutive failures that start a cooldown (default 3; 0: never)"),
        {.name = "cooldown",
         .value = "TIME",
         .help = "Time without calls after failures (default 30s)",
         .takes = ValueType::length,
         .member = "cooldown_s"},
        {.name = "header",
         .value = "NAME=VALUE",
         .help = "Header to send with every request; repeatable",
         .takes = ValueType::pairs,
         .member = "headers"},
        {.name = "pass-header",
         .value = "PATTERN",
         .help = "Client header to pass on; repeatable",
         .takes = ValueType::repeat,
         .member = "pass_headers"},
        {.name = "ca-file",
         .value = "FILE",
         .help = "Certificate authorities besides those of the system (PEM)",
         .takes = ValueType::path},
        {.name = "insecure", .help = "Allow http to another machine", .takes = ValueType::on},
        {.name = "disabled", .help = "Add it disabled", .takes = ValueType::off, .member = "enabled"}};
}

// Reads the document, edits it and writes it back, because the API replaces whole documents.
ExitCode change_document(Context& context, const Invocation& invocation, const CliCommand& shown_as,
                         const std::string& target, const std::function<Outcome<void>(json::object&)>& edit) {
    auto client = context.connect();
    if (!client) return context.report(client.error());
    auto now = client->get(target);
    if (!now) return context.report(now.error());
    if (auto edited = edit(now->document.as_object()); !edited) return context.report(edited.error());
    const auto answer = client->change({.method = "PUT",
                                        .target = target,
                                        .body = json::serialize(now->document),
                                        .key = key_of(context, invocation)});
    if (!answer) return context.report(answer.error());
    show(context, shown_as, invocation, *answer);
    return ExitCode::ok;
}

std::function<ExitCode(Context&, const Invocation&)> switching(bool on) {
    return [on](Context& context, const Invocation& invocation) {
        return change_document(context, invocation, *find_command({"upstreams", on ? "enable" : "disable"}),
                               "/v1/upstreams/" + percent_encoded(invocation.arguments[0]),
                               [on](json::object& document) -> Outcome<void> {
                                   document["enabled"] = on;
                                   return {};
                               });
    };
}

Outcome<void> set_member(json::object& document, std::string_view path, std::string_view text) {
    const std::size_t dot = path.find('.');
    json::value& member = document[path.substr(0, dot)];
    if (dot != std::string_view::npos) {
        if (!member.is_object()) member = json::object();
        return set_member(member.get_object(), path.substr(dot + 1), text);
    }
    // Text that is not JSON is taken as a string, so that model names and URLs need no quotes.
    auto parsed = parse_strict_json(text);
    member = parsed ? std::move(*parsed) : json::value(json::string(text));
    return {};
}

// Sets members of the single document at /v1/NOUN.
std::function<ExitCode(Context&, const Invocation&)> setting_members_of(std::string noun) {
    return [noun](Context& context, const Invocation& invocation) {
        return change_document(
            context, invocation, *find_command({noun, "set"}), "/v1/" + noun,
            [&](json::object& document) -> Outcome<void> {
                for (const std::string& pair : invocation.arguments) {
                    const std::size_t equals = pair.find('=');
                    if (equals == std::string::npos || equals == 0) {
                        return fail(bad_usage(fmt::format("'{}' is not KEY=VALUE", one_line(pair)),
                                              fmt::format("'interlock {} show' lists the keys", noun)));
                    }
                    auto set = set_member(document, pair.substr(0, equals), pair.substr(equals + 1));
                    if (!set) return set;
                }
                return {};
            });
    };
}

// Secrets are not arguments, because other users can see the command line and shells keep it in their history.
Outcome<std::string> read_secret(const Context& context, const Invocation& invocation) {
    const auto path = invocation.value("from-file");
    if (!path) {
        context.remark("reading the secret from standard input; Ctrl-D ends it");
        return read_all(context.output.in);
    }
    std::FILE* file = std::fopen(path->c_str(), "re");
    if (file == nullptr)
        return fail(bad_usage(fmt::format("cannot read {}: {}", one_line(*path), std::strerror(errno)),
                              "pass another --from-file"));
    std::string text = read_all(file);
    std::fclose(file);
    return text;
}

ExitCode set_secret(Context& context, const Invocation& invocation) {
    auto secret = read_secret(context, invocation);
    if (!secret) return context.report(secret.error());
    while (secret->ends_with('\n') || secret->ends_with('\r')) secret->pop_back();
    if (secret->empty()) return context.report(bad_usage("the secret is empty", "interlock secrets set NAME < FILE"));
    json::object body{{"value", *secret}};
    if (const auto hosts = invocation.flags.find("host"); hosts != invocation.flags.end()) {
        body["hosts"] = json::array(hosts->second.begin(), hosts->second.end());
    }
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const auto answer = client->change({.method = "PUT",
                                        .target = "/v1/secrets/" + percent_encoded(invocation.arguments[0]),
                                        .body = json::serialize(body),
                                        .key = key_of(context, invocation)});
    if (!answer) return context.report(answer.error());
    show(context, *find_command({"secrets", "set"}), invocation, *answer);
    return ExitCode::ok;
}

}  // namespace

std::vector<CliCommand> upstream_commands() {
    const View* view = &upstreams_view();
    return {
        {.words = {"upstreams", "ls"},
         .summary = "List upstreams with their state and recent calls",
         .examples = {{"interlock upstreams ls", ""},
                      {"interlock upstreams ls --watch 5", "refreshed every five seconds"},
                      {"interlock upstreams ls --json | jq '.items[] | select(.state != \"healthy\").name'", ""}},
         .method = "GET",
         .path = "/v1/gateway/upstreams",
         .answer = CliCommand::ResponseShape::whole,
         .view = view,
         .notes = "Calls, errors and the time to the first byte (P50, P95) are those of the last hour on the server "
                  "that answers. 'interlock upstreams show NAME' shows all settings."},
        {.words = {"upstreams", "show"},
         .summary = "Show one upstream",
         .arguments = {upstream_argument()},
         .examples = {{"interlock upstreams show claude", ""}},
         .method = "GET",
         .path = "/v1/upstreams/{NAME}",
         .view = view},
        {.words = {"upstreams", "add"},
         .summary = "Add or replace an upstream",
         .arguments = {upstream_argument()},
         .flags = upstream_flags(),
         .examples =
             {{"interlock upstreams add claude --api-format anthropic --key-env ANTHROPIC_API_KEY", ""},
              {"interlock upstreams add openai --api-format openai --key-secret openai --model 'gpt-*' --model 'o*'",
               "only these models"},
              {"interlock upstreams add spare --api-format openai --url https://openrouter.ai/api --key-secret "
               "router --priority 200",
               "tried after upstreams with priority 100"}},
         .method = "PUT",
         .path = "/v1/upstreams/{NAME}",
         .view = view,
         .notes = "Flags that are omitted are reset to their defaults. Without a key flag no provider key is sent. The "
                  "client's own key never leaves the gateway. Name the server before the noun: interlock --url URL "
                  "upstreams add …"},
        {.words = {"upstreams", "enable"},
         .summary = "Enable an upstream",
         .arguments = {upstream_argument()},
         .examples = {{"interlock upstreams enable claude", ""}},
         .method = "PUT",
         .path = "/v1/upstreams/{NAME}",
         .view = view,
         .run = switching(true)},
        {.words = {"upstreams", "disable"},
         .summary = "Disable an upstream; calls in progress continue",
         .arguments = {upstream_argument()},
         .examples = {{"interlock upstreams disable claude", ""}},
         .method = "PUT",
         .path = "/v1/upstreams/{NAME}",
         .view = view,
         .run = switching(false)},
        {.words = {"upstreams", "rm"},
         .summary = "Remove an upstream",
         .arguments = {upstream_argument()},
         .examples = {{"interlock upstreams rm spare", ""}},
         .method = "DELETE",
         .path = "/v1/upstreams/{NAME}",
         .answer = CliCommand::ResponseShape::nothing,
         .done = "removed upstream {NAME}"},
    };
}

std::vector<CliCommand> limit_commands() {
    const View* view = &limits_view();
    const auto matching = [](std::string name, std::string value, std::string help, std::string member,
                             std::string completes = {}) {
        return Flag{.name = std::move(name),
                    .value = std::move(value),
                    .help = std::move(help),
                    .member = std::move(member),
                    .completes = std::move(completes)};
    };
    return {
        {.words = {"limits", "ls"},
         .summary = "List rate limits",
         .examples = {{"interlock limits ls", ""}},
         .method = "GET",
         .path = "/v1/rate-limits",
         .answer = CliCommand::ResponseShape::list,
         .view = view},
        {.words = {"limits", "show"},
         .summary = "Show one rate limit",
         .arguments = {limit_argument()},
         .examples = {{"interlock limits show coder", ""}},
         .method = "GET",
         .path = "/v1/rate-limits/{NAME}",
         .view = view},
        {.words = {"limits", "set"},
         .summary = "Set a rate limit on model calls",
         .arguments = {limit_argument()},
         .flags = {matching("agent", "NAME", "Only calls of this agent", "match.agent", "agents"),
                   matching("api-key", "ID", "Only calls by this API key", "match.key", "keys"),
                   matching("model", "PATTERN", "Only calls of these models; '*' matches anything", "match.model"),
                   matching("provider", "NAME", "Only calls to this provider", "match.provider"),
                   {.name = "rpm",
                    .value = "N",
                    .help = "Requests per minute",
                    .takes = ValueType::number,
                    .member = "requests_per_minute"},
                   {.name = "tpm",
                    .value = "N",
                    .help = "Tokens per minute",
                    .takes = ValueType::number,
                    .member = "tokens_per_minute"}},
         .examples = {{"interlock limits set coder --agent coder --rpm 60 --tpm 100000", ""},
                      {"interlock limits set opus --model 'claude-opus-*' --rpm 10", "for all agents together"}},
         .method = "PUT",
         .path = "/v1/rate-limits/{NAME}",
         .view = view,
         .notes = "A limit counts all calls that match it together. Without --agent, --api-key, --model or --provider "
                  "it matches every call."},
        {.words = {"limits", "rm"},
         .summary = "Remove a rate limit",
         .arguments = {limit_argument()},
         .examples = {{"interlock limits rm coder", ""}},
         .method = "DELETE",
         .path = "/v1/rate-limits/{NAME}",
         .answer = CliCommand::ResponseShape::nothing,
         .done = "removed limit {NAME}"},
    };
}

std::vector<CliCommand> secret_commands() {
    return {
        {.words = {"secrets", "ls"},
         .summary = "List secrets without their values",
         .examples = {{"interlock secrets ls", ""}},
         .method = "GET",
         .path = "/v1/secrets",
         .answer = CliCommand::ResponseShape::list,
         .view = &secrets_view()},
        {.words = {"secrets", "set"},
         .summary = "Set a secret from standard input or a file",
         .arguments = {secret_argument()},
         .flags = {{.name = "from-file",
                    .value = "FILE",
                    .help = "File with the secret (default standard input)",
                    .local = true},
                   {.name = "host",
                    .value = "HOST",
                    .help = "Host that may receive it; repeatable (default that of the first upstream that uses it)",
                    .takes = ValueType::repeat,
                    .local = true}},
         .examples = {{"interlock secrets set anthropic --host api.anthropic.com --from-file ~/anthropic.key", ""},
                      {"pass show openai | interlock secrets set openai", "keeps the secret off the command line"}},
         .method = "PUT",
         .path = "/v1/secrets/{NAME}",
         .view = &secrets_view(),
         .run = set_secret,
         .notes =
             "The secret is stored encrypted, with the key in secrets.key in the server's data directory, and never "
             "shown. Trailing line ends are removed. It is sent only to its hosts. To change them, set it again."},
        {.words = {"secrets", "rm"},
         .summary = "Remove a secret",
         .arguments = {secret_argument()},
         .examples = {{"interlock secrets rm openai", ""}},
         .method = "DELETE",
         .path = "/v1/secrets/{NAME}",
         .answer = CliCommand::ResponseShape::nothing,
         .done = "removed secret {NAME}"},
    };
}

std::vector<CliCommand> gateway_commands() {
    return {
        {.words = {"gateway", "show"},
         .summary = "Show the settings of the gateway",
         .examples = {{"interlock gateway show", ""}},
         .method = "GET",
         .path = "/v1/gateway",
         .view = &gateway_view()},
        {.words = {"gateway", "models"},
         .summary = "List the models of the last 30 days with their costs and prices",
         .examples = {{"interlock gateway models", "most expensive first"},
                      {"interlock gateway models --json | jq '.items[] | select(.priced | not).model'", ""}},
         .method = "GET",
         .path = "/v1/gateway/models",
         .answer = CliCommand::ResponseShape::whole,
         .view = &models_view(),
         .notes = "INPUT and OUTPUT are dollars per million tokens. PRICE is catalog for a price of the price list, or "
                  "set for one from 'interlock prices set'."},
        {.words = {"gateway", "set"},
         .summary = "Change settings of the gateway",
         .arguments = {{.name = "KEY=VALUE",
                        .help = "Key from 'gateway show' and its new value; null: the default",
                        .needed = Argument::Needed::many}},
         .examples = {{"interlock gateway set unknown_model=unpriced", ""},
                      {"interlock gateway set wait_s=0 share_percent=80", ""},
                      {"interlock gateway set otlp.url=http://localhost:4318", "exports spans and metrics"}},
         .method = "PUT",
         .path = "/v1/gateway",
         .view = &gateway_view(),
         .run = setting_members_of("gateway"),
         .notes = "Other keys keep their values."},
    };
}

std::vector<CliCommand> sandbox_commands() {
    return {
        {.words = {"sandbox", "show"},
         .summary = "Show the sandbox levels of runs",
         .examples = {{"interlock sandbox show", ""}},
         .method = "GET",
         .path = "/v1/sandbox",
         .view = &sandbox_view(),
         .notes =
             "server_default is the level from 'interlock up'. 'interlock doctor' shows which levels are possible."},
        {.words = {"sandbox", "set"},
         .summary = "Change the sandbox levels of runs",
         .arguments = {{.name = "KEY=VALUE",
                        .help = "Key from 'sandbox show' and its new value; null: the flag of 'interlock up'",
                        .needed = Argument::Needed::many}},
         .examples = {{"interlock sandbox set default=files minimum=guarded", "for runs that start later"},
                      {"interlock sandbox set 'private_hosts=[\"registry.lan:4873\"]'",
                       "sealed runs may reach this host at a private address"}},
         .method = "PUT",
         .path = "/v1/sandbox",
         .view = &sandbox_view(),
         .run = setting_members_of("sandbox"),
         .notes = "Levels are off, guarded, files and sealed. Other keys keep their values."},
    };
}

}  // namespace interlock::cli
