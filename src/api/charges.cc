// Charges: money that is spent now. Check and spend are one step of the engine.
#include <atomic>
#include <charconv>

#include <fmt/format.h>

#include "api/attribution.h"
#include "api/route.h"
#include "base/calendar.h"
#include "core/feed.h"
#include "net/answer.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

constexpr std::size_t charges_per_request_max = 10'000;

struct ChargeBody : AccountBody {
    static constexpr std::array required{"agent", "cost"};
    Usage usage;
    Money cost;
    std::int64_t calls = 1;
    std::string price;
    bool incurred = false;
    bool unpriced = false;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(ChargeBody, (AccountBody), (usage, cost, calls, price, incurred, unpriced, key))

struct ChargeView {
    std::string status = "charged";
    std::string key;
    core::Seq seq;
    Money cost;
    Money overage;
    bool repeated = false;
};
BOOST_DESCRIBE_STRUCT(ChargeView, (), (status, key, seq, cost, overage, repeated))

struct CostEventView {
    std::string id;
    core::Seq seq;
    Instant at;
    std::string agent;
    std::string workflow;
    std::string provider;
    std::string model;
    core::RunId run;
    core::SessionId session;
    core::Tags tags;
    Money cost;
    Usage usage;
    std::int64_t calls = 1;
    std::string price;
    core::HoldId hold;
    Money overage;
    bool estimated = false;
    bool unpriced = false;
    std::optional<std::string> corrects;  // The id of the cost event that this one corrects.
    std::optional<std::string> why;
};
BOOST_DESCRIBE_STRUCT(CostEventView, (),
                      (id, seq, at, agent, workflow, provider, model, run, session, tags, cost, usage, calls, price,
                       hold, overage, estimated, unpriced, corrects, why))

struct CorrectBody {
    static constexpr std::array required{"to", "why"};
    Money to;
    std::string why;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(CorrectBody, (), (to, why, key))

struct CorrectedAnswer {
    std::string status = "corrected";
    std::string corrects;
    core::Seq seq;
    Money cost;
    bool repeated = false;
};
BOOST_DESCRIBE_STRUCT(CorrectedAnswer, (), (status, corrects, seq, cost, repeated))

core::CommandBody command_of(const Principal& caller, const ChargeBody& body) {
    return core::Charge{.who = attribution_of(caller, body),
                        .fence = body.fence,
                        .cost = body.cost,
                        .usage = body.usage,
                        .calls = body.calls,
                        .price = body.price,
                        .incurred = body.incurred,
                        .unpriced = body.unpriced};
}

Result<ChargeView, Problem> view_of(const Key& key, const engine::SubmitResult& answer, std::string_view body) {
    if (!answer) return fail(problem_of(answer.error()));
    if (auto refusal = refusal_of(answer->reply)) return fail(pointed(std::move(*refusal), body));
    const auto& reply = std::get<core::ChargeReply>(answer->reply);
    return ChargeView{
        .key = key.text, .seq = reply.seq, .cost = reply.cost, .overage = reply.overage, .repeated = answer->repeated};
}

ResponseTask charge_one(Call& call, const json::value& parsed) {
    auto body = from_json<ChargeBody>(parsed);
    if (!body) co_return respond(call, invalid(body.error()));
    if (auto problem = co_await check_account(call, attribution_of(call.caller, *body)))
        co_return respond(call, *problem);
    const auto key = read_key(call, body->key);
    if (!key) co_return respond(call, key.error());
    const engine::SubmitResult answer = co_await submit(call, *key, command_of(call.caller, *body));
    const auto view = view_of(*key, answer, call.request.body);
    if (!view) co_return respond(call, view.error());
    co_return respond(201, *view, view->repeated);
}

// Many at once: one wake-up when the last of them is answered.
struct Gathered {
    std::vector<Result<Key, Problem>> keys;
    std::vector<engine::SubmitResult> answers;
    std::atomic<std::size_t> missing{0};
};

net::Task<std::shared_ptr<Gathered>> submit_all(Call& call, std::shared_ptr<Gathered> gathered,
                                                std::vector<engine::Submission> submissions,
                                                std::vector<std::size_t> positions) {
    if (submissions.empty()) co_return gathered;
    gathered->missing = submissions.size();
    co_await net::await_answer<bool>([&](net::Deliver<bool> deliver) {
        for (std::size_t i = 0; i < submissions.size(); ++i) {
            submissions[i].on_answer = [gathered, deliver, at = positions[i]](engine::SubmitResult answer) {
                gathered->answers[at] = std::move(answer);
                if (gathered->missing.fetch_sub(1) == 1) deliver(true);
            };
        }
        submit_off_io(call, std::move(submissions));
    });
    co_return gathered;
}

// The key as the client wrote it, whatever else is wrong with the charge.
json::value key_in(const json::value& body) {
    const json::value* key = body.is_object() ? body.get_object().if_contains("key") : nullptr;
    return key == nullptr ? json::value() : *key;
}

ResponseTask charge_many(Call& call, const json::array& bodies) {
    if (bodies.size() > charges_per_request_max) {
        co_return respond(call, invalid(fmt::format("the request has {} charges; at most {} are allowed", bodies.size(),
                                                    charges_per_request_max)));
    }
    if (!call.request.header("idempotency-key").empty()) {
        co_return respond(
            call,
            invalid("each charge of an array needs its own key in the member 'key'; omit the Idempotency-Key header"));
    }
    auto gathered = std::make_shared<Gathered>();
    gathered->answers.resize(bodies.size(), fail(engine::SubmitError::busy));
    std::vector<engine::Submission> submissions;
    std::vector<std::size_t> positions;
    const Instant deadline = call.parts.commands.now() + std::chrono::seconds(30);
    for (const json::value& each : bodies) {
        auto body = from_json<ChargeBody>(each);
        if (!body) {
            gathered->keys.push_back(fail(invalid(body.error())));
            continue;
        }
        auto problem = co_await check_account(call, attribution_of(call.caller, *body));
        if (problem) {
            gathered->keys.push_back(fail(std::move(*problem)));
            continue;
        }
        gathered->keys.push_back(read_key(call, body->key));
        if (!gathered->keys.back()) continue;
        engine::Submission& submission = submissions.emplace_back();
        submission.command.org = call.caller.org;
        submission.command.key = gathered->keys.back()->key;
        submission.command.former = gathered->keys.back()->former;
        submission.command.body = command_of(call.caller, *body);
        submission.deadline = deadline;
        positions.push_back(gathered->keys.size() - 1);
    }
    co_await submit_all(call, gathered, std::move(submissions), std::move(positions));

    std::string out = "{\"results\":[";
    std::size_t charged = 0;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
        if (i > 0) out += ',';
        const auto& key = gathered->keys[i];
        auto view = key ? view_of(*key, gathered->answers[i], {}) : Result<ChargeView, Problem>(fail(key.error()));
        if (view) {
            ++charged;
            put_json(out, *view);
            continue;
        }
        if (!view.error().pointer.empty()) view.error().pointer = fmt::format("/{}{}", i, view.error().pointer);
        out += fmt::format(R"({{"key":{},"status":"refused","error":{}}})",
                           key ? to_json(key->text) : json::serialize(key_in(bodies[i])), to_text(view.error(), ""));
    }
    out += fmt::format("],\"charged\":{},\"refused\":{}}}", charged, bodies.size() - charged);
    co_return respond(200, std::move(out));
}

ResponseTask post_charges(Call& call) {
    const auto parsed = parse_body(call);
    if (!parsed) co_return respond(call, parsed.error());
    if (const json::array* bodies = parsed->if_array()) co_return co_await charge_many(call, *bodies);
    co_return co_await charge_one(call, *parsed);
}

CostEventView view_of(const core::CostEvent& event) {
    return {
        .id = to_text("key", event.key.value),
        .seq = event.seq,
        .at = event.at,
        .agent = event.who.agent,
        .workflow = event.who.workflow,
        .provider = event.who.provider,
        .model = event.who.model,
        .run = event.who.run,
        .session = event.who.session,
        .tags = event.who.tags,
        .cost = Money::nanos(event.cost),
        .usage = event.usage,
        .calls = event.calls,
        .price = event.price,
        .hold = event.hold,
        .overage = Money::nanos(event.overage),
        .estimated = event.estimated,
        .unpriced = event.unpriced,
        .corrects = event.corrects.value.empty() ? std::nullopt : std::optional(to_text("key", event.corrects.value)),
        .why = event.why.empty() ? std::nullopt : std::optional(event.why)};
}

// Which of the org's charges are wanted.
struct Filter {
    std::string agent;
    core::RunId run;
    core::SessionId session;
    Instant from = far_past;
    Instant to = far_future;

    bool wants(const core::Charged& event, Instant at) const {
        return (agent.empty() || agent == event.agent) && (run.value.empty() || run == event.run) &&
               (session.value.empty() || session == event.session) && at >= from && at < to;
    }
};

Result<Filter, Problem> read_filter(const Call& call) {
    Filter filter;
    filter.agent = call.caller.agent.empty() ? call.parameter("agent") : std::string_view(call.caller.agent);
    if (const auto text = call.parameter("run"); !text.empty()) {
        const auto run = read_id<core::RunId>("run", text);
        if (!run) return fail(run.error());
        filter.run = *run;
    }
    if (const auto text = call.parameter("session"); !text.empty()) {
        const auto session = read_id<core::SessionId>("session", text);
        if (!session) return fail(session.error());
        filter.session = *session;
    }
    for (const auto& [name, member] : {std::pair("from", &Filter::from), std::pair("to", &Filter::to)}) {
        const auto at = read_instant(call, name, filter.*member);
        if (!at) return fail(at.error());
        filter.*member = *at;
    }
    return filter;
}

// The ledger has no index but its key, and keys are in no order. The feed tells the charges in theirs, so it is walked,
// and each that is wanted is looked up. A page ends early rather than walk too far.
Result<Page<CostEventView>, store::ReadError> read_charges(store::Snapshot& snapshot, core::OrgId org,
                                                           const Filter& filter, core::Seq after, std::int64_t limit) {
    constexpr std::int64_t pages_at_a_time = 16;
    constexpr std::int64_t events_walked_max = 200'000;
    Page<CostEventView> page;
    core::Seq seq = after;
    while (seq.value - after.value < events_walked_max) {
        const auto pages = store::read_rows<core::FeedPage>(
            snapshot, org, "and last_seq > $2 order by last_seq limit $3", {seq.value, pages_at_a_time});
        if (!pages) return fail(pages.error());
        if (pages->empty()) return page;
        for (const core::FeedPage& feed_page : *pages) {
            const auto events = core::events_of(feed_page);
            if (!events) return fail(store::ReadError{"a page of the feed makes no sense"});
            const auto skip = std::max<std::int64_t>(0, seq.value + 1 - feed_page.first_seq.value);
            seq = core::Seq(feed_page.first_seq.value + skip - 1);
            for (auto event = events->begin() + skip; event != events->end(); ++event) {
                const auto* charged = std::get_if<core::Charged>(&*event);
                if (charged != nullptr && filter.wants(*charged, feed_page.at)) {
                    if (static_cast<std::int64_t>(page.items.size()) == limit) {
                        page.next = std::to_string(seq.value);
                        return page;
                    }
                    const auto row = store::read_row<core::CostEvent>(snapshot, org, charged->key.value);
                    if (!row) return fail(row.error());
                    if (*row) page.items.push_back(view_of(**row));
                }
                seq = core::Seq(seq.value + 1);
            }
        }
    }
    page.next = std::to_string(seq.value);
    return page;
}

ResponseTask list_charges(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const auto filter = read_filter(call);
    if (!filter) co_return respond(call, filter.error());
    const auto after = read_count(call, "after", 0, 0, INT64_MAX);
    if (!after) co_return respond(call, after.error());
    const core::OrgId org = call.caller.org;
    const auto page = co_await read(
        call, [org, filter = *filter, after = core::Seq(*after), limit = *limit](store::Snapshot& snapshot) {
            return read_charges(snapshot, org, filter, after, limit);
        });
    if (!page) co_return respond(call, page.error());
    co_return respond(*page);
}

// The key of the charge that has this number in the feed.
Result<std::optional<core::CommandKey>, store::ReadError> charge_at(store::Snapshot& snapshot, core::OrgId org,
                                                                    std::int64_t seq) {
    const auto pages =
        store::read_rows<core::FeedPage>(snapshot, org, "and last_seq >= $2 order by last_seq limit 1", {seq});
    if (!pages) return fail(pages.error());
    if (pages->empty() || seq < pages->front().first_seq.value) return std::nullopt;
    const auto events = core::events_of(pages->front());
    if (!events) return fail(store::ReadError{"a page of the feed makes no sense"});
    const auto& event = (*events)[static_cast<std::size_t>(seq - pages->front().first_seq.value)];
    const auto* charged = std::get_if<core::Charged>(&event);
    return charged != nullptr ? std::optional(charged->key) : std::nullopt;
}

// A charge is named by its id, or by its number in the feed.
net::Task<Result<core::CommandKey, Problem>> named_charge(Call& call) {
    const std::string name = call.names[0];
    if (const auto id = id_from_text("key", name)) co_return core::CommandKey(*id);
    std::int64_t seq = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), seq);
    if (error != std::errc() || end != name.data() + name.size() || seq < 1) co_return fail(not_found("charge", name));
    const core::OrgId org = call.caller.org;
    const auto key =
        co_await read(call, [org, seq](store::Snapshot& snapshot) { return charge_at(snapshot, org, seq); });
    if (!key) co_return fail(key.error());
    if (!*key) co_return fail(not_found("charge", name));
    co_return **key;
}

ResponseTask correct(Call& call) {
    const auto body = read_body<CorrectBody>(call);
    if (!body) co_return respond(call, body.error());
    const auto event = co_await named_charge(call);
    if (!event) co_return respond(call, event.error());
    const auto done =
        co_await ask(call, core::CorrectCharge{.event = *event, .to = body->to, .why = body->why}, body->key);
    if (!done) co_return respond(call, done.error());
    const auto& reply = done->as<core::CorrectReply>();
    co_return respond(
        201,
        CorrectedAnswer{
            .corrects = to_text("key", event->value), .seq = reply.seq, .cost = reply.cost, .repeated = done->repeated},
        done->repeated);
}

json::value charge_or_charges() {
    return {{"oneOf",
             {schema_of<ChargeBody>(),
              {{"type", "array"}, {"items", schema_of<ChargeBody>()}, {"maxItems", charges_per_request_max}}}}};
}

}  // namespace

std::vector<ApiRoute> charge_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::post,
         .path = "/v1/charges",
         .needs = act,
         .summary = "Record one charge or several",
         .handler = post_charges,
         .narrowest = Bound::budget,
         .body = charge_or_charges,
         .example = R"({"agent": "writer", "provider": "anthropic", "model": "claude-sonnet-4-5",)"
                    R"( "usage": {"input_tokens": 100, "output_tokens": 30}, "cost": "0.00075"})",
         .answer = schema_of<ChargeView>,
         .status = 201},
        {.method = Method::get,
         .path = "/v1/charges",
         .needs = read,
         .summary = "List cost events, newest last",
         .handler = list_charges,
         .narrowest = Bound::agent,
         .query = {"agent", "run", "session", "from", "to", "after", "limit"},
         .answer = page_schema<CostEventView>},
        {.method = Method::post,
         .path = "/v1/charges/{id}/correct",
         .needs = operate,
         .summary = "Lower a charge",
         .handler = correct,
         .body = schema_of<CorrectBody>,
         .example = R"({"to": "0.05", "why": "the client charged dollars as cents"})",
         .answer = schema_of<CorrectedAnswer>,
         .status = 201},
    };
}

}  // namespace interlock::api
