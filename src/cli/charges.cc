#include "cli/nouns.h"

namespace interlock::cli {
namespace {

const View& charges_view() {
    static const View view{.id = "key",
                           .columns = {{"SEQ", "seq", Format::count},
                                       {"WHEN", "at", Format::time},
                                       {"AGENT", "agent", Format::id},
                                       {"MODEL", "model", Format::text},
                                       {"COST", "cost", Format::money},
                                       {"CALLS", "calls", Format::count, Room::if_there_is},
                                       {"OVERAGE", "overage", Format::money, Room::if_there_is},
                                       {"ESTIMATED", "estimated", Format::yes, Room::if_there_is},
                                       {"UNPRICED", "unpriced", Format::yes, Room::if_there_is},
                                       {"RUN", "run", Format::id, Room::if_there_is},
                                       {"CORRECTS", "corrects", Format::id, Room::if_there_is},
                                       {"REASON", "why", Format::text, Room::if_there_is}},
                           .fields = {{"charge", "key", Format::id},
                                      {"status", "status", Format::status},
                                      {"corrects", "corrects", Format::id},
                                      {"seq", "seq", Format::count},
                                      {"cost", "cost", Format::money},
                                      {"overage", "overage", Format::money},
                                      {"repeated", "repeated", Format::yes}},
                           .when_empty = "No charges. Record one: interlock charges add AGENT COST"};
    return view;
}

// A new charge is named by its key, a charge in the ledger by its id.
const View& ledger_view() {
    static const View view = [] {
        View made = charges_view();
        made.id = "id";
        return made;
    }();
    return view;
}

const View& holds_view() {
    static const View view{.columns = {{"HOLD", "id", Format::id},
                                       {"STATUS", "status", Format::status},
                                       {"AGENT", "agent", Format::id},
                                       {"AMOUNT", "amount", Format::money},
                                       {"TOKENS", "tokens", Format::count, Room::if_there_is},
                                       {"EXPIRES", "expires_at", Format::time},
                                       {"RUN", "run", Format::id, Room::if_there_is}},
                           .fields = {{"hold", "id", Format::id},
                                      {"status", "status", Format::status},
                                      {"agent", "agent", Format::id},
                                      {"run", "run", Format::id},
                                      {"session", "session", Format::id},
                                      {"workflow", "workflow"},
                                      {"provider", "provider"},
                                      {"model", "model"},
                                      {"tags", "tags", Format::pairs},
                                      {"amount", "amount", Format::money},
                                      {"tokens", "tokens", Format::count},
                                      {"calls", "calls", Format::count},
                                      {"in flight", "dispatched", Format::yes},
                                      {"opened by", "opened_by"},
                                      {"budgets", "budgets", Format::rows},
                                      {"seq", "seq", Format::count},
                                      {"cost", "cost", Format::money},
                                      {"overage", "overage", Format::money},
                                      {"created", "created_at", Format::time},
                                      {"expires", "expires_at", Format::time},
                                      {"closed", "closed_at", Format::time},
                                      {"repeated", "repeated", Format::yes}},
                           .when_empty = "No holds. Create one: interlock holds reserve AGENT AMOUNT"};
    return view;
}

Argument charged_agent_argument() {
    return {.name = "AGENT", .help = "Agent to charge", .completes = "agents", .member = "agent"};
}
Argument hold_argument() { return {.name = "HOLD", .help = "Hold id", .completes = "holds"}; }

Flag ttl_flag() {
    return {.name = "ttl",
            .value = "SECONDS",
            .help = "Time until the hold expires (default 60)",
            .takes = ValueType::number,
            .member = "ttl_s"};
}
Flag dispatched_flag() {
    return {.name = "dispatched",
            .help = "The request was sent: charge the hold if it expires, instead of releasing it",
            .takes = ValueType::on};
}
std::vector<Flag> price_flags() {
    return {{.name = "calls", .value = "N", .help = "Number of calls (default 1)", .takes = ValueType::number},
            {.name = "price", .value = "ID", .help = "Price that the cost was computed with"},
            {.name = "unpriced",
             .help = "Mark the cost as unknown, because the model has no price",
             .takes = ValueType::on}};
}

}  // namespace

std::vector<CliCommand> charge_commands() {
    const View* view = &charges_view();
    return {
        {.words = {"charges", "ls"},
         .summary = "List cost events",
         .flags = {agent_flag("Only charges of this agent"),
                   {.name = "run", .value = "ID", .help = "Only charges of this run", .completes = "runs"},
                   {.name = "session", .value = "ID", .help = "Only charges of this session", .completes = "sessions"},
                   {.name = "from",
                    .value = "WHEN",
                    .help = "Start of the period: a date, or 24h for a day ago",
                    .takes = ValueType::instant},
                   {.name = "to", .value = "WHEN", .help = "End of the period", .takes = ValueType::instant}},
         .examples = {{"interlock charges ls --agent coder --from 24h", "the last day"},
                      {"interlock charges ls --all --json | jq '.items[].cost'", ""}},
         .method = "GET",
         .path = "/v1/charges",
         .answer = CliCommand::ResponseShape::list,
         .view = &ledger_view()},
        {.words = {"charges", "add"},
         .summary = "Record a cost",
         .arguments = {charged_agent_argument(),
                       {.name = "COST",
                        .help = "Exact cost in dollars, such as 0.00075",
                        .takes = ValueType::amount,
                        .member = "cost"}},
         .flags = joined(attribution_flags(), {usage_flags("usage."),
                                               price_flags(),
                                               {{.name = "incurred",
                                                 .help = "Record a cost that was already spent, even past a budget",
                                                 .takes = ValueType::on}}}),
         .examples = {{"interlock charges add coder 0.00075 --provider anthropic --model claude-sonnet-4", ""},
                      {"interlock charges add coder 0.02 --input-tokens 5000 --output-tokens 800", ""},
                      {"interlock charges add coder 0.02 --idempotency-key call-17",
                       "a repeat with this key has no effect"}},
         .method = "POST",
         .path = "/v1/charges",
         .view = view},
        {.words = {"charges", "correct"},
         .summary = "Lower a charge",
         .arguments = {{.name = "EVENT", .help = "SEQ or id of the charge, from 'interlock charges ls'"}},
         .flags = {{.name = "to",
                    .value = "DOLLARS",
                    .help = "New cost; 0 cancels the charge",
                    .takes = ValueType::amount,
                    .required = true},
                   {.name = "why", .value = "TEXT", .help = "Reason to record", .required = true}},
         .examples = {{"interlock charges correct 1475 --to 0.05 --why 'charged dollars as cents'", ""}},
         .method = "POST",
         .path = "/v1/charges/{EVENT}/correct",
         .view = view},
    };
}

std::vector<CliCommand> hold_commands() {
    const View* view = &holds_view();
    return {
        {.words = {"holds", "ls"},
         .summary = "List holds",
         .flags = {agent_flag("Only holds of this agent"),
                   {.name = "status",
                    .value = "STATUS",
                    .help = "Only holds with this status",
                    .choices = {"open", "settled", "released"}}},
         .examples = {{"interlock holds ls --status open", "the amounts reserved now"}},
         .method = "GET",
         .path = "/v1/holds",
         .answer = CliCommand::ResponseShape::list,
         .view = view},
        {.words = {"holds", "show"},
         .summary = "Show one hold with the budgets that it counts in",
         .arguments = {hold_argument()},
         .examples = {{"interlock holds show hold_01jcq3w8y5e9m8t2k4x6v0a1bc", ""}},
         .method = "GET",
         .path = "/v1/holds/{HOLD}",
         .view = view},
        {.words = {"holds", "reserve"},
         .summary = "Reserve an amount before it is spent",
         .arguments =
             {charged_agent_argument(),
              {.name = "AMOUNT", .help = "Maximum cost in dollars", .takes = ValueType::amount, .member = "amount"}},
         .flags = joined(attribution_flags(),
                         {{{.name = "tokens", .value = "N", .help = "Maximum tokens", .takes = ValueType::number},
                           {.name = "calls", .value = "N", .help = "Maximum calls", .takes = ValueType::number},
                           ttl_flag(),
                           dispatched_flag()}}),
         .examples = {{"hold=$(interlock holds reserve coder 0.25 --ttl 120 --quiet)", "prints only the id"}},
         .method = "POST",
         .path = "/v1/holds",
         .view = view},
        {.words = {"holds", "settle"},
         .summary = "Replace a hold by its actual cost",
         .arguments = {hold_argument(),
                       {.name = "COST", .help = "Exact cost in dollars", .takes = ValueType::amount, .member = "cost"}},
         .flags = joined(
             usage_flags("usage."),
             {price_flags(), {{.name = "estimated", .help = "Mark the cost as an estimate", .takes = ValueType::on}}}),
         .examples = {{"interlock holds settle $hold 0.2 --output-tokens 800", ""}},
         .method = "POST",
         .path = "/v1/holds/{HOLD}/settle",
         .view = view},
        {.words = {"holds", "release"},
         .summary = "Release a hold without a cost",
         .arguments = {hold_argument()},
         .examples = {{"interlock holds release $hold", ""}},
         .method = "POST",
         .path = "/v1/holds/{HOLD}/release",
         .view = view},
        {.words = {"holds", "extend"},
         .summary = "Extend a hold",
         .arguments = {hold_argument()},
         .flags = {ttl_flag(), dispatched_flag()},
         .examples = {{"interlock holds extend $hold --ttl 120", "two minutes from now"}},
         .method = "POST",
         .path = "/v1/holds/{HOLD}/extend",
         .view = view},
    };
}

}  // namespace interlock::cli
