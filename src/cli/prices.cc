// Prices of models, and recorded model calls.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>

#include "cli/context.h"
#include "cli/files.h"
#include "cli/nouns.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

const View& prices_view() {
    static const View view{
        .id = "model",
        .columns = {{"PROVIDER", "provider", Format::id},
                    {"MODEL", "model", Format::id},
                    {"INPUT", "input_per_mtok", Format::money},
                    {"OUTPUT", "output_per_mtok", Format::money},
                    {"CACHE READ", "cache_read_per_mtok", Format::money, Room::if_there_is},
                    {"CACHE WRITE", "cache_write_5m_per_mtok", Format::money, Room::if_there_is},
                    {"MAX INPUT", "input_max", Format::count, Room::if_there_is},
                    {"MAX OUTPUT", "output_max", Format::count, Room::if_there_is},
                    {"FROM", "version", Format::text}},
        .fields = {{"provider", "provider", Format::id},
                   {"model", "model", Format::id},
                   {"from", "version"},
                   {"input", "input_per_mtok", Format::money},
                   {"output", "output_per_mtok", Format::money},
                   {"cache read", "cache_read_per_mtok", Format::money},
                   {"cache write 5m", "cache_write_5m_per_mtok", Format::money},
                   {"cache write 1h", "cache_write_1h_per_mtok", Format::money},
                   {"reasoning", "reasoning_per_mtok", Format::money},
                   {"audio in", "audio_input_per_mtok", Format::money},
                   {"audio out", "audio_output_per_mtok", Format::money},
                   {"image out", "image_output_per_mtok", Format::money},
                   {"per call", "per_call", Format::money},
                   {"per paid tool", "per_paid_tool", Format::money},
                   {"per image", "per_image", Format::money},
                   {"tiers", "tiers", Format::rows},
                   {"variants", "variants", Format::json},
                   {"max input", "input_max", Format::count, Room::always, "0"},
                   {"max output", "output_max", Format::count, Room::always, "0"},
                   {"tokens per image", "image_max", Format::count, Room::always, "0"}},
        .when_empty = "No prices. Set one: interlock prices set PROVIDER/MODEL --input 3 --output 12"};
    return view;
}

const View& unpriced_view() {
    static const View view{.id = "model",
                           .columns = {{"PROVIDER", "provider", Format::id},
                                       {"MODEL", "model", Format::id},
                                       {"CALLS", "calls", Format::count},
                                       {"REFUSED", "refused", Format::count},
                                       {"TOKENS", "tokens", Format::count},
                                       {"LAST", "last_at", Format::time}},
                           .when_empty = "No unpriced models. Every call of the last 30 days had a price."};
    return view;
}

const View& catalog_view() {
    static const View view{.id = "version",
                           .fields = {{"version", "version"}, {"date", "date"}, {"models", "models", Format::count}}};
    return view;
}

const View& calls_view() {
    static const View view{.columns = {{"CALL", "id", Format::id},
                                       {"WHEN", "at", Format::time},
                                       {"AGENT", "agent", Format::id},
                                       {"MODEL", "model", Format::id},
                                       {"UPSTREAM", "upstream", Format::id, Room::if_there_is},
                                       {"STATUS", "status", Format::text},
                                       {"REFUSED", "refusal", Format::text},
                                       {"INPUT", "usage.input_tokens", Format::count, Room::if_there_is},
                                       {"OUTPUT", "usage.output_tokens", Format::count, Room::if_there_is},
                                       {"COST", "cost", Format::money},
                                       {"FIRST BYTE", "first_byte_us", Format::microseconds, Room::if_there_is},
                                       {"TOOK", "duration_us", Format::microseconds}},
                           .fields = {{"call", "id", Format::id},
                                      {"at", "at", Format::time},
                                      {"agent", "agent", Format::id},
                                      {"workflow", "workflow", Format::id},
                                      {"run", "run", Format::id},
                                      {"session", "session", Format::id},
                                      {"tags", "tags", Format::pairs},
                                      {"key", "api_key", Format::id},
                                      {"operation", "operation"},
                                      {"provider", "provider", Format::id},
                                      {"model", "model", Format::id},
                                      {"upstream", "upstream", Format::id},
                                      {"attempts", "attempts", Format::count},
                                      {"status", "status"},
                                      {"refused", "refusal"},
                                      {"detail", "detail", Format::free_text},
                                      {"streamed", "streamed", Format::yes},
                                      {"cached", "cached", Format::yes},
                                      {"first byte", "first_byte_us", Format::microseconds},
                                      {"took", "duration_us", Format::microseconds},
                                      {"usage", "usage", Format::pairs},
                                      {"price", "price", Format::id},
                                      {"unpriced", "unpriced", Format::yes},
                                      {"held", "bound", Format::money},
                                      {"cost", "cost", Format::money},
                                      {"estimated", "estimated", Format::yes},
                                      {"hold", "hold", Format::id},
                                      {"hold status", "held.status", Format::status},
                                      {"settled", "settled.cost", Format::money},
                                      {"overage", "settled.overage", Format::money, Room::always, "$0.00"},
                                      {"event", "settled.seq", Format::count}},
                           .when_empty = "No calls. Point a client at the gateway; see docs/gateway.md"};
    return view;
}

Argument model_argument() { return {.name = "PROVIDER/MODEL", .help = "Provider and model, such as openai/gpt-5"}; }

// Providers have no slash in their names, models may.
ExitCode with_model(Context& context, const std::vector<std::string>& words, const Invocation& invocation) {
    const std::string& both = invocation.arguments[0];
    const std::size_t slash = both.find('/');
    if (slash == 0 || slash == std::string::npos || slash + 1 == both.size()) {
        return context.report(bad_usage(fmt::format("'{}' is not PROVIDER/MODEL", one_line(both)),
                                        "'interlock prices ls' lists providers and models"));
    }
    CliCommand split = *find_command(words);
    split.run = {};
    split.arguments = {{.name = "provider"}, {.name = "model"}};
    Invocation parts = invocation;
    parts.arguments = {both.substr(0, slash), both.substr(slash + 1)};
    return run_request(context, split, parts);
}

ExitCode update(Context& context, const Invocation& invocation) {
    const std::string path = invocation.value("from").value_or("");
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) {
        return context.report(bad_usage(fmt::format("cannot read {}: {}", one_line(path), std::strerror(errno)),
                                        "pass a price list: --from FILE"));
    }
    std::string text = read_all(file);
    std::fclose(file);
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const auto answer = client->change({.method = "PUT",
                                        .target = "/v1/prices/catalog",
                                        .body = std::move(text),
                                        .key = key_of(context, invocation),
                                        .content_type = "text/plain"});
    if (!answer) return context.report(answer.error());
    show(context, *find_command({"prices", "update"}), invocation, *answer);
    return ExitCode::ok;
}

std::vector<Flag> price_flags() {
    const auto dollars = [](std::string name, std::string help, std::string member) {
        return Flag{.name = std::move(name),
                    .value = "AMOUNT",
                    .help = std::move(help),
                    .takes = ValueType::amount,
                    .member = std::move(member)};
    };
    std::vector<Flag> flags{
        dollars("input", "Price of a million input tokens", "input_per_mtok"),
        dollars("output", "Price of a million output tokens", "output_per_mtok"),
        dollars("cache-read", "Price of tokens read from the cache (default as input)", "cache_read_per_mtok"),
        dollars("cache-write-5m", "Price of tokens written to the five-minute cache (default as input)",
                "cache_write_5m_per_mtok"),
        dollars("cache-write-1h", "Price of tokens written to the one-hour cache (default as for five minutes)",
                "cache_write_1h_per_mtok"),
        dollars("reasoning", "Price of reasoning tokens (default as output)", "reasoning_per_mtok"),
        dollars("audio-input", "Price of audio input tokens (default as input)", "audio_input_per_mtok"),
        dollars("audio-output", "Price of audio output tokens (default as output)", "audio_output_per_mtok"),
        dollars("image-output", "Price of image output tokens", "image_output_per_mtok"),
        dollars("per-call", "Price of each call (default 0)", "per_call"),
        dollars("per-paid-tool", "Price of each use of a paid tool (default 0)", "per_paid_tool"),
        dollars("per-image", "Price of each image that a tool creates", "per_image"),
        {.name = "input-max", .value = "N", .help = "Maximum input tokens", .takes = ValueType::number},
        {.name = "output-max", .value = "N", .help = "Maximum output tokens", .takes = ValueType::number},
        {.name = "image-max", .value = "N", .help = "Maximum tokens of one image", .takes = ValueType::number}};
    flags[0].required = flags[1].required = true;
    return flags;
}

CliCommand list_command(std::string verb) {
    return {.words = {"prices", std::move(verb)},
            .summary = "List prices of models in dollars per million tokens",
            .arguments = {{.name = "FILTER",
                           .help = "Part of the name of the provider or model",
                           .needed = Argument::Needed::no,
                           .member = "filter"}},
            .examples = {{"interlock prices ls claude", ""}, {"interlock prices ls openai --all", ""}},
            .method = "GET",
            .path = "/v1/prices",
            .answer = CliCommand::ResponseShape::list,
            .view = &prices_view()};
}

}  // namespace

std::vector<CliCommand> price_commands() {
    const View* view = &prices_view();
    const auto split = [](std::string verb) {
        return [verb](Context& context, const Invocation& invocation) {
            return with_model(context, {"prices", verb}, invocation);
        };
    };
    CliCommand list = list_command("list");  // A common guess for `ls`.
    list.hidden = true;
    return {
        list_command("ls"),
        list,
        {.words = {"prices", "show"},
         .summary = "Show the current price of a model",
         .arguments = {model_argument()},
         .examples = {{"interlock prices show anthropic/claude-sonnet-4-5", ""}},
         .method = "GET",
         .path = "/v1/prices/show",
         .view = view,
         .run = split("show")},
        {.words = {"prices", "set"},
         .summary = "Set a price in dollars per million tokens",
         .arguments = {model_argument()},
         .flags = price_flags(),
         .examples = {{"interlock prices set openai/ft:gpt-5 --input 3 --output 12", ""},
                      {"interlock prices set 'openrouter/acme/*' --input 0.5 --output 1.5 --cache-read 0.05",
                       "every model with this prefix"}},
         .method = "PUT",
         .path = "/v1/prices",
         .view = view,
         .run = split("set"),
         .notes = "The price overrides the price list from now on. Existing charges do not change. Prices with tiers "
                  "need the API."},
        {.words = {"prices", "unset"},
         .summary = "Remove a price that was set, so that the price list applies",
         .arguments = {model_argument()},
         .examples = {{"interlock prices unset openai/ft:gpt-5", ""}},
         .method = "DELETE",
         .path = "/v1/prices",
         .answer = CliCommand::ResponseShape::nothing,
         .done = "removed the price",
         .run = split("unset")},
        {.words = {"prices", "unpriced"},
         .summary = "List models that were called and have no price",
         .examples = {{"interlock prices unpriced", ""}},
         .method = "GET",
         .path = "/v1/prices/unpriced",
         .answer = CliCommand::ResponseShape::whole,
         .view = &unpriced_view()},
        {.words = {"prices", "update"},
         .summary = "Replace the built-in price list",
         .flags = {{.name = "from", .value = "FILE", .help = "Price list", .local = true, .required = true}},
         .examples = {{"interlock prices update --from catalog.txt", ""}},
         .method = "PUT",
         .path = "/v1/prices/catalog",
         .view = &catalog_view(),
         .run = update,
         .notes = "The list is stored as prices.txt in the server's data directory. Remove that file to use the "
                  "built-in list again."},
    };
}

std::vector<CliCommand> call_commands() {
    const View* view = &calls_view();
    return {
        {.words = {"calls", "ls"},
         .summary = "List model calls, newest first",
         .flags =
             {agent_flag("Only calls of this agent"),
              {.name = "run", .value = "ID", .help = "Only calls of this run", .completes = "runs"},
              {.name = "provider", .value = "NAME", .help = "Only calls to this provider"},
              {.name = "model", .value = "NAME", .help = "Only calls of this model"},
              {.name = "upstream", .value = "NAME", .help = "Only calls to this upstream", .completes = "upstreams"},
              {.name = "status",
               .value = "CODE",
               .help = "Only calls with this HTTP status",
               .takes = ValueType::number},
              {.name = "refused", .help = "Only calls that the gateway refused", .takes = ValueType::on},
              {.name = "after", .value = "ID", .help = "Only calls before this one", .local = true}},
         .examples = {{"interlock calls ls --agent coder --limit 20", ""},
                      {"interlock calls ls --refused --watch 1", "refreshed every second"}},
         .method = "GET",
         .path = "/v1/calls",
         .answer = CliCommand::ResponseShape::list,
         .view = view},
        {.words = {"calls", "show"},
         .summary = "Show a model call with its hold and cost",
         .arguments = {{.name = "ID", .help = "Call id", .completes = "calls"}},
         .examples = {{"interlock calls show call_01jcq3w8y5e9m8t2k4x6v0a1bc", ""}},
         .method = "GET",
         .path = "/v1/calls/{ID}",
         .view = view},
    };
}

}  // namespace interlock::cli
