// What models cost, and what calls to them have.
#include <fmt/format.h>

#include <boost/json.hpp>

#include "cli/context.h"
#include "cli/files.h"
#include "cli/nouns.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

const View& prices_view() {
    static const View view{.id = "model",
                           .columns = {{"PROVIDER", "provider", Format::id},
                                       {"MODEL", "model", Format::id},
                                       {"INPUT", "input_per_mtok", Format::money},
                                       {"OUTPUT", "output_per_mtok", Format::money},
                                       {"CACHE READ", "cache_read_per_mtok", Format::money, Room::if_there_is},
                                       {"CACHE WRITE", "cache_write_5m_per_mtok", Format::money, Room::if_there_is},
                                       {"TAKES", "input_max", Format::count, Room::if_there_is},
                                       {"MAKES", "output_max", Format::count, Room::if_there_is},
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
                                      {"each call", "per_call", Format::money},
                                      {"each paid tool", "per_paid_tool", Format::money},
                                      {"each image made", "per_image", Format::money},
                                      {"tiers", "tiers", Format::rows},
                                      {"variants", "variants", Format::json},
                                      {"tokens it takes", "input_max", Format::count, Room::always, "0"},
                                      {"tokens it makes", "output_max", Format::count, Room::always, "0"},
                                      {"tokens of an image", "image_max", Format::count, Room::always, "0"}},
                           .when_empty = "There are no prices."};
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
                           .when_empty = "Every call of the last 30 days had a price."};
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
                                      {"from the cache", "cached", Format::yes},
                                      {"first byte after", "first_byte_us", Format::microseconds},
                                      {"took", "duration_us", Format::microseconds},
                                      {"usage", "usage", Format::pairs},
                                      {"price", "price", Format::id},
                                      {"unpriced", "unpriced", Format::yes},
                                      {"held", "bound", Format::money},
                                      {"cost", "cost", Format::money},
                                      {"estimated", "estimated", Format::yes},
                                      {"hold", "hold", Format::id},
                                      {"hold is", "held.status", Format::status},
                                      {"settled", "settled.cost", Format::money},
                                      {"past the hold", "settled.overage", Format::money, Room::always, "$0.00"},
                                      {"event", "settled.seq", Format::count}},
                           .when_empty = "No call has gone through the gateway yet."};
    return view;
}

Argument model_argument() { return {.name = "PROVIDER/MODEL", .help = "Whose, and which: openai/gpt-5"}; }

// Providers have no slash in their names, models may.
ExitCode with_model(Context& context, const std::vector<std::string>& words, const Invocation& invocation) {
    const std::string& both = invocation.arguments[0];
    const std::size_t slash = both.find('/');
    if (slash == 0 || slash == std::string::npos || slash + 1 == both.size()) {
        return context.report(bad_usage(fmt::format("PROVIDER/MODEL is wanted, not '{}'", one_line(both)),
                                        "'interlock prices ls' has both"));
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
        return context.report(
            bad_usage(fmt::format("cannot read {}", one_line(path)), "name a price list: --from FILE"));
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
        dollars("input", "A million tokens that go in", "input_per_mtok"),
        dollars("output", "A million tokens that come out", "output_per_mtok"),
        dollars("cache-read", "Read from the cache (as input)", "cache_read_per_mtok"),
        dollars("cache-write-5m", "Cached for five minutes (as input)", "cache_write_5m_per_mtok"),
        dollars("cache-write-1h", "Cached for an hour (as for five minutes)", "cache_write_1h_per_mtok"),
        dollars("reasoning", "Spent on reasoning (as output)", "reasoning_per_mtok"),
        dollars("audio-input", "Of audio that goes in (as input)", "audio_input_per_mtok"),
        dollars("audio-output", "Of audio that comes out (as output)", "audio_output_per_mtok"),
        dollars("image-output", "Of images that come out", "image_output_per_mtok"),
        dollars("per-call", "Each call (0)", "per_call"),
        dollars("per-paid-tool", "Each use of a tool that is billed by the use (0)", "per_paid_tool"),
        dollars("per-image", "Each image that a tool makes", "per_image"),
        {.name = "input-max", .value = "N", .help = "Tokens it takes", .takes = ValueType::number},
        {.name = "output-max", .value = "N", .help = "Tokens it makes", .takes = ValueType::number},
        {.name = "image-max", .value = "N", .help = "Tokens of one image", .takes = ValueType::number}};
    flags[0].required = flags[1].required = true;
    return flags;
}

CliCommand list_command(std::string verb) {
    return {.words = {"prices", std::move(verb)},
            .summary = "List what models cost, in dollars per million tokens",
            .arguments = {{.name = "FILTER",
                           .help = "A part of the provider's or the model's name",
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
    CliCommand list = list_command("list");  // As most people would call it first.
    list.hidden = true;
    return {
        list_command("ls"),
        list,
        {.words = {"prices", "show"},
         .summary = "Show the price that holds for a model",
         .arguments = {model_argument()},
         .examples = {{"interlock prices show anthropic/claude-sonnet-4-5", ""}},
         .method = "GET",
         .path = "/v1/prices/show",
         .view = view,
         .run = split("show")},
        {.words = {"prices", "set"},
         .summary = "Set a price, in dollars per million tokens",
         .arguments = {model_argument()},
         .flags = price_flags(),
         .examples = {{"interlock prices set openai/ft:gpt-5 --input 3 --output 12", ""},
                      {"interlock prices set 'openrouter/acme/*' --input 0.5 --output 1.5 --cache-read 0.05",
                       "every model that begins so"}},
         .method = "PUT",
         .path = "/v1/prices",
         .view = view,
         .run = split("set"),
         .notes = "It holds over the price list's, from now on; what was charged before stays as it is. Prices with\n"
                  "tiers are set over the API."},
        {.words = {"prices", "unset"},
         .summary = "Drop a price that was set; the list's holds again",
         .arguments = {model_argument()},
         .examples = {{"interlock prices unset openai/ft:gpt-5", ""}},
         .method = "DELETE",
         .path = "/v1/prices",
         .answer = CliCommand::ResponseShape::nothing,
         .done = "dropped the price",
         .run = split("unset")},
        {.words = {"prices", "unpriced"},
         .summary = "List models that were asked for and have no price",
         .examples = {{"interlock prices unpriced", ""}},
         .method = "GET",
         .path = "/v1/prices/unpriced",
         .answer = CliCommand::ResponseShape::whole,
         .view = &unpriced_view()},
        {.words = {"prices", "update"},
         .summary = "Take a new price list in place of the one that came with the program",
         .flags = {{.name = "from", .value = "FILE", .help = "The list", .local = true, .required = true}},
         .examples = {{"interlock prices update --from catalog.txt", ""}},
         .method = "PUT",
         .path = "/v1/prices/catalog",
         .view = &catalog_view(),
         .run = update,
         .notes = "It is kept as prices.txt in the server's data directory; without that file the program's own list\n"
                  "holds again."},
    };
}

std::vector<CliCommand> call_commands() {
    const View* view = &calls_view();
    return {
        {.words = {"calls", "ls"},
         .summary = "List calls to models, the newest first",
         .flags =
             {agent_flag("Only calls of this agent"),
              {.name = "run", .value = "ID", .help = "Only calls of this run", .completes = "runs"},
              {.name = "provider", .value = "NAME", .help = "Only calls to this provider"},
              {.name = "model", .value = "NAME", .help = "Only calls of this model"},
              {.name = "upstream", .value = "NAME", .help = "Only calls that went there", .completes = "upstreams"},
              {.name = "status",
               .value = "CODE",
               .help = "Only calls that were answered so",
               .takes = ValueType::number},
              {.name = "refused", .help = "Only calls that the gateway refused", .takes = ValueType::on},
              {.name = "after", .value = "ID", .help = "Only calls before this one", .local = true}},
         .examples = {{"interlock calls ls --agent coder --limit 20", ""},
                      {"interlock calls ls --refused --watch 1", "drawn again every second"}},
         .method = "GET",
         .path = "/v1/calls",
         .answer = CliCommand::ResponseShape::list,
         .view = view},
        {.words = {"calls", "show"},
         .summary = "Show a call, with what was held and settled for it",
         .arguments = {{.name = "ID", .help = "The call", .completes = "calls"}},
         .examples = {{"interlock calls show call_01jcq3w8y5e9m8t2k4x6v0a1bc", ""}},
         .method = "GET",
         .path = "/v1/calls/{ID}",
         .view = view},
    };
}

}  // namespace interlock::cli
