#include "api/call.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <boost/json/monotonic_resource.hpp>

#include "base/strict_json.h"
#include "core/check.h"
#include "net/answer.h"
#include "net/body_reads.h"

namespace interlock::api {
namespace {

constexpr std::size_t key_bytes_max = 255;
constexpr std::chrono::seconds command_timeout{30};  // How long a command may wait for its turn.

}  // namespace

std::string_view Call::parameter(std::string_view name) const {
    for (const auto& [given, value] : query) {
        if (given == name) return value;
    }
    return {};
}

namespace {

Result<json::value, Problem> parse_text(std::string_view text, json::storage_ptr storage = {}) {
    auto parsed = parse_strict_json(text, std::move(storage));
    if (!parsed) return fail(invalid(BadMember{parsed.error().pointer, parsed.error().detail}));
    return std::move(*parsed);
}

}  // namespace

net::Task<void> parse_ahead(Call& call) {
    if (call.request.body.size() <= net::read_on_io_bytes_max || !has_media_type(call, "application/json")) co_return;
    call.parts.metrics.body_reads.count_on_worker(call.request.body.size());
    // Not in this frame: the request may be gone before the work is done.
    const auto text = std::make_shared<std::string>(std::move(call.request.body));
    // A body can have millions of values. Destroyed one by one, on the connection's thread, they take half a second.
    // Values in a monotonic resource are not destroyed at all, and a worker frees the resource.
    call.parsed_memory = std::shared_ptr<json::monotonic_resource>(
        new json::monotonic_resource, [&bodies = call.parts.bodies](json::monotonic_resource* memory) {
            const auto free = [memory] { delete memory; };
            if (!bodies.submit(free)) free();
        });
    const auto parsed = co_await net::run_on(call.parts.bodies, [text, memory = call.parsed_memory] {
        return std::make_shared<Result<json::value, Problem>>(parse_text(*text, memory.get()));
    });
    call.request.body = std::move(*text);
    call.parsed = std::move(*parsed);
}

Result<json::value, Problem> parse_body(const Call& call) {
    if (auto parsed = std::exchange(call.parsed, std::nullopt)) return std::move(*parsed);
    const std::string& body = call.request.body;
    if (body.empty()) return json::value(json::object());
    if (!has_media_type(call, "application/json")) {
        return fail(Problem{.status = 415,
                            .code = "unsupported_media_type",
                            .detail = "the body must be JSON; send Content-Type: application/json"});
    }
    call.parts.metrics.body_reads.count_on_io(body.size());
    return parse_text(body);
}

Result<std::int64_t, Problem> read_count(const Call& call, std::string_view name, std::int64_t otherwise,
                                         std::int64_t min, std::int64_t max) {
    const std::string_view text = call.parameter(name);
    if (text.empty()) return otherwise;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < min || number > max) {
        return fail(invalid(fmt::format("{} is '{}'; it must be a whole number from {} to {}", name, text, min, max)));
    }
    return number;
}

Result<Instant, Problem> read_instant(const Call& call, std::string_view name, Instant otherwise) {
    const std::string_view text = call.parameter(name);
    if (text.empty()) return otherwise;
    const auto at = from_iso8601(text);
    if (at) return *at;
    return fail(invalid(fmt::format("{} is '{}'; it must be an instant such as 2026-11-15T09:00:00Z", name, text)));
}

std::vector<std::string> comma_separated(std::string_view text) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        parts.emplace_back(text.substr(0, text.find(',')));
        text.remove_prefix(std::min(text.size(), parts.back().size() + 1));
    }
    return parts;
}

bool has_media_type(const Call& call, std::string_view type) {
    const std::string_view header = call.request.header("content-type");
    const std::string_view given = header.substr(0, header.find_first_of("; "));
    return std::ranges::equal(given, type, [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a | 0x20 : a) == b; });
}

Result<Key, Problem> read_key(const Call& call, const std::optional<std::string>& in_body) {
    const std::string_view in_header = call.request.header("idempotency-key");
    if (in_body && !in_header.empty() && *in_body != in_header) {
        return fail(
            invalid("key differs from the Idempotency-Key header; send one of them, or the same twice", "/key"));
    }
    const std::string text(in_body ? std::string_view(*in_body) : in_header);
    if (in_body && text.empty()) return fail(invalid("key must not be empty; omit it to get a generated one", "/key"));
    if (text.size() > key_bytes_max) {
        return fail(
            invalid(fmt::format("the idempotency key has {} bytes; at most {} are allowed", text.size(), key_bytes_max),
                    in_body ? "/key" : ""));
    }
    if (auto complaint = core::check_line("key", text)) {
        return fail(invalid(std::move(*complaint), in_body ? "/key" : ""));
    }
    if (!text.empty()) return key_of(call.caller, text);
    Key fresh = key_of(call.caller, to_text("key", call.parts.commands.fresh_id()));
    fresh.former = {};  // Nothing was stored under it.
    return fresh;
}

namespace {

// Names have no line ends, so no two of these are the same.
std::string key_space(const Principal& caller) {
    if (!caller.agent.empty()) return "keys of agent\n" + caller.agent;
    if (!caller.budget.empty()) return "keys of budget\n" + caller.budget;
    return caller.may(Access::operate) ? "keys of operators" : "keys of any agent";
}

// Before keys belonged to an agent.
core::CommandKey former_key(std::string_view text) {
    for (const auto& id : {id_from_text("key", text), id_from_uuid(text)}) {
        if (id && is_time_ordered(*id)) return core::CommandKey(*id);
    }
    return core::CommandKey(id_from_hash(text));
}

}  // namespace

Key key_of(const Principal& caller, std::string text) {
    const core::CommandKey key(chosen_id(key_space(caller), "key", text));
    const core::CommandKey former = former_key(text);
    return {key, std::move(text), former};
}

void submit_off_io(Call& call, std::vector<engine::Submission> submissions) {
    ApiDependencies& parts = call.parts;
    if (call.request.body.size() <= net::read_on_io_bytes_max) return parts.commands.submit(std::move(submissions));
    const auto large = std::make_shared<std::vector<engine::Submission>>(std::move(submissions));
    if (parts.bodies.submit([&parts, large] { parts.commands.submit(std::move(*large)); })) return;
    for (const engine::Submission& each : *large) each.on_answer(fail(engine::SubmitError::busy));
}

net::Task<engine::SubmitResult> submit(Call& call, Key key, core::CommandBody body) {
    return submit_to(call, call.caller.org, std::move(key), std::move(body));
}

net::Task<engine::SubmitResult> submit_to(Call& call, core::OrgId org, Key key, core::CommandBody body) {
    co_return co_await net::await_answer<engine::SubmitResult>([&](net::Deliver<engine::SubmitResult> deliver) {
        std::vector<engine::Submission> one(1);
        one.front().command.org = org;
        one.front().command.key = key.key;
        one.front().command.former = key.former;
        one.front().command.body = std::move(body);
        one.front().deadline = call.parts.commands.now() + command_timeout;
        one.front().on_answer = std::move(deliver);
        submit_off_io(call, std::move(one));
    });
}

net::Task<Result<DoneCommand, Problem>> ask(Call& call, core::CommandBody body,
                                            std::optional<std::string> key_in_body) {
    const auto key = read_key(call, key_in_body);
    if (!key) co_return fail(key.error());
    engine::SubmitResult answer = co_await submit(call, *key, std::move(body));
    if (!answer) co_return fail(problem_of(answer.error()));
    if (auto refusal = refusal_of(answer->reply)) co_return fail(pointed(std::move(*refusal), call.request.body));
    co_return DoneCommand{std::move(answer->reply), answer->repeated};
}

net::Task<Result<void, Problem>> read_snapshot(Call& call,
                                               std::function<Result<void, store::ReadError>(store::Snapshot&)> work) {
    store::ReadPool& reads = call.parts.reads;
    const auto done =
        co_await net::run_on(call.parts.workers, [&reads, work = std::move(work)] { return reads.with(work); });
    if (!done) co_return fail(unavailable("the store cannot be read: " + done.error().detail));
    co_return Result<void, Problem>();
}

namespace {

// Large bodies are not parsed again on the connection's thread.
bool has_member(std::string_view body, std::string_view name) {
    if (name.empty() || body.size() > net::read_on_io_bytes_max) return false;
    const auto parsed = parse_strict_json(body);
    return parsed && parsed->is_object() && parsed->get_object().contains(name);
}

}  // namespace

Problem pointed(Problem problem, std::string_view body) {
    if (problem.code != "invalid_request" || !problem.pointer.empty()) return problem;
    const std::size_t end = std::min(problem.detail.find_first_of(" :"), problem.detail.size());
    std::string word = problem.detail.substr(0, end);
    // What the rules call otherwise than the wire.
    for (const auto& [ours, theirs] : {std::pair("zone", "timezone"), std::pair("bound", "amount"),
                                       std::pair("limit_units", "limit"), std::pair("directory", "workspace")}) {
        if (word != ours) continue;
        word = theirs;
        problem.detail.replace(0, end, word);
    }
    if (has_member(body, word)) problem.pointer = pointer_step(word);
    return problem;
}

net::Response respond(int status, std::string body) {
    net::Response response;
    response.status = status;
    response.content_type = "application/json";
    response.body = std::move(body);
    return response;
}

// Agents read what was refused and who can change it, not the command that changes it.
net::Response respond(Call& call, const Problem& problem) {
    call.refused_code = problem.code;
    const auto needs_person = person_needed_for(problem.code);
    if (needs_person.empty() || call.caller.may(Access::operate)) return to_response(problem, call.request_id);
    Problem told = problem;
    told.detail += fmt::format("; {}", needs_person);
    told.facts += ",\"needs_person\":true";
    return to_response(told, call.request_id);
}

net::Response no_content(bool repeated) {
    net::Response response;
    response.status = 204;
    if (repeated) response.headers.push_back({"idempotent-replayed", "true"});
    return response;
}

}  // namespace interlock::api
