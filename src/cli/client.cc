#include "cli/client.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "base/ensure.h"
#include "base/id.h"
#include "cli/view.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr milliseconds wait_first{100};
constexpr milliseconds wait_max{2000};
constexpr std::size_t page_items_max = 1000;  // What the server gives at most.

Outcome<ApiResponse> read_answer(HttpResponse response) {
    ApiResponse answer{.response = std::move(response), .document = nullptr};
    if (answer.response.body.empty()) return answer;
    boost::system::error_code unreadable;
    answer.document = json::parse(answer.response.body, unreadable);
    if (!unreadable) return answer;
    return fail(Failure{.exit = ExitCode::busy,
                        .code = "unreadable_answer",
                        .detail = fmt::format("the answer is not JSON: {}", unreadable.message()),
                        .hint = "is it an Interlock server? 'interlock doctor' looks"});
}

Failure not_reachable(const std::string& detail) {
    return {.exit = ExitCode::not_reachable,
            .code = "not_reachable",
            .detail = fmt::format("the server cannot be reached: {}", detail),
            .hint = "'interlock up' starts one; 'interlock doctor' looks for what is wrong"};
}

Failure lost(const std::string& detail, Asked asked) {
    return {.exit = asked == Asked::changing ? ExitCode::outcome_unknown : ExitCode::not_reachable,
            .code = "reply_lost",
            .detail = fmt::format("the connection was lost before an answer came: {}", detail)};
}

bool is_good(const HttpResponse& response) { return response.status >= 200 && response.status < 300; }

milliseconds retry_after(const HttpResponse& response, milliseconds otherwise) {
    const std::string text = response.header("Retry-After");
    int seconds = 0;
    std::from_chars(text.data(), text.data() + text.size(), seconds);
    return seconds > 0 ? milliseconds(seconds * 1000) : otherwise;
}

}  // namespace

Platform real_world() {
    return {.now = [] { return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()); },
            .sleep = [](milliseconds length) { std::this_thread::sleep_for(length); },
            .fresh_key =
                [] {
                    std::uint64_t entropy[2] = {0, 0};
                    ensure(getrandom(entropy, sizeof entropy, 0) == sizeof entropy, "16 bytes are never short");
                    const auto now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
                    return to_text("cli", time_ordered_id(now, entropy[0], entropy[1]));
                },
            .dial = http_transport};
}

std::string HttpResponse::header(std::string_view name) const {
    const auto equal = [&](const auto& header) {
        return std::ranges::equal(header.first, name,
                                  [](char a, char b) { return std::tolower(a) == std::tolower(b); });
    };
    const auto found = std::ranges::find_if(headers, equal);
    return found == headers.end() ? "" : found->second;
}

HttpRequest ApiClient::request(std::string method, std::string target) const {
    HttpRequest made{.method = std::move(method), .target = std::move(target)};
    if (!options_.key.empty()) made.headers.emplace_back("Authorization", "Bearer " + options_.key);
    made.headers.emplace_back("Accept", "application/json");
    return made;
}

Outcome<ApiResponse> ApiClient::get(const std::string& target) {
    auto response = fetch(target);
    if (!response) return fail(response.error());
    return read_answer(std::move(*response));
}

Outcome<HttpResponse> ApiClient::fetch(const std::string& target) {
    const auto response = transport_->send(request("GET", target));
    if (!response) {
        const TransportError& error = response.error();
        const bool unreached = error.kind == TransportError::Kind::not_reachable;
        return fail(unreached ? not_reachable(error.detail) : lost(error.detail, Asked::reading));
    }
    if (!is_good(*response)) return fail(failure_of(*response, Asked::reading));
    return *response;
}

Outcome<ApiResponse> ApiClient::change(const Change& change) {
    ensure(!change.key.empty(), "invariant (1)");
    HttpRequest asked = request(change.method, change.target);
    asked.headers.emplace_back("Idempotency-Key", change.key);
    if (!change.body.empty()) asked.headers.emplace_back("Content-Type", change.content_type);
    asked.body = change.body;

    const Instant deadline = world_.now() + options_.timeout;
    bool may_have_happened = false;
    milliseconds wait = wait_first;
    while (true) {
        // 1. Send. An answer that is neither success nor a clear refusal may be retried.
        const auto response = transport_->send(asked);
        if (response && is_good(*response)) return read_answer(*response);
        Failure failure;
        milliseconds pause = wait;
        if (response) {
            failure = failure_of(*response, Asked::changing);
            pause = retry_after(*response, wait);
        } else if (response.error().kind == TransportError::Kind::not_reachable) {
            failure = not_reachable(response.error().detail);
        } else {
            failure = lost(response.error().detail, Asked::changing);
        }

        // 2. Retry an unreachable server only if an earlier try reached it. Status 500 would only repeat.
        if (failure.exit == ExitCode::outcome_unknown) may_have_happened = true;
        const bool broke_down = response && response->status == 500;
        const bool open = failure.exit == ExitCode::outcome_unknown || failure.exit == ExitCode::busy ||
                          (failure.exit == ExitCode::not_reachable && may_have_happened);
        if (!open) return fail(std::move(failure));

        // 3. Wait, or give up.
        if (broke_down || world_.now() + pause >= deadline) {
            if (!may_have_happened) return fail(std::move(failure));
            failure.exit = ExitCode::outcome_unknown;
            failure.hint = fmt::format(
                "the change may have happened; repeat the command with --idempotency-key {}, which takes effect at "
                "most once",
                change.key);
            return fail(std::move(failure));
        }
        world_.sleep(pause);
        wait = std::min(wait * 2, wait_max);
    }
}

Outcome<ApiResponse> ApiClient::list(const Pages& pages) {
    const bool one_page = !pages.all && pages.items_max <= page_items_max;
    const bool server_decides = one_page && pages.items_max == 0;
    json::array items;
    std::string after = pages.after;
    while (true) {
        // 1. Ask only for the missing items, so that the cursor stands behind the last item.
        const std::size_t wanted =
            pages.all ? page_items_max : std::min(pages.items_max - items.size(), page_items_max);
        std::string target = pages.target;
        if (!server_decides) target = with_query(target, "limit", fmt::format("{}", wanted));
        if (!after.empty()) target = with_query(target, "after", after);
        auto page = get(target);
        if (!page || one_page) return page;
        json::object* document = page->document.if_object();
        json::value* found = document == nullptr ? nullptr : document->if_contains("items");
        if (found == nullptr || !found->is_array()) return page;

        // 2. Add what is new.
        for (json::value& item : found->get_array()) items.push_back(std::move(item));
        const std::string next = text_of(member_of(page->document, "next"));
        const json::value& head = member_of(page->document, "head");
        const bool at_head = !head.is_null() && text_of(head) == next;

        // 3. Stop at the end, at the requested number, and at a cursor that does not move. An empty page may have
        //    others behind it, because a search reads a limited number of rows for each page.
        const bool enough = !pages.all && items.size() >= pages.items_max;
        if (!enough && !next.empty() && next != after && !at_head) {
            after = next;
            continue;
        }
        (*document)["items"] = std::move(items);
        page->response.body = json::serialize(page->document);
        return page;
    }
}

Outcome<void> ApiClient::follow(const std::string& target, std::string after,
                                const std::function<bool(const net::SseEvent&)>& on_event) {
    milliseconds wait = wait_first;
    bool connected_before = false;
    while (true) {
        HttpRequest asked = request("GET", target);
        std::ranges::find(asked.headers, "Accept", &HeaderList::value_type::first)->second = "text/event-stream";
        if (!after.empty()) asked.headers.emplace_back("Last-Event-ID", after);

        bool wants_more = true;
        net::SseParser events;
        const auto ended = transport_->stream(asked, [&](std::string_view piece) {
            connected_before = true;
            wait = wait_first;
            const bool readable = events.feed(piece, [&](const net::SseEvent& event) {
                if (!event.id.empty()) after = event.id;
                wants_more = on_event(event);
                return wants_more;
            });
            return readable;
        });
        if (!wants_more) return {};
        if (ended && !is_good(*ended)) {
            Failure failure = failure_of(*ended, Asked::reading);
            if (failure.exit != ExitCode::busy) return fail(std::move(failure));
        }
        // Wait for a server that restarts, but not for one that never responded.
        if (!ended && !connected_before) return fail(not_reachable(ended.error().detail));
        world_.sleep(wait);
        wait = std::min(wait * 2, wait_max);
    }
}

Outcome<void> ApiClient::download(const std::string& target, const std::function<bool(std::string_view)>& on_piece) {
    HttpRequest asked = request("GET", target);
    std::ranges::find(asked.headers, "Accept", &HeaderList::value_type::first)->second = "*/*";
    const auto ended = transport_->stream(asked, on_piece);
    if (!ended) return fail(not_reachable(ended.error().detail));
    if (!is_good(*ended)) return fail(failure_of(*ended, Asked::reading));
    return {};
}

std::string percent_encoded(std::string_view text) {
    constexpr std::string_view kept = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    std::string encoded;
    for (const char byte : text) {
        if (kept.find(byte) != std::string_view::npos) {
            encoded += byte;
        } else {
            encoded += fmt::format("%{:02X}", static_cast<unsigned char>(byte));
        }
    }
    return encoded;
}

std::string with_query(const std::string& target, std::string_view name, std::string_view value) {
    const char mark = target.find('?') == std::string::npos ? '?' : '&';
    return fmt::format("{}{}{}={}", target, mark, name, percent_encoded(value));
}

}  // namespace interlock::cli
