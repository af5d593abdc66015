#include "demo/fleet_worker.h"

#include <array>

#include <fmt/format.h>

namespace interlock::demo {
namespace {

// In seconds, at the usual pace.
constexpr double between_runs = 7;
constexpr double between_steps = 4;
constexpr double between_looks = 1;
constexpr double paused_for = 9;
constexpr double after_refusal = 12;
constexpr double patience_in_line = 45;

constexpr double lease = 30;
constexpr int lease_of_the_forgotten_s = 6;

constexpr int output_jitter = 120;  // Tokens.

bool is_refusal(int status) { return status == 402 || status == 404 || status == 409 || status == 429; }

}  // namespace

Worker::Worker(DemoFleet& fleet, const DemoRole& role, std::string key, unsigned number)
    : fleet_(fleet), role_(role), client_(fleet.url, std::move(key)), random_(number) {
    // Not two of them begin with the same ending, so that all kinds of endings are seen soon.
    number_ = static_cast<int>(number);
}

void Worker::live() {
    std::uniform_real_distribution<double> uneven(0.6, 1.4);
    while (fleet_.pace.wait(between_runs * uneven(random_))) work();
}

// ---- one run ------------------------------------------------------------------------------------------------------

void Worker::work() {
    if (!open_session()) return;
    auto run = admit();
    if (!run) {
        // Whoever may not run asks a model all the same, as programs do.
        if (run.error() != 0) talk_on("");
        if (run.error() != 0) fleet_.pace.wait(after_refusal);
        return;
    }
    ++fleet_.runs;
    if (!stand_in_line(*run)) return;
    const auto started = client_.post(fmt::format("/v1/runs/{}/start", run->id), {{"fence", run->fence}});
    if (!started) return fleet_.odd(started.error());
    // Once: keys are kept for good, also those that died with their run, and a fleet may work for days.
    if (!had_run_key_) take_key_of(*run);
    carry_out(*run);
    run_client_.reset();
}

void Worker::take_key_of(const DemoRun& run) {
    had_run_key_ = true;
    DemoClient admin(fleet_.url, fleet_.admin_key);
    const auto made = admin.post("/v1/keys", {{"scopes", json::array{"agent"}},
                                              {"agent", role_.agent},
                                              {"run", run.id},
                                              {"note", "simulated: for one run"}});
    if (!made) return fleet_.odd(made.error());
    run_client_.emplace(fleet_.url, text_in(*made, "key"));
}

Result<Worker::DemoRun, int> Worker::admit() {
    constexpr std::array endings{DemoEnding::succeeds,     DemoEnding::fails,          DemoEnding::succeeds,
                                 DemoEnding::is_forgotten, DemoEnding::succeeds,       DemoEnding::succeeds,
                                 DemoEnding::succeeds,     DemoEnding::takes_too_long, DemoEnding::succeeds};
    DemoRun run;
    const auto number = static_cast<std::size_t>(number_++);
    run.ending = endings[number % endings.size()];
    run.steps = 2 + static_cast<int>(random_() % 3);
    if (number % 4 == 2) run.pauses_at = 1;

    json::object document{
        {"agent", role_.agent},
        {"name", fmt::format("{} {}", role_.agent, number)},
        {"session", session_},
        {"model", role_.model},
        {"tags", {{"fleet", "simulated"}, {"team", role_.team}}},
        {"on_conflict", "queue"},
        {"queue_s", 300},
        {"lease_s", run.ending == DemoEnding::is_forgotten ? lease_of_the_forgotten_s : fleet_.pace.at_most(lease)}};
    // A client's run works where it says; the agent's workspace is for those that the server starts.
    if (role_.workspace[0] != '\0') document["workspace"] = fleet_.around.directory + "/" + role_.workspace;
    if (role_.dialect != DemoApi::embeddings) document["hold"] = "0.01";
    const auto answer = client_.send(net::Method::post, "/v1/runs", document);
    if (!answer) {
        fleet_.odd(answer.error());
        return fail(0);
    }
    if (answer->status >= 300) {
        if (!is_refusal(answer->status))
            fleet_.odd(fmt::format("a run was answered {}: {}", answer->status, answer->body));
        return fail(answer->status);
    }
    const json::value admitted = parsed(answer->body);
    run.id = text_in(admitted, "id");
    run.fence = number_in(admitted, "fence");
    return run;
}

bool Worker::stand_in_line(DemoRun& run) {
    for (double waited = 0; run.fence == 0; waited += between_looks) {
        if (!fleet_.pace.wait(between_looks) || waited > patience_in_line) {
            cancel(run, "tired of waiting");
            return false;
        }
        const auto now = client_.get("/v1/runs/" + run.id);
        if (!now) fleet_.odd(now.error());
        const std::string status = now ? text_in(*now, "status") : "";
        if (status != "queued" && status != "starting") return false;
        run.fence = number_in(*now, "fence");
    }
    return true;
}

void Worker::carry_out(const DemoRun& run) {
    for (int step = 0; step < run.steps; ++step) {
        talk_on(run.id);
        if (run.ending == DemoEnding::is_forgotten && step == 1) return;
        if (!fleet_.pace.wait(between_steps)) return cancel(run, "the demo ends");
        if (!still_wanted(run)) return;
        if (step == run.pauses_at && !rest(run)) return;
    }
    end(run);
}

bool Worker::still_wanted(const DemoRun& run) {
    const auto answer =
        client_.send(net::Method::post, fmt::format("/v1/runs/{}/heartbeat", run.id), {{"fence", run.fence}});
    if (!answer || answer->status >= 300) return false;
    if (text_in(parsed(answer->body), "stop_requested").empty()) return true;
    cancel(run, "stopped when asked");
    return false;
}

bool Worker::rest(const DemoRun& run) {
    const json::value fence = {{"fence", run.fence}};
    if (const auto paused = client_.post(fmt::format("/v1/runs/{}/pause", run.id), fence); !paused) return true;
    for (double waited = 0; waited < paused_for; waited += between_steps) {
        if (!fleet_.pace.wait(between_steps)) return cancel(run, "the demo ends"), false;
        if (!still_wanted(run)) return false;
    }
    const auto resumed = client_.post(fmt::format("/v1/runs/{}/resume", run.id), fence);
    if (!resumed) fleet_.odd(resumed.error());
    return resumed.has_value();
}

void Worker::end(const DemoRun& run) {
    json::object document{{"fence", run.fence}};
    if (run.ending == DemoEnding::fails) {
        document["outcome"] = "failed";
        document["reason"] = "the tests do not pass (simulated)";
    } else if (run.ending == DemoEnding::takes_too_long) {
        document["outcome"] = "timed_out";
        document["reason"] = "took longer than it may (simulated)";
    } else {
        document["charge"] = {{"cost", "0.00025"}};
    }
    const auto answer = client_.send(net::Method::post, fmt::format("/v1/runs/{}/finish", run.id), document);
    if (!answer || (answer->status >= 300 && !is_refusal(answer->status))) {
        fleet_.odd(answer ? answer->body : answer.error());
    }
}

void Worker::cancel(const DemoRun& run, const char* why) {
    json::object document{{"reason", why}};
    if (run.fence != 0) document["fence"] = run.fence;
    // It may have ended in between, or have been granted its place; the lease takes care of it then.
    (void)client_.send(net::Method::post, fmt::format("/v1/runs/{}/cancel", run.id), document);
}

// ---- what is said in it -------------------------------------------------------------------------------------------

bool Worker::open_session() {
    if (!session_.empty() && turn_ < role_.talk.size()) return true;
    if (!session_.empty() && number_ % 2 == 0) (void)client_.post(fmt::format("/v1/sessions/{}/close", session_));
    const auto made = client_.post(
        "/v1/sessions",
        {{"agent", role_.agent}, {"title", role_.title}, {"metadata", {{"simulated", true}, {"team", role_.team}}}});
    if (!made) fleet_.odd(made.error());
    if (!made) return false;
    session_ = text_in(*made, "id");
    turn_ = 0;
    conversation_.clear();
    return true;
}

void Worker::talk_on(const std::string& run) {
    if (turn_ >= role_.talk.size() && !open_session()) return;
    const DemoTurn& exchange = role_.talk[turn_];
    const std::size_t known = conversation_.size();
    conversation_.push_back({{"role", "user"}, {"content", exchange.question}});
    // A tool is used once in a conversation: in its first turn.
    bool answered = true;
    if (role_.uses_tools && turn_ == 0) answered = call_model(run, exchange, true);
    if (answered) answered = call_model(run, exchange, false);
    if (!answered) {
        // It is asked again another time, as if it had not been said.
        conversation_.erase(conversation_.begin() + static_cast<std::ptrdiff_t>(known), conversation_.end());
        return;
    }
    conversation_.push_back({{"role", "assistant"}, {"content", exchange.answer}});
    ++turn_;
}

bool Worker::call_model(const std::string& run, const DemoTurn& exchange, bool with_tool) {
    std::vector<net::Header> headers{{"x-interlock-session", session_},
                                     {"x-interlock-workflow", fmt::format("{}-work", role_.team)}};
    if (!run.empty()) headers.push_back({"x-interlock-run", run});
    if (role_.dialect == DemoApi::embeddings) {
        headers.push_back({"x-interlock-cache", "30"});
    } else if (with_tool) {
        headers.push_back({"x-sim", R"(delay_ms=250;tool=read_file;tool_args={"path":"shop/cart.py"})"});
    } else {
        const auto jitter = static_cast<int>(random_() % output_jitter);
        headers.push_back(
            {"x-sim", fmt::format(R"(delay_ms={};chunks=8;chunk_delay_ms={};output={};text="{}")", 120 + 3 * jitter,
                                  role_.streams ? 120 : 0, role_.output_tokens + jitter, exchange.answer)});
    }
    const auto answer =
        (run_client_ ? *run_client_ : client_)
            .send(net::Method::post, target_of_call(), body_of_call(with_tool || role_.uses_tools), std::move(headers));
    if (!answer) {
        fleet_.odd(answer.error());
        return false;
    }
    ++fleet_.calls;
    if (answer->status < 300) {
        if (with_tool) read_a_file(parsed(answer->body));
        return true;
    }
    ++fleet_.refusals;
    // While the house's provider rests, and the one that stands in for it is not asked in time, there is a 5xx.
    if (!is_refusal(answer->status) && answer->status != 401 && answer->status < 500) {
        fleet_.odd(fmt::format("a call was answered {}: {}", answer->status, answer->body));
    }
    return false;
}

std::string Worker::target_of_call() const {
    switch (role_.dialect) {
        case DemoApi::openai_chat:
            return "/v1/chat/completions";
        case DemoApi::openai_responses:
            return "/v1/responses";
        case DemoApi::anthropic:
            return "/v1/messages";
        case DemoApi::embeddings:
            return "/v1/embeddings";
        case DemoApi::gemini:
            return fmt::format("/v1beta/models/{}:{}", role_.model,
                               role_.streams ? "streamGenerateContent?alt=sse" : "generateContent");
    }
    return {};
}

json::value Worker::body_of_call(bool with_tool) const {
    const int output_max = role_.output_tokens + output_jitter;
    json::object body{{"model", role_.model}};
    switch (role_.dialect) {
        case DemoApi::openai_chat:
            body["messages"] = conversation_;
            body["max_tokens"] = output_max;
            break;
        case DemoApi::openai_responses:
            body["input"] = conversation_;
            body["max_output_tokens"] = output_max;
            break;
        case DemoApi::anthropic:
            body["messages"] = conversation_;
            body["max_tokens"] = output_max;
            break;
        case DemoApi::embeddings:
            body["input"] = conversation_.back().at("content");
            return body;
        case DemoApi::gemini:
            return {{"contents", conversation_for_gemini()}, {"generationConfig", {{"maxOutputTokens", output_max}}}};
    }
    if (role_.streams) body["stream"] = true;
    if (with_tool) {
        const json::value parameters = {{"type", "object"}, {"properties", {{"path", {{"type", "string"}}}}}};
        const json::value function = {
            {"name", "read_file"}, {"description", "Reads a file (simulated)"}, {"parameters", parameters}};
        body["tools"] = json::array{{{"type", "function"}, {"function", function}}};
    }
    return body;
}

json::array Worker::conversation_for_gemini() const {
    json::array contents;
    for (const json::value& message : conversation_) {
        const bool ours = text_in(message, "role") == "user";
        contents.push_back({{"role", ours ? "user" : "model"},
                            {"parts", json::array{json::object{{"text", text_in(message, "content")}}}}});
    }
    return contents;
}

void Worker::read_a_file(const json::value& answer) {
    boost::system::error_code none;
    const json::value* message = answer.find_pointer("/choices/0/message", none);
    const json::value* call = answer.find_pointer("/choices/0/message/tool_calls/0/id", none);
    if (message == nullptr || call == nullptr) return fleet_.odd("a model was offered a tool and did not use it");
    conversation_.push_back(*message);
    conversation_.push_back(
        {{"role", "tool"},
         {"tool_call_id", *call},
         {"content", "def total(lines):\n    return sum(round(line.price, 2) for line in lines)\n"}});
}

}  // namespace interlock::demo
