#include "api/call.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <boost/json/monotonic_resource.hpp>

#include "net/answer.h"

namespace interlock::api {
namespace {

constexpr std::size_t key_bytes_max = 255;
constexpr std::chrono::seconds patience{30};  // How long a command may wait for its turn.

}  // namespace

std::string_view Call::parameter(std::string_view name) const {
    for (const auto& [given, value] : query) {
        if (given == name) return value;
    }
    return {};
}

Result<json::value, Problem> parse_body(const Call& call) {
    const std::string& body = call.request.body;
    if (body.empty()) return json::value(json::object());
    if (!has_media_type(call, "application/json")) {
        return fail(Problem{.status = 415,
                            .code = "unsupported_media_type",
                            .detail = "a body is JSON; send it with Content-Type: application/json"});
    }
    boost::json::error_code error;
    json::value parsed = json::parse(body, error);
    if (error) return fail(invalid("the body is not JSON: " + error.message()));
    return parsed;
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
    if (in_body && text.empty()) return fail(invalid("key must not be empty; leave it out to have one made", "/key"));
    if (text.size() > key_bytes_max) {
        return fail(invalid(fmt::format("a key has at most {} bytes; this one has {}", key_bytes_max, text.size()),
                            in_body ? "/key" : ""));
    }
    if (text.empty()) {
        const Id fresh = call.parts.fresh_id();
        return Key{core::CommandKey(fresh), to_text("key", fresh)};
    }
    return Key{key_from_text(text), text};
}

core::CommandKey key_from_text(std::string_view text) {
    // Keys that are ordered by time are kept as they are: a store finds and adds them more cheaply.
    for (const auto& id : {id_from_text("key", text), id_from_uuid(text)}) {
        if (id && is_time_ordered(*id)) return core::CommandKey(*id);
    }
    return core::CommandKey(id_from_hash(text));
}

net::Task<engine::Answer> submit(Call& call, core::CommandKey key, core::CommandBody body) {
    return submit_to(call, call.caller.org, key, std::move(body));
}

net::Task<engine::Answer> submit_to(Call& call, core::OrgId org, core::CommandKey key, core::CommandBody body) {
    co_return co_await net::await_answer<engine::Answer>([&](net::Deliver<engine::Answer> deliver) {
        std::vector<engine::Submission> one(1);
        one.front().command.org = org;
        one.front().command.key = key;
        one.front().command.body = std::move(body);
        one.front().deadline = call.parts.now() + patience;
        one.front().on_answer = std::move(deliver);
        call.parts.submit(std::move(one));
    });
}

net::Task<Result<Done, Problem>> ask(Call& call, core::CommandBody body, std::optional<std::string> key_in_body) {
    const auto key = read_key(call, key_in_body);
    if (!key) co_return fail(key.error());
    engine::Answer answer = co_await submit(call, key->key, std::move(body));
    if (!answer) co_return fail(problem_of(answer.error()));
    if (auto refusal = refusal_of(answer->reply)) co_return fail(pointed(std::move(*refusal), call.request.body));
    co_return Done{std::move(answer->reply), answer->repeated};
}

net::Task<Result<void, Problem>> read_snapshot(Call& call,
                                               std::function<Result<void, store::ReadError>(store::Snapshot&)> work) {
    store::ReadPool& reads = call.parts.reads;
    const auto done =
        co_await net::run_on(call.parts.workers, [&reads, work = std::move(work)] { return reads.with(work); });
    if (!done) co_return fail(unavailable("the store cannot be read: " + done.error().detail));
    co_return Result<void, Problem>();
}

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
    if (!word.empty() && body.find("\"" + word + "\"") != std::string_view::npos) problem.pointer = "/" + word;
    return problem;
}

net::Response respond(int status, std::string body) {
    net::Response response;
    response.status = status;
    response.content_type = "application/json";
    response.body = std::move(body);
    return response;
}

net::Response respond(const Call& call, const Problem& problem) { return to_response(problem, call.request_id); }

net::Response no_content(bool repeated) {
    net::Response response;
    response.status = 204;
    if (repeated) response.headers.push_back({"idempotent-replayed", "true"});
    return response;
}

}  // namespace interlock::api
