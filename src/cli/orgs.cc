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

// What --quiet prints is the secret: it is there only this once.
const View& org_key_view() {
    static const View view{
        .id = "key",
        .fields = {{"org", "name", Format::id}, {"key's id", "key_id", Format::id}, {"key", "key", Format::id}}};
    return view;
}

constexpr const char* only_once = "the key is shown only this once: keep it now";

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
         .summary = "Make an org and its first admin key, which is shown this once",
         .arguments = {{.name = "NAME", .help = "The org's name", .member = "name"}},
         .examples = {{"interlock orgs create research", ""},
                      {"INTERLOCK_KEY=$(interlock orgs create research --quiet) interlock agents ls",
                       "the new org, seen from inside"}},
         .method = "POST",
         .path = "/v1/orgs",
         .view = &org_key_view(),
         .done = only_once,
         .notes = "An org has agents, budgets, sessions, keys, upstreams and a feed of its own. Making one takes an\n"
                  "admin key of the org 'default', in which alone the server starts processes."},
        {.words = {"orgs", "key"},
         .summary = "Make another admin key of an org, for those who lost theirs",
         .arguments = {{.name = "NAME", .help = "The org's name"}},
         .examples = {{"interlock orgs key research --quiet", "the secret alone"}},
         .method = "POST",
         .path = "/v1/orgs/{NAME}/keys",
         .view = &org_key_view(),
         .done = only_once},
    };
}

}  // namespace interlock::cli
