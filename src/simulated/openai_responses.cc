// OpenAI: the responses API, whose stream tells every step of an answer as an event of its own.
#include "simulated/answer.h"

namespace interlock::simulated {
namespace {

using std::string_view;

std::string responses_usage(const SimulatedAnswer& answer) {
    const SimulatedUsage& usage = answer.usage;
    const std::int64_t written = usage.cache_write + usage.cache_write_1h;
    return fill(
        R"({"input_tokens":$,"input_tokens_details":{"cached_tokens":$$},"output_tokens":$,)"
        R"("output_tokens_details":{"reasoning_tokens":$},"total_tokens":$$})",
        {usage.input, usage.cached, written == 0 ? std::string() : fill(R"(,"cache_write_tokens":$)", {written}),
         usage.output, usage.reasoning, usage.input + usage.output,
         answer.cost.empty() ? std::string() : fill(R"(,"cost":$)", {answer.cost})});
}

enum class Status { in_progress, ended };

std::string response(const SimulatedAnswer& answer, Status status, string_view output) {
    const bool ended = status == Status::ended;
    const bool incomplete = ended && answer.reached_cap;
    return fill(
        R"({"id":"resp_$","object":"response","created_at":$,"status":"$","background":false,"error":null,)"
        R"("incomplete_details":$,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{},)"
        R"("model":$,"output":[$],"parallel_tool_calls":true,"previous_response_id":null,)"
        R"("reasoning":{"effort":null,"summary":null},"service_tier":"default","store":false,"temperature":1.0,)"
        R"("text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled",)"
        R"("usage":$,"user":null})",
        {answer.id, answer.created,
         incomplete ? "incomplete"
         : ended    ? "completed"
                    : "in_progress",
         incomplete ? R"({"reason":"max_output_tokens"})" : "null", answer.model, output,
         ended && answer.tells_usage ? responses_usage(answer) : std::string("null")});
}

std::string search_item(const SimulatedAnswer& answer, std::int64_t number, string_view status) {
    return fill(R"({"id":"ws_$_$","type":"web_search_call","status":"$","action":{"type":"search","query":"sim"}})",
                {answer.id, number, status});
}

std::string reasoning_item(const SimulatedAnswer& answer) {
    return fill(R"({"id":"rs_$","type":"reasoning","summary":[]})", {answer.id});
}

std::string responses_text_part(string_view text) {
    return fill(R"({"type":"output_text","annotations":[],"logprobs":[],"text":$})", {json_string(text)});
}

std::string message_item(const SimulatedAnswer& answer, Status status, string_view content) {
    const string_view word = status == Status::in_progress ? "in_progress"
                             : answer.reached_cap          ? "incomplete"
                                                           : "completed";
    return fill(R"({"id":"msg_$","type":"message","status":"$","role":"assistant","content":[$]})",
                {answer.id, word, content});
}

std::string call_item(const SimulatedAnswer& answer, Status status, string_view arguments) {
    return fill(R"({"id":"fc_$","type":"function_call","status":"$","call_id":"call_$","name":$,"arguments":$})",
                {answer.id, status == Status::in_progress ? "in_progress" : "completed", answer.id,
                 json_string(answer.tool), json_string(arguments)});
}

std::string last_item(const SimulatedAnswer& answer) {
    if (!answer.tool.empty()) return call_item(answer, Status::ended, answer.tool_args);
    return message_item(answer, Status::ended, responses_text_part(answer.text));
}

std::string all_items(const SimulatedAnswer& answer) {
    std::string items;
    if (answer.usage.reasoning > 0) items.append(reasoning_item(answer)).append(",");
    for (std::int64_t i = 0; i < answer.usage.searches; ++i)
        items.append(search_item(answer, i, "completed")).append(",");
    return items.append(last_item(answer));
}

// Numbers the events of one stream, and knows which item they are about.
class Events {
 public:
    std::string event(string_view name, string_view rest) {
        return fill("event: $\ndata: {\"type\":\"$\",\"sequence_number\":$$}\n\n", {name, name, number_++, rest});
    }
    // About the item that is on: its index goes with it.
    std::string item_event(string_view name, string_view rest) {
        return event(name, fill(R"(,"output_index":$$)", {index_, rest}));
    }
    void next_item() { ++index_; }

 private:
    std::int64_t number_ = 0;
    std::int64_t index_ = 0;
};

void add_searches(const SimulatedAnswer& answer, Events& events, SimulatedStream& stream) {
    for (std::int64_t i = 0; i < answer.usage.searches; ++i) {
        const std::string id = fill(R"(,"item_id":"ws_$_$")", {answer.id, i});
        const auto item = [&](string_view status) { return R"(,"item":)" + search_item(answer, i, status); };
        stream.add(events.item_event("response.output_item.added", item("in_progress")));
        stream.add(events.item_event("response.web_search_call.in_progress", id));
        stream.add(events.item_event("response.web_search_call.searching", id));
        stream.add(events.item_event("response.web_search_call.completed", id));
        stream.add(events.item_event("response.output_item.done", item("completed")));
        events.next_item();
    }
}

void add_message(const SimulatedAnswer& answer, Events& events, SimulatedStream& stream) {
    const std::string where = fill(R"(,"item_id":"msg_$","content_index":0)", {answer.id});
    stream.add(
        events.item_event("response.output_item.added", R"(,"item":)" + message_item(answer, Status::in_progress, "")));
    stream.add(events.item_event("response.content_part.added", where + R"(,"part":)" + responses_text_part("")));
    for (const string_view part : parts_of(answer.text, answer.chunks)) {
        stream.add_content(events.item_event("response.output_text.delta",
                                             fill(R"($,"delta":$,"logprobs":[])", {where, json_string(part)})));
    }
    stream.add(events.item_event("response.output_text.done",
                                 fill(R"($,"text":$,"logprobs":[])", {where, json_string(answer.text)})));
    stream.add(
        events.item_event("response.content_part.done", where + R"(,"part":)" + responses_text_part(answer.text)));
    stream.add(events.item_event("response.output_item.done", R"(,"item":)" + last_item(answer)));
}

void add_call(const SimulatedAnswer& answer, Events& events, SimulatedStream& stream) {
    const std::string where = fill(R"(,"item_id":"fc_$")", {answer.id});
    stream.add(
        events.item_event("response.output_item.added", R"(,"item":)" + call_item(answer, Status::in_progress, "")));
    for (const string_view part : parts_of(answer.tool_args, answer.chunks)) {
        stream.add_content(events.item_event("response.function_call_arguments.delta",
                                             fill(R"($,"delta":$)", {where, json_string(part)})));
    }
    stream.add(events.item_event(
        "response.function_call_arguments.done",
        fill(R"($,"name":$,"arguments":$)", {where, json_string(answer.tool), json_string(answer.tool_args)})));
    stream.add(events.item_event("response.output_item.done", R"(,"item":)" + last_item(answer)));
}

}  // namespace

std::string responses_answer(const SimulatedAnswer& answer) {
    return response(answer, Status::ended, all_items(answer));
}

SimulatedStream responses_stream(const SimulatedAnswer& answer) {
    SimulatedStream stream;
    Events events;
    const std::string begun = R"(,"response":)" + response(answer, Status::in_progress, "");
    stream.add(events.event("response.created", begun));
    stream.add(events.event("response.in_progress", begun));
    if (answer.usage.reasoning > 0) {
        const std::string item = R"(,"item":)" + reasoning_item(answer);
        stream.add(events.item_event("response.output_item.added", item));
        stream.add(events.item_event("response.output_item.done", item));
        events.next_item();
    }
    add_searches(answer, events, stream);
    if (answer.tool.empty()) {
        add_message(answer, events, stream);
    } else {
        add_call(answer, events, stream);
    }
    stream.add(events.event(answer.reached_cap ? "response.incomplete" : "response.completed",
                            R"(,"response":)" + response(answer, Status::ended, all_items(answer))));
    return stream;
}

}  // namespace interlock::simulated
