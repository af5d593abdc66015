#include "simulated/upstream.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <chrono>

#include <fmt/format.h>

namespace interlock::simulated {

using std::string_view;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// What becomes of a request that is answered.
struct SimulatedUpstream::Plan {
    SimulatedRoute route;
    SimulatedRequest call = {};
    Script script = {};
    SimulatedAnswer answer = {};
};

// What becomes of one that is not. A request can be late and then fail.
struct SimulatedUpstream::Failure {
    int status = 500;
    std::string message = {};
    std::int64_t retry_after = 0;
    std::int64_t delay_ms = 0;
};

namespace {

constexpr std::int64_t output_default = 16;
constexpr std::int64_t output_of_large = 256;
constexpr std::int64_t reasoning_of_reasoner = 8;
constexpr std::int64_t chunk_delay_of_slow_ms = 50;
constexpr std::uint64_t flaky_period = 3;
constexpr int status_overloaded = 529;

std::int64_t unix_seconds();
SimulatedAnswer answer_to(const SimulatedRequest& call, const Script& script, std::string id);
SimulatedUsage usage_of(const SimulatedRequest& call, const Script& script, std::int64_t output_of_choice);
std::string words(std::int64_t count);
bool can_be_said(const SimulatedAnswer& answer);
SimulatedStream stream_of(const SimulatedRoute& route, const SimulatedAnswer& answer);
net::Response cut_short(net::Response response, std::int64_t bytes);
boost::json::object headers_of(const net::Request& request);
boost::json::object in_books(const SimulatedUsage& usage);

std::string id_of(std::uint64_t number) { return fmt::format("sim{:08}", number); }

bool is_billed(SimulatedApi api) {
    return api != SimulatedApi::models && api != SimulatedApi::count_messages && api != SimulatedApi::count_contents;
}

}  // namespace

net::Task<net::Response> SimulatedUpstream::answer(net::Request request) {
    if (request.path == "/" && (request.method == net::Method::head || request.method == net::Method::get)) {
        co_return net::Response{.content_type = "text/plain", .body = "a simulated model provider\n"};
    }
    const std::uint64_t number = ++requests_;
    const Result<Plan, Failure> planned = plan(request, number);
    if (options_.books) write_books(request, number, planned);

    const std::int64_t delay_ms = !planned ? planned.error().delay_ms : planned->script.delay_ms;
    const bool hangs = planned && planned->script.hang;
    if (delay_ms > 0 || hangs) {
        const milliseconds wait(hangs ? simulated_wait_ms_max : delay_ms);
        co_await never_.wait(never_.generation(), steady_clock::now() + wait);
    }
    const SimulatedDialect dialect = planned ? planned->route.dialect : simulated_dialect_of(request);
    const std::string id = id_of(number);
    net::Response response;
    if (planned && !hangs) {
        response = response_to(*planned);
    } else {
        const Failure failure =
            planned ? Failure{.status = 504, .message = "simulated: it took too long"} : planned.error();
        response = {.status = failure.status,
                    .content_type = "application/json",
                    .body = error_answer(dialect, failure.status, failure.message, id)};
        if (failure.retry_after > 0) {
            response.headers.push_back({"retry-after", std::to_string(failure.retry_after)});
        }
    }
    response.headers.push_back({dialect == SimulatedDialect::anthropic ? "request-id" : "x-request-id", "req_" + id});
    co_return response;
}

Result<SimulatedUpstream::Plan, SimulatedUpstream::Failure> SimulatedUpstream::plan(net::Request& request,
                                                                                    std::uint64_t number) {
    const auto route = simulated_route_of(request);
    if (!route) {
        return fail(Failure{.status = 404,
                            .message = fmt::format("unknown request: {} {}", name_of(request.method), request.path)});
    }
    if (!has_key(request)) return fail(Failure{.status = 401, .message = "the API key is missing or wrong"});
    Plan plan{.route = *route};
    if (route->api == SimulatedApi::models) return plan;

    auto call = read_simulated_request(*route, request.body);
    if (!call) return fail(Failure{.status = 400, .message = call.error()});
    plan.call = std::move(*call);
    auto script = script_of(request, plan.call);
    if (!script) return fail(script.error());
    plan.script = std::move(*script);
    plan.answer = answer_to(plan.call, plan.script, id_of(number));
    if (!can_be_said(plan.answer)) {
        return fail(Failure{.status = 400, .message = "simulated: that is more than can be said at a time"});
    }
    return plan;
}

// From the weakest word to the strongest: the model's name, the header, the prompt.
Result<Script, SimulatedUpstream::Failure> SimulatedUpstream::script_of(const net::Request& request,
                                                                        const SimulatedRequest& call) {
    Script script = options_.script;
    if (call.model == "sim/slow") script.chunk_delay_ms = chunk_delay_of_slow_ms;
    if (call.model == "sim/large") script.output = output_of_large;
    if (call.model == "sim/reasoner") script.reasoning = reasoning_of_reasoner;
    if (call.model == "sim/tools") script.tool = call.first_tool;
    if (call.model == "sim/flaky" && ++flaky_requests_ % flaky_period == 0) script.status = status_overloaded;

    const auto read = [&](string_view text, ScriptForm form) { return read_script(text, form, script); };
    Result<void, std::string> understood;
    if (const string_view header = request.header("x-sim"); !header.empty())
        understood = read(header, ScriptForm::header);
    if (const auto text = find_script(call.last_user_text); text && understood) {
        understood = read(*text, ScriptForm::prompt);
    }
    if (!understood) return fail(Failure{.status = 400, .message = "simulated: " + understood.error()});

    auto succeeds = let_fail(script);
    if (!succeeds) return fail(succeeds.error());
    return script;
}

Result<void, SimulatedUpstream::Failure> SimulatedUpstream::let_fail(const Script& script) {
    if (script.status == 0 && script.fail_times == 0) return {};
    if (script.fail_times > 0) {
        const std::lock_guard lock(mutex_);
        auto found = failed_.find(script.fail_key);
        if (found == failed_.end()) {
            if (failed_.size() >= options_.fail_keys_max) {
                return fail(Failure{.status = 400, .message = "simulated: there are too many values of fail_key"});
            }
            found = failed_.emplace(script.fail_key, 0).first;
        }
        if (found->second >= script.fail_times) return {};
        ++found->second;
    }
    const int status = script.status == 0 ? status_overloaded : script.status;
    return fail(Failure{.status = status,
                        .message = fmt::format("simulated: this request fails with {}", status),
                        .retry_after = script.retry_after,
                        .delay_ms = script.delay_ms});
}

bool SimulatedUpstream::has_key(const net::Request& request) const {
    if (options_.key.empty()) return true;
    const string_view bearer = request.header("authorization");
    if (bearer.size() > 7 && bearer.substr(7) == options_.key) return true;
    if (request.header("x-api-key") == options_.key || request.header("x-goog-api-key") == options_.key) return true;
    const auto pairs = net::query_pairs(request.query);
    return pairs && std::ranges::any_of(
                        *pairs, [&](const auto& pair) { return pair.first == "key" && pair.second == options_.key; });
}

void SimulatedUpstream::write_books(const net::Request& request, std::uint64_t number,
                                    const Result<Plan, Failure>& planned) const {
    const bool is_text = simdjson::validate_utf8(request.body.data(), request.body.size());
    boost::json::object line{{"number", number},
                             {"method", name_of(request.method)},
                             {"path", request.path},
                             {"query", request.query},
                             {"headers", headers_of(request)},
                             {"body", is_text ? boost::json::value(request.body) : boost::json::value(nullptr)},
                             {"model", planned ? planned->call.model : std::string()},
                             {"stream", planned && planned->call.stream},
                             {"status", planned ? 200 : planned.error().status}};
    const bool billed = planned && is_billed(planned->route.api) && !planned->script.hang;
    line["usage"] = billed ? boost::json::value(in_books(planned->answer.usage)) : boost::json::value(nullptr);
    const bool unasked =
        planned && planned->route.api == SimulatedApi::chat && planned->call.stream && !planned->call.include_usage;
    line["usage_told"] = billed && planned->answer.tells_usage && !unasked;
    options_.books(boost::json::serialize(line) + "\n");
}

net::Response SimulatedUpstream::response_to(const Plan& plan) {
    const SimulatedApi api = plan.route.api;
    const bool speaks = api == SimulatedApi::chat || api == SimulatedApi::responses || api == SimulatedApi::messages ||
                        api == SimulatedApi::generate;
    if (speaks && plan.call.stream) return streamed(plan);

    net::Response response{.content_type = "application/json"};
    switch (api) {
        case SimulatedApi::chat:
            response.body = chat_answer(plan.answer);
            break;
        case SimulatedApi::responses:
            response.body = responses_answer(plan.answer);
            break;
        case SimulatedApi::messages:
            response.body = messages_answer(plan.answer);
            break;
        case SimulatedApi::generate:
            response.body = generate_answer(plan.answer);
            break;
        case SimulatedApi::embeddings:
            response.body = embeddings_answer(plan.answer, plan.call);
            break;
        case SimulatedApi::count_messages:
        case SimulatedApi::count_contents:
            response.body = count_answer(plan.route.dialect, plan.answer.usage.input);
            break;
        case SimulatedApi::models:
            response.body = models_answer(plan.route);
            break;
    }
    if (plan.script.cut_after) return cut_short(std::move(response), *plan.script.cut_after);
    return response;
}

net::Response SimulatedUpstream::streamed(const Plan& plan) {
    net::Response response{.content_type = plan.route.array ? "application/json" : "text/event-stream; charset=utf-8",
                           .headers = {{"cache-control", "no-cache"}}};
    response.stream = [this, pieces = stream_of(plan.route, plan.answer).take(),
                       script = plan.script](net::StreamWriter& writer) { return send(writer, pieces, script); };
    return response;
}

// The pieces and the script are the response's, which outlives its stream.
net::Task<void> SimulatedUpstream::send(net::StreamWriter& writer, const std::vector<SimulatedPiece>& pieces,
                                        const Script& script) {
    std::int64_t content = 0;
    const auto is_cut = [&] { return script.cut_after && content >= *script.cut_after; };
    for (const SimulatedPiece& piece : pieces) {
        if (is_cut() && (piece.content || content > 0)) throw net::StreamCut();  // What leads in comes in any case.
        if (piece.content && script.chunk_delay_ms > 0) {
            const auto until = steady_clock::now() + milliseconds(script.chunk_delay_ms);
            co_await writer.wait(never_, never_.generation(), until);
        }
        const bool taken = !writer.closed() && co_await writer.write(piece.bytes);
        if (!taken) co_return;
        content += piece.content ? 1 : 0;
    }
    if (is_cut()) throw net::StreamCut();
}

namespace {

std::int64_t unix_seconds() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

SimulatedAnswer answer_to(const SimulatedRequest& call, const Script& script, std::string id) {
    std::int64_t wanted = script.output.value_or(output_default);
    if (!script.output && script.text) {
        const auto bytes = static_cast<std::int64_t>(script.text->size());
        wanted = (bytes + simulated_bytes_per_token - 1) / simulated_bytes_per_token;
    }
    const std::int64_t output = std::min(wanted, call.output_max.value_or(wanted));
    const bool calls = !script.tool.empty() && !call.has_tool_result;

    SimulatedAnswer answer{.id = std::move(id),
                           .created = unix_seconds(),
                           .model = json_string(call.model),
                           .text = {},
                           .reached_cap = !calls && output < wanted,
                           .choices = call.choices,
                           .chunks = script.chunks,
                           .usage = usage_of(call, script, output),
                           .tells_usage = !script.no_usage,
                           .include_usage = call.include_usage,
                           .cost = script.cost};
    if (calls) {
        answer.tool = script.tool;
        answer.tool_args = script.tool_args;
    } else {
        answer.text = script.text ? *script.text : words(output - std::min(output, script.reasoning));
    }
    return answer;
}

SimulatedUsage usage_of(const SimulatedRequest& call, const Script& script, std::int64_t output_of_choice) {
    const std::int64_t parts = script.cached + script.cache_write + script.cache_write_1h;
    const std::int64_t cap = call.output_max.value_or(output_of_choice);
    const std::int64_t said = script.exceed > 0 ? cap : output_of_choice;
    const std::int64_t output = said * call.choices + script.exceed;
    return {.input = std::max({script.input.value_or(call.prompt_tokens), parts, script.audio_in}),
            .cached = script.cached,
            .cache_write = script.cache_write,
            .cache_write_1h = script.cache_write_1h,
            .audio_in = script.audio_in,
            .output = output,
            .reasoning = std::min(script.reasoning, output_of_choice) * call.choices,
            .audio_out = std::min(script.audio_out, output),
            .searches = script.searches};
}

// A word for each token, so that a text is never shorter in bytes than it is in tokens.
std::string words(std::int64_t count) {
    static constexpr std::array<string_view, 8> vocabulary{"the ",  "lazy ", "agent ", "has ",
                                                           "paid ", "for ",  "every ", "word "};
    std::string text;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) text.append(vocabulary[i % vocabulary.size()]);
    if (!text.empty()) text.back() = '.';
    return text;
}

// A stream is made whole before it is sent, so its size has a limit.
bool can_be_said(const SimulatedAnswer& answer) {
    const auto choices = static_cast<std::size_t>(answer.choices);
    return std::max(answer.text.size(), answer.tool_args.size()) <= simulated_bytes_max / choices &&
           answer.chunks <= simulated_chunks_max / answer.choices;
}

SimulatedStream stream_of(const SimulatedRoute& route, const SimulatedAnswer& answer) {
    switch (route.api) {
        case SimulatedApi::chat:
            return chat_stream(answer);
        case SimulatedApi::responses:
            return responses_stream(answer);
        case SimulatedApi::messages:
            return messages_stream(answer);
        case SimulatedApi::generate:
            return generate_stream(answer, route.array ? GeminiForm::array : GeminiForm::events);
        case SimulatedApi::embeddings:
        case SimulatedApi::count_messages:
        case SimulatedApi::count_contents:
        case SimulatedApi::models:
            break;
    }
    return {};
}

net::Task<void> write_and_cut(net::StreamWriter& writer, const std::string& bytes) {
    co_await writer.write(bytes);
    throw net::StreamCut();
}

net::Response cut_short(net::Response response, std::int64_t bytes) {
    std::string begin = response.body.substr(0, static_cast<std::size_t>(bytes));
    response.stream = [begin = std::move(begin)](net::StreamWriter& writer) { return write_and_cut(writer, begin); };
    response.body.clear();
    return response;
}

boost::json::object headers_of(const net::Request& request) {
    boost::json::object headers;
    for (const net::Header& header : request.headers) {
        if (const auto found = headers.if_contains(header.name)) {
            found->as_string().append(", ").append(header.value);
        } else {
            headers.emplace(header.name, header.value);
        }
    }
    return headers;
}

boost::json::object in_books(const SimulatedUsage& usage) {
    return {{"input", usage.input},
            {"cached", usage.cached},
            {"cache_write", usage.cache_write},
            {"cache_write_1h", usage.cache_write_1h},
            {"audio_in", usage.audio_in},
            {"output", usage.output},
            {"reasoning", usage.reasoning},
            {"audio_out", usage.audio_out},
            {"searches", usage.searches}};
}

}  // namespace
}  // namespace interlock::simulated
