#include "cli/nouns.h"

namespace interlock::cli {
namespace {

const View& caps_view() {
    static const View view{
        .id = "name",
        .columns = {{"KIND", "kind", Format::text},
                    {"NAME", "name", Format::id},
                    {"LIVE", "live", Format::count},
                    {"MAX", "max_live", Format::count}},
        .fields = {{"kind", "kind"},
                   {"name", "name", Format::id},
                   {"live", "live", Format::count},
                   {"at most", "max_live", Format::count}},
        .when_empty = "There are no caps: only each agent's own. 'interlock caps set org 10' sets one."};
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
                           .when_empty = "There are no keys. 'interlock keys create --scope read' makes one."};
    return view;
}

// What --quiet prints of a new key is the secret: it is there only this once.
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
Argument key_argument() { return {.name = "ID", .help = "The key's id, not the key itself", .completes = "keys"}; }

}  // namespace

std::vector<CliCommand> cap_commands() {
    const View* view = &caps_view();
    return {
        {.words = {"caps", "ls"},
         .summary = "List how many runs may be live at a time, and how many are",
         .examples = {{"interlock caps ls", ""}},
         .method = "GET",
         .path = "/v1/caps",
         .answer = CliCommand::ResponseShape::whole,
         .view = view},
        {.words = {"caps", "set"},
         .summary = "Cap the live runs of everything, a provider or a node",
         .arguments = {cap_argument(),
                       {.name = "MAX", .help = "How many", .takes = ValueType::number, .member = "max_live"}},
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
         .summary = "List API keys; their secrets are shown to nobody",
         .examples = {{"interlock keys ls", ""}},
         .method = "GET",
         .path = "/v1/keys",
         .answer = CliCommand::ResponseShape::list,
         .view = view},
        {.words = {"keys", "create"},
         .summary = "Make an API key; the secret is shown this once",
         .flags = {{.name = "scope",
                    .value = "SCOPE,…",
                    .help = "What it may do",
                    .takes = ValueType::words,
                    .member = "scopes",
                    .choices = {"admin", "operator", "agent", "read"},
                    .required = true},
                   agent_flag("Only for this agent"),
                   {.name = "run", .value = "ID", .help = "Only for this run; it dies with it", .completes = "runs"},
                   {.name = "budget", .value = "NAME", .help = "Only within this budget", .completes = "budgets"},
                   {.name = "note", .value = "TEXT", .help = "What it is for"}},
         .examples = {{"interlock keys create --scope read --note 'the dashboard'", ""},
                      {"INTERLOCK_KEY=$(interlock keys create --scope agent --agent coder --quiet)",
                       "the secret alone"}},
         .method = "POST",
         .path = "/v1/keys",
         .view = &new_key_view(),
         .done = "the key is shown only this once: keep it now",
         .notes = "admin may do everything, operator everything but keys and backups, agent may charge, hold, run and\n"
                  "write to sessions, read may read."},
        {.words = {"keys", "show"},
         .summary = "Show one key",
         .arguments = {key_argument()},
         .examples = {{"interlock keys show self", "the one you are using"}},
         .method = "GET",
         .path = "/v1/keys/{ID}",
         .view = view},
        {.words = {"keys", "revoke"},
         .summary = "Revoke a key, at once",
         .arguments = {key_argument()},
         .examples = {{"interlock keys revoke 01jcq3w8y5", ""}},
         .method = "DELETE",
         .path = "/v1/keys/{ID}",
         .answer = CliCommand::ResponseShape::nothing,
         .done = "revoked key {ID}"},
    };
}

}  // namespace interlock::cli
