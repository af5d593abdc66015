// Rights of other users of this machine, who need no API key.
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <vector>

#include <fmt/format.h>

#include "cli/context.h"
#include "cli/nouns.h"
#include "cli/text.h"
#include "cli/view.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

const View& users_view() {
    static const View view{.id = "user",
                           .columns = {{"USER", "user", Format::id},
                                       {"SCOPE", "scope", Format::text},
                                       {"AGENT", "agent", Format::id, Room::if_there_is},
                                       {"SINCE", "created_at", Format::time},
                                       {"NOTE", "note", Format::free_text}},
                           .fields = {{"user", "user", Format::id},
                                      {"scope", "scope"},
                                      {"agent", "agent", Format::id},
                                      {"key", "id", Format::id},
                                      {"since", "created_at", Format::time},
                                      {"note", "note", Format::free_text}},
                           .when_empty = "No grants. Create one: interlock users grant USER --scope read"};
    return view;
}

// A number, or a name that this machine knows.
Outcome<std::string> number_of(const std::string& user) {
    if (!user.empty() && user.find_first_not_of("0123456789") == std::string::npos) return user;
    std::vector<char> room(16 << 10);
    passwd entry{};
    passwd* found = nullptr;
    ::getpwnam_r(user.c_str(), &entry, room.data(), room.size(), &found);
    if (found != nullptr) return std::to_string(found->pw_uid);
    return fail(bad_usage(fmt::format("there is no user '{}' on this machine", one_line(user)),
                          "id -u NAME prints the number of a user"));
}

ExitCode grant(Context& context, const Invocation& invocation) {
    const auto user = number_of(invocation.arguments.front());
    if (!user) return context.report(user.error());
    const std::string scope = invocation.value("scope").value_or("");
    const std::size_t colon = scope.find(':');
    json::object body{{"scope", scope.substr(0, colon)}};
    if (colon != std::string::npos) body["agent"] = scope.substr(colon + 1);
    if (const auto note = invocation.value("note")) body["note"] = *note;
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const auto answer = client->change({.method = "PUT",
                                        .target = "/v1/users/" + *user,
                                        .body = json::serialize(body),
                                        .key = key_of(context, invocation)});
    if (!answer) return context.report(answer.error());
    show(context, *find_command({"users", "grant"}), invocation, *answer);
    return ExitCode::ok;
}

ExitCode revoke(Context& context, const Invocation& invocation) {
    const auto user = number_of(invocation.arguments.front());
    if (!user) return context.report(user.error());
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const auto answer =
        client->change({.method = "DELETE", .target = "/v1/users/" + *user, .key = key_of(context, invocation)});
    if (!answer) return context.report(answer.error());
    context.remark(fmt::format("revoked the grant of user {}", *user));
    return ExitCode::ok;
}

Argument user_argument() { return {.name = "USER", .help = "Name or number of a user of this machine"}; }

}  // namespace

std::vector<CliCommand> user_commands() {
    const View* view = &users_view();
    return {
        {.words = {"users", "ls"},
         .summary = "List the grants of other users of this machine",
         .examples = {{"interlock users ls", ""}},
         .method = "GET",
         .path = "/v1/users",
         .answer = CliCommand::ResponseShape::whole,
         .view = view},
        {.words = {"users", "grant"},
         .summary = "Let the programs of a user call the server without an API key",
         .arguments = {user_argument()},
         .flags = {{.name = "scope",
                    .value = "SCOPE",
                    .help = "Rights: read, operator, agent, or agent:NAME for one agent",
                    .required = true},
                   {.name = "note", .value = "TEXT", .help = "Purpose of the grant"}},
         .examples = {{"interlock users grant 1001 --scope read", "replaces the user's previous grant"},
                      {"interlock users grant 1001 --scope agent:coder", ""}},
         .view = view,
         .run = grant,
         .notes =
             "The programs of the user call the server through its Unix socket. Put the socket where they can open it "
             "with 'interlock up --socket', and set INTERLOCK_SOCKET for them. Programs in runs have no grant."},
        {.words = {"users", "revoke"},
         .summary = "Revoke the grant of a user immediately",
         .arguments = {user_argument()},
         .examples = {{"interlock users revoke 1001", ""}},
         .answer = CliCommand::ResponseShape::nothing,
         .run = revoke},
    };
}

}  // namespace interlock::cli
