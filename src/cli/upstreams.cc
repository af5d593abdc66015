// What the gateway is told: upstreams, rate limits, secrets and its own settings.
#include <fmt/format.h>

#include <boost/json.hpp>

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
                    {"DIALECT", "dialect", Format::text},
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
                   {"dialect", "dialect"},
                   {"url", "url", Format::id},
                   {"insecure", "insecure", Format::yes},
                   {"provider", "provider", Format::id},
                   {"key", "key", Format::pairs},
                   {"models", "models", Format::words},
                   {"without", "strip_prefix"},
                   {"output limit", "limit_name"},
                   {"priority", "priority", Format::count},
                   {"weight", "weight", Format::count},
                   {"connect within", "connect_timeout_ms", Format::milliseconds},
                   {"first byte within", "first_byte_timeout_ms", Format::milliseconds},
                   {"silent for at most", "silence_timeout_ms", Format::milliseconds},
                   {"done within", "total_timeout_ms", Format::milliseconds},
                   {"retries", "retries", Format::count},
                   {"backoff", "backoff_ms", Format::milliseconds},
                   {"rests after", "cooldown_after", Format::count},
                   {"rests for", "cooldown_s", Format::length},
                   {"headers", "headers", Format::pairs},
                   {"ca file", "ca_file", Format::id},
                   {"version", "version", Format::count},
                   {"changed", "changed_at", Format::time}},
        .when_empty =
            "There are no upstreams: the gateway has nowhere to send calls. "
            "'interlock upstreams add claude --dialect anthropic --key-env ANTHROPIC_API_KEY' adds one."};
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
                           .when_empty = "There are no rate limits. 'interlock limits set NAME --rpm 60' sets one."};
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
                           .when_empty = "There are no secrets. 'interlock secrets set NAME < FILE' sets one."};
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
        {.name = "dialect",
         .value = "DIALECT",
         .help = "What it speaks",
         .choices = {"openai", "anthropic", "gemini"},
         .required = true},
        {.name = "url", .value = "URL", .help = "Where it is (the provider's own)"},
        {.name = "provider", .value = "NAME", .help = "Whose prices, caps and budgets count (by URL or dialect)"},
        {.name = "key-env", .value = "VAR", .help = "The key is in this variable of the server", .member = "key.env"},
        {.name = "key-file",
         .value = "FILE",
         .help = "The key is in this file on the server's machine",
         .takes = ValueType::path,
         .member = "key.file"},
        {.name = "key-secret",
         .value = "NAME",
         .help = "The key is this secret",
         .member = "key.secret",
         .completes = "secrets"},
        {.name = "model",
         .value = "PATTERN",
         .help = "A model it takes, '*' for anything; again for more (*)",
         .takes = ValueType::repeat,
         .member = "models"},
        {.name = "strip-prefix", .value = "TEXT", .help = "Taken off a model's name before it goes there"},
        {.name = "limit-name",
         .value = "NAME",
         .help = "Name of a chat's output limit (by the provider)",
         .choices = {"max_tokens", "max_completion_tokens"}},
        number("priority", "N", "The lowest is tried first (100)"),
        number("weight", "N", "Its share among those of its priority (1)"),
        number("connect-timeout", "MS", "To connect (5000)", "connect_timeout_ms"),
        number("first-byte-timeout", "MS", "Until the answer begins (120000)", "first_byte_timeout_ms"),
        number("silence-timeout", "MS", "Between two pieces of the answer (120000)", "silence_timeout_ms"),
        number("total-timeout", "MS", "For all of it (3600000)", "total_timeout_ms"),
        number("retries", "N", "Further attempts before the first byte (2)"),
        number("backoff", "MS", "Before the first of them, doubled for each further (250)", "backoff_ms"),
        number("cooldown-after", "N", "Failures in a row until it rests; 0: never (3)"),
        {.name = "cooldown",
         .value = "LENGTH",
         .help = "How long it rests (30s)",
         .takes = ValueType::length,
         .member = "cooldown_s"},
        {.name = "header",
         .value = "NAME=VALUE",
         .help = "Sent with every request; again for more",
         .takes = ValueType::pairs,
         .member = "headers"},
        {.name = "pass-header",
         .value = "PATTERN",
         .help = "A further header of clients that goes there; repeatable",
         .takes = ValueType::repeat,
         .member = "pass_headers"},
        {.name = "ca-file",
         .value = "FILE",
         .help = "Authorities to believe besides the system's",
         .takes = ValueType::path},
        {.name = "insecure", .help = "Let http go to another machine", .takes = ValueType::on},
        {.name = "disabled", .help = "Add it, but send it nothing yet", .takes = ValueType::off, .member = "enabled"}};
}

// What is set now, changed, and set again: the API sets whole documents.
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
    // What is JSON is meant as such; all else is text: model names and URLs need no quotes.
    auto parsed = parse_strict_json(text);
    member = parsed ? std::move(*parsed) : json::value(json::string(text));
    return {};
}

// Sets members of the document at /v1/NOUN, of which there is one.
std::function<ExitCode(Context&, const Invocation&)> setting_members_of(std::string noun) {
    return [noun](Context& context, const Invocation& invocation) {
        return change_document(
            context, invocation, *find_command({noun, "set"}), "/v1/" + noun,
            [&](json::object& document) -> Outcome<void> {
                for (const std::string& pair : invocation.arguments) {
                    const std::size_t equals = pair.find('=');
                    if (equals == std::string::npos || equals == 0) {
                        return fail(bad_usage(fmt::format("KEY=VALUE is wanted, not '{}'", one_line(pair)),
                                              fmt::format("'interlock {} show' has all keys", noun)));
                    }
                    auto set = set_member(document, pair.substr(0, equals), pair.substr(equals + 1));
                    if (!set) return set;
                }
                return {};
            });
    };
}

// Never from the command line itself: that is seen by everybody on the machine, and kept in histories.
Outcome<std::string> read_secret(const Context& context, const Invocation& invocation) {
    const auto path = invocation.value("from-file");
    if (!path) {
        context.remark("reading the secret from standard input, up to its end (Ctrl-D)");
        return read_all(context.terminal.in);
    }
    std::FILE* file = std::fopen(path->c_str(), "re");
    if (file == nullptr) return fail(bad_usage(fmt::format("cannot read {}", one_line(*path)), "name another file"));
    std::string text = read_all(file);
    std::fclose(file);
    return text;
}

ExitCode set_secret(Context& context, const Invocation& invocation) {
    auto secret = read_secret(context, invocation);
    if (!secret) return context.report(secret.error());
    while (secret->ends_with('\n') || secret->ends_with('\r')) secret->pop_back();
    if (secret->empty()) return context.report(bad_usage("the secret is empty", "give it on standard input"));
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
         .summary = "List where calls to models go, and how they do",
         .examples = {{"interlock upstreams ls", ""},
                      {"interlock upstreams ls --watch 5", "drawn again every five seconds"},
                      {"interlock upstreams ls --json | jq '.items[] | select(.state != \"healthy\").name'", ""}},
         .method = "GET",
         .path = "/v1/gateway/upstreams",
         .answer = CliCommand::ResponseShape::whole,
         .view = view,
         .notes =
             "Calls, errors and the time to the first byte (P50, P95) are those of the last hour, as the server has\n"
             "seen them that is asked. 'interlock upstreams show NAME' has all that was set."},
        {.words = {"upstreams", "show"},
         .summary = "Show one upstream",
         .arguments = {upstream_argument()},
         .examples = {{"interlock upstreams show claude", ""}},
         .method = "GET",
         .path = "/v1/upstreams/{NAME}",
         .view = view},
        {.words = {"upstreams", "add"},
         .summary = "Add an upstream, or set it anew",
         .arguments = {upstream_argument()},
         .flags = upstream_flags(),
         .examples =
             {{"interlock upstreams add claude --dialect anthropic --key-env ANTHROPIC_API_KEY", ""},
              {"interlock upstreams add openai --dialect openai --key-secret openai --model 'gpt-*' --model 'o*'",
               "only these models"},
              {"interlock upstreams add spare --dialect openai --url https://openrouter.ai/api --key-secret "
               "router --priority 200",
               "tried after those of priority 100"}},
         .method = "PUT",
         .path = "/v1/upstreams/{NAME}",
         .view = view,
         .notes =
             "What is not said has its default, also where the upstream is there already. Without a key none is\n"
             "sent; the client's own never goes further than the gateway. The server itself is named before the noun:\n"
             "interlock --url URL upstreams add …"},
        {.words = {"upstreams", "enable"},
         .summary = "Let calls go to an upstream again",
         .arguments = {upstream_argument()},
         .examples = {{"interlock upstreams enable claude", ""}},
         .method = "PUT",
         .path = "/v1/upstreams/{NAME}",
         .view = view,
         .run = switching(true)},
        {.words = {"upstreams", "disable"},
         .summary = "Send an upstream nothing more; calls under way go on",
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
         .summary = "List how much may go to models in a minute",
         .examples = {{"interlock limits ls", ""}},
         .method = "GET",
         .path = "/v1/rate-limits",
         .answer = CliCommand::ResponseShape::list,
         .view = view},
        {.words = {"limits", "show"},
         .summary = "Show one limit",
         .arguments = {limit_argument()},
         .examples = {{"interlock limits show coder", ""}},
         .method = "GET",
         .path = "/v1/rate-limits/{NAME}",
         .view = view},
        {.words = {"limits", "set"},
         .summary = "Limit the requests or tokens of a minute",
         .arguments = {limit_argument()},
         .flags = {matching("agent", "NAME", "Only calls of this agent", "match.agent", "agents"),
                   matching("api-key", "ID", "Only calls by this key", "match.key", "keys"),
                   matching("model", "PATTERN", "Only calls of these models, '*' for anything", "match.model"),
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
                      {"interlock limits set opus --model 'claude-opus-*' --rpm 10", "all agents together"}},
         .method = "PUT",
         .path = "/v1/rate-limits/{NAME}",
         .view = view,
         .notes = "All calls that a limit applies to are counted together. Without a flag that narrows it, it applies\n"
                  "to every call."},
        {.words = {"limits", "rm"},
         .summary = "Remove a limit",
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
         .summary = "List secrets; nobody is shown what they are",
         .examples = {{"interlock secrets ls", ""}},
         .method = "GET",
         .path = "/v1/secrets",
         .answer = CliCommand::ResponseShape::list,
         .view = &secrets_view()},
        {.words = {"secrets", "set"},
         .summary = "Set a secret, from standard input or a file",
         .arguments = {secret_argument()},
         .flags = {{.name = "from-file", .value = "FILE", .help = "Read it from here", .local = true},
                   {.name = "host",
                    .value = "HOST",
                    .help = "A host it may be sent to; repeatable (that of the first upstream that uses it)",
                    .takes = ValueType::repeat,
                    .local = true}},
         .examples = {{"interlock secrets set anthropic --host api.anthropic.com --from-file ~/anthropic.key", ""},
                      {"pass show openai | interlock secrets set openai", "it is on no command line"}},
         .method = "PUT",
         .path = "/v1/secrets/{NAME}",
         .view = &secrets_view(),
         .run = set_secret,
         .notes =
             "It is encrypted before it is stored, with the key in secrets.key in the server's data directory,\n"
             "and never shown again. Line ends behind it are left out. It is sent to its hosts only: naming others\n"
             "takes setting it again."},
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
         .summary = "Show how the gateway decides",
         .examples = {{"interlock gateway show", ""}},
         .method = "GET",
         .path = "/v1/gateway",
         .view = &gateway_view()},
        {.words = {"gateway", "models"},
         .summary = "List the models of the last 30 days, what they cost, and by which price",
         .examples = {{"interlock gateway models", "the dearest first"},
                      {"interlock gateway models --json | jq '.items[] | select(.priced | not).model'", ""}},
         .method = "GET",
         .path = "/v1/gateway/models",
         .answer = CliCommand::ResponseShape::whole,
         .view = &models_view(),
         .notes = "INPUT and OUTPUT are dollars for a million tokens. PRICE says where that is from: the price list\n"
                  "(catalog), or somebody's word (set)."},
        {.words = {"gateway", "set"},
         .summary = "Change how the gateway decides",
         .arguments = {{.name = "KEY=VALUE",
                        .help = "What 'gateway show' calls it, and what it shall be; null: the default",
                        .needed = Argument::Needed::many}},
         .examples = {{"interlock gateway set unknown_model=unpriced", ""},
                      {"interlock gateway set wait_s=0 share_percent=80", ""},
                      {"interlock gateway set otlp.url=http://localhost:4318", "spans and metrics go there"}},
         .method = "PUT",
         .path = "/v1/gateway",
         .view = &gateway_view(),
         .run = setting_members_of("gateway"),
         .notes = "What is not named stays as it is."},
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
             "server_default is what the server was started with. 'interlock doctor' says which levels are possible."},
        {.words = {"sandbox", "set"},
         .summary = "Change the sandbox levels of runs",
         .arguments = {{.name = "KEY=VALUE",
                        .help = "What 'sandbox show' calls it, and what it shall be; null: as the server was started",
                        .needed = Argument::Needed::many}},
         .examples = {{"interlock sandbox set default=files minimum=guarded", "for runs that start from now on"},
                      {"interlock sandbox set 'private_hosts=[\"registry.lan:4873\"]'",
                       "sealed runs that may reach it also do at a private address"}},
         .method = "PUT",
         .path = "/v1/sandbox",
         .view = &sandbox_view(),
         .run = setting_members_of("sandbox"),
         .notes = "Levels are off, guarded, files and sealed. What is not named stays as it is."},
    };
}

}  // namespace interlock::cli
