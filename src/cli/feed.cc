#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "cli/context.h"
#include "cli/nouns.h"
#include "cli/request.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

const View& events_view() {
    static const View view{.id = "seq",
                           .columns = {{"SEQ", "seq", Format::count},
                                       {"WHEN", "at", Format::time},
                                       {"TYPE", "type", Format::text},
                                       {"DATA", "data", Format::pairs}},
                           .when_empty = "No events. Wait for them: interlock events -f"};
    return view;
}

constexpr std::size_t events_shown = 20;

std::string with_types(const Invocation& invocation) {
    const auto types = invocation.value("type");
    return types ? with_query("/v1/events", "type", *types) : "/v1/events";
}

void print_event(const Context& context, const std::string& text) {
    if (context.settings.json) return context.output.data(text + "\n");
    boost::system::error_code unreadable;
    const json::value event = json::parse(text, unreadable);
    if (unreadable) return;
    View line = events_view();
    line.columns[1].format = Format::text;
    const TextTable table = table_of({event}, line, context.output, context.world.now());
    const auto& cells = table.rows[0];
    const std::string head =
        fmt::format("{:>9}  {}  {}", cells[0].text, cells[1].text.substr(0, 19), padded(cells[2].text, 20));
    const std::size_t room = context.output.width > head.size() + 2 ? context.output.width - head.size() - 2 : 0;
    context.output.data(context.output.paint(Style::dim, head) + "  " +
                        (room > 0 ? shortened(cells[3].text, room) : cells[3].text) + "\n");
}

ExitCode follow(Context& context, const Invocation& invocation) {
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const auto ended =
        client->follow(with_types(invocation), invocation.value("after").value_or(""), [&](const net::SseEvent& event) {
            print_event(context, event.data);
            return !context.output.full();
        });
    return ended ? ExitCode::ok : context.report(ended.error());
}

// The newest `wanted` events. The feed is read forward, so the window behind its head is made wider until enough of the
// wanted types are in it.
Outcome<ApiResponse> newest(ApiClient& client, const std::string& target, std::size_t wanted) {
    const auto head = client.get("/v1/events?limit=1");
    if (!head) return head;
    const auto* number = member_of(head->document, "head").if_int64();
    const std::int64_t last = number == nullptr ? 0 : *number;
    for (std::int64_t reach = static_cast<std::int64_t>(wanted);; reach *= 10) {
        const std::int64_t after = std::max<std::int64_t>(0, last - reach);
        auto page = client.list({.target = target, .all = true, .after = fmt::format("{}", after)});
        if (!page) return page;
        json::value* items = page->document.is_object() ? page->document.get_object().if_contains("items") : nullptr;
        if (items == nullptr || !items->is_array()) return page;
        json::array& found = items->get_array();
        if (found.size() < wanted && after > 0) continue;
        if (found.size() > wanted) found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(wanted));
        page->response.body = json::serialize(page->document);
        return page;
    }
}

ExitCode events(Context& context, const Invocation& invocation) {
    if (invocation.has("follow")) return follow(context, invocation);
    const CliCommand& self = *find_command({"events"});
    const bool from_there = invocation.has("after") || invocation.has("all");
    if (from_there) {
        CliCommand plain = self;
        plain.run = {};
        return run_request(context, plain, invocation);
    }
    const auto wanted = limit_of(invocation);
    if (!wanted) return context.report(wanted.error());
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const auto answer = newest(*client, with_types(invocation), *wanted == 0 ? events_shown : *wanted);
    if (!answer) return context.report(answer.error());
    show(context, self, invocation, *answer);
    return ExitCode::ok;
}

// A column for each thing it is added up by, and the sums.
View spend_view(const std::string& things) {
    View view{.when_empty = "No spending in that time."};
    const std::string by = "," + things + ",";
    for (const auto& [header, member] :
         {std::pair{"DAY", "day"}, {"AGENT", "agent"}, {"PROVIDER", "provider"}, {"MODEL", "model"}}) {
        if (by.find(std::string(",") + member + ",") != std::string::npos)
            view.columns.push_back({header, member, Format::id});
    }
    for (const auto& [header, member, format] : {std::tuple{"COST", "cost", Format::money},
                                                 {"EVENTS", "events", Format::count},
                                                 {"CALLS", "calls", Format::count},
                                                 {"INPUT", "usage.input_tokens", Format::count},
                                                 {"OUTPUT", "usage.output_tokens", Format::count}}) {
        view.columns.push_back({header, member, format});
    }
    return view;
}

View minutes_view() {
    return {.id = "at",
            .columns = {{"MINUTE", "at", Format::text}, {"COST", "cost", Format::money}},
            .when_empty = "No spending in that time."};
}

ExitCode spend(Context& context, const Invocation& invocation) {
    CliCommand self = *find_command({"spend"});
    Invocation asked = invocation;
    const bool by_minute = asked.has("minutes");
    if (by_minute) self.path += "/minutes";
    if (!by_minute && !asked.has("by")) asked.flags["by"] = {"agent"};
    const auto built = build_request(self, asked, context.world.now(), context.output.in);
    if (!built) return context.report(built.error());
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const auto answer = client->get(built->target);
    if (!answer) return context.report(answer.error());
    if (context.settings.json || context.settings.quiet) {
        context.output.data(
            (context.settings.json ? answer->response.body : text_of(member_of(answer->document, "total"))) + "\n");
        return ExitCode::ok;
    }

    const View view = by_minute ? minutes_view() : spend_view(*asked.value("by"));
    json::array rows;
    if (const auto* items = member_of(answer->document, "items").if_array()) rows = *items;
    if (rows.empty()) {
        context.remark(view.when_empty);
        return ExitCode::ok;
    }
    rows.push_back(
        json::object{{view.columns.front().member, "total"}, {"cost", member_of(answer->document, "total")}});
    TextTable table = table_of(rows, view, context.output, context.world.now());
    for (TextCell& cell : table.rows.back()) cell.style = Style::bold;
    context.output.data(render(table, context.output));
    return ExitCode::ok;
}

}  // namespace

std::vector<CliCommand> feed_commands() {
    return {
        {.words = {"events"},
         .summary = "List recent events, or follow new ones",
         .flags =
             {{.name = "follow",
               .help = "Print each event as it happens, until Ctrl-C",
               .takes = ValueType::on,
               .local = true,
               .short_name = "f"},
              {.name = "after",
               .value = "SEQ",
               .help = "Start after this event",
               .takes = ValueType::number,
               .local = true},
              {.name = "type", .value = "TYPE,…", .help = "Only events of these types", .takes = ValueType::words}},
         .examples = {{"interlock events", "the newest twenty"},
                      {"interlock events -f --type charged,budget_warned", ""},
                      {"interlock events -f --after 0 --json", "all events, one JSON object per line"}},
         .method = "GET",
         .path = "/v1/events",
         .answer = CliCommand::ResponseShape::list,
         .view = &events_view(),
         .run = events},
        {.words = {"spend"},
         .summary = "Sum up costs",
         .flags = {{.name = "by",
                    .value = "GROUP,…",
                    .help = "Grouping (default agent)",
                    .takes = ValueType::words,
                    .choices = {"agent", "provider", "model", "day"}},
                   {.name = "from",
                    .value = "DATE",
                    .help = "First day, such as 2026-11-01, or 7d for a week ago",
                    .takes = ValueType::date},
                   {.name = "to", .value = "DATE", .help = "Day after the last one", .takes = ValueType::date},
                   {.name = "minutes",
                    .value = "N",
                    .help = "Costs of each of the last N minutes instead",
                    .takes = ValueType::number}},
         .examples = {{"interlock spend --by agent,model --from 7d", "the last week"},
                      {"interlock spend --by day --from 2026-11-01 --to 2026-12-01", ""},
                      {"interlock spend --minutes 60", "the last hour"}},
         .method = "GET",
         .path = "/v1/spend",
         .run = spend,
         .notes = "Days are in UTC. --quiet prints only the total. --minutes excludes the other flags."},
    };
}

}  // namespace interlock::cli
