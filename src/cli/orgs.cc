#include "cli/nouns.h"

namespace interlock::cli {
namespace {

const View& orgs_view() {
    static const View view{.id = "name",
                           .columns = {{"NUMBER", "number", Format::count},
                                       {"NAME", "name", Format::id},
                                       {"CREATED", "created_at", Format::time}}};
    return view;
}

// --quiet prints the secret, which only this response has.
const View& org_key_view() {
    static const View view{
        .id = "key",
        .fields = {{"org", "name", Format::id}, {"key id", "key_id", Format::id}, {"key", "key", Format::id}}};
    return view;
}

constexpr const char* only_once = "store the key now; it is not shown again";

}  // namespace

std::vector<CliCommand> org_commands() {
    return {
        {.words = {"orgs", "ls"},
         .summary = "List the orgs of the server",
         .examples = {{"interlock orgs ls", ""}},
         .method = "GET",
         .path = "/v1/orgs",
         .answer = CliCommand::ResponseShape::list,
         .view = &orgs_view()},
        {.words = {"orgs", "create"},
         .summary = "Create an org and print its first admin key, which is shown only once",
         .arguments = {{.name = "NAME", .help = "Name of the org", .member = "name"}},
         .examples = {{"interlock orgs create research", ""},
                      {"INTERLOCK_KEY=$(interlock orgs create research --quiet) interlock agents ls",
                       "uses the new org"}},
         .method = "POST",
         .path = "/v1/orgs",
         .view = &org_key_view(),
         .done = only_once,
         .notes = "Each org has its own agents, budgets, sessions, keys, upstreams and feed. Creating one needs an "
                  "admin key of the org 'default'. The server starts processes only for the org 'default'."},
        {.words = {"orgs", "key"},
         .summary = "Create another admin key of an org, for example after the first is lost",
         .arguments = {{.name = "NAME", .help = "Name of the org"}},
         .examples = {{"interlock orgs key research --quiet", "prints only the secret"}},
         .method = "POST",
         .path = "/v1/orgs/{NAME}/keys",
         .view = &org_key_view(),
         .done = only_once},
    };
}

}  // namespace interlock::cli
