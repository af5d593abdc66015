#include "cli/nouns.h"

namespace interlock::cli {
namespace {

const View& caps_view() {
    static const View view{.id = "name",
                           .columns = {{"KIND", "kind", Format::text},
                                       {"NAME", "name", Format::id},
                                       {"LIVE", "live", Format::count},
                                       {"MAX", "max_live", Format::count}},
                           .fields = {{"kind", "kind"},
                                      {"name", "name", Format::id},
                                      {"live", "live", Format::count},
                                      {"max", "max_live", Format::count}},
                           .when_empty = "No caps besides those of agents. Create one: interlock caps set org 10"};
    return view;
}

const View& keys_view() {
    static const View view{.columns = {{"KEY", "id", Format::id},
                                       {"SCOPES", "scopes", Format::words},
                                       {"AGENT", "agent", Format::id},
                                       {"RUN", "run", Format::id, Room::if_there_is},
                                       {"BUDGET", "budget", Format::id, Room::if_there_is},
                                       {"CREATED", "created_at", Format::time},
                                       {"REVOKED", "revoked_at", Format::time},
                                       {"NOTE", "note", Format::free_text}},
                           .fields = {{"id", "id", Format::id},
                                      {"key", "key", Format::id},
                                      {"scopes", "scopes", Format::words},
                                      {"agent", "agent", Format::id},
                                      {"run", "run", Format::id},
                                      {"budget", "budget", Format::id},
                                      {"note", "note", Format::free_text},
                                      {"created", "created_at", Format::time},
                                      {"revoked", "revoked_at", Format::time}},
                           .when_empty = "No API keys. Create one: interlock keys create --scope read"};
    return view;
}

// --quiet prints the secret of a new key, which only this response has.
const View& new_key_view() {
    static const View view = [] {
        View made = keys_view();
        made.id = "key";
        return made;
    }();
    return view;
}

Argument cap_argument() {
    return {.name = "CAP", .help = "org, provider/NAME or node/NAME", .takes = ValueType::segments};
}
Argument key_argument() {
    return {.name = "ID", .help = "Id of the API key (not the key itself)", .completes = "keys"};
}

}  // namespace

std::vector<CliCommand> cap_commands() {
    const View* view = &caps_view();
    return {
        {.words = {"caps", "ls"},
         .summary = "List caps with the current numbers of live runs",
         .examples = {{"interlock caps ls", ""}},
         .method = "GET",
         .path = "/v1/caps",
         .answer = CliCommand::ResponseShape::whole,
         .view = view},
        {.words = {"caps", "set"},
         .summary = "Set the maximum number of live runs of the org, a provider or a node",
         .arguments = {cap_argument(),
                       {.name = "MAX", .help = "Maximum", .takes = ValueType::number, .member = "max_live"}},
         .examples = {{"interlock caps set org 20", ""}, {"interlock caps set provider/anthropic 5", ""}},
         .method = "PUT",
         .path = "/v1/caps/{CAP}",
         .view = view},
        {.words = {"caps", "rm"},
         .summary = "Remove a cap",
         .arguments = {cap_argument()},
         .examples = {{"interlock caps rm node/build-1", ""}},
         .method = "DELETE",
         .path = "/v1/caps/{CAP}",
         .answer = CliCommand::ResponseShape::nothing,
         .done = "removed the cap on {CAP}"},
    };
}

std::vector<CliCommand> key_commands() {
    const View* view = &keys_view();
    return {
        {.words = {"keys", "ls"},
         .summary = "List API keys without their secrets",
         .examples = {{"interlock keys ls", ""}},
         .method = "GET",
         .path = "/v1/keys",
         .answer = CliCommand::ResponseShape::list,
         .view = view},
        {.words = {"keys", "create"},
         .summary = "Create an API key and print its secret, which is shown only once",
         .flags = {{.name = "scope",
                    .value = "SCOPE,…",
                    .help = "Rights of the key",
                    .takes = ValueType::words,
                    .member = "scopes",
                    .choices = {"admin", "operator", "agent", "read"},
                    .required = true},
                   agent_flag("Limit the key to this agent"),
                   {.name = "run",
                    .value = "ID",
                    .help = "Limit the key to this run; it expires with the run",
                    .completes = "runs"},
                   {.name = "budget", .value = "NAME", .help = "Limit the key to this budget", .completes = "budgets"},
                   {.name = "note", .value = "TEXT", .help = "Purpose of the key"}},
         .examples = {{"interlock keys create --scope read --note 'the dashboard'", ""},
                      {"INTERLOCK_KEY=$(interlock keys create --scope agent --agent coder --quiet)",
                       "the secret alone"}},
         .method = "POST",
         .path = "/v1/keys",
         .view = &new_key_view(),
         .done = "store the key now; it is not shown again",
         .notes = "Scopes: admin allows everything, operator everything except keys and backups, agent charges, holds, "
                  "runs and session messages, read only reading."},
        {.words = {"keys", "show"},
         .summary = "Show one API key",
         .arguments = {key_argument()},
         .examples = {{"interlock keys show self", "the key of this command"}},
         .method = "GET",
         .path = "/v1/keys/{ID}",
         .view = view},
        {.words = {"keys", "revoke"},
         .summary = "Revoke an API key immediately",
         .arguments = {key_argument()},
         .examples = {{"interlock keys revoke 01jcq3w8y5", ""}},
         .method = "DELETE",
         .path = "/v1/keys/{ID}",
         .answer = CliCommand::ResponseShape::nothing,
         .done = "revoked key {ID}"},
    };
}

}  // namespace interlock::cli
