#include "cli/find_server.h"

#include <sys/stat.h>

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "base/shell.h"
#include "cli/text.h"
#include "cli/transport.h"
#include "cli/view.h"

namespace interlock::cli {
namespace {

std::string first_of(const std::string& a, const std::string& b) { return a.empty() ? b : a; }

std::string without_slash(std::string url) {
    while (url.ends_with('/')) url.pop_back();
    return url;
}

Failure no_server(const std::string& data_dir) {
    return {.exit = ExitCode::not_reachable,
            .code = "no_server",
            .detail = fmt::format("no server runs on the data directory {}", data_dir),
            .hint = fmt::format("start one with 'interlock up --data-dir {}', or set --url or INTERLOCK_URL",
                                shell_word(data_dir))};
}

Failure no_socket(const std::string& socket) {
    return {.exit = ExitCode::not_reachable,
            .code = "no_server",
            .detail = fmt::format("INTERLOCK_SOCKET names {}, which does not exist", one_line(socket)),
            .hint = "set INTERLOCK_SOCKET to the --socket of 'interlock up'"};
}

Failure no_key_of_the_run(const std::string& run) {
    return {.exit = ExitCode::not_permitted,
            .code = "run_without_key",
            .detail = fmt::format("this program belongs to run {}, but INTERLOCK_KEY, the run's API key, is not set",
                                  one_line(run)),
            .hint = "pass INTERLOCK_KEY on to this program, or run the command outside of runs"};
}

}  // namespace

std::string find_data_dir(const Settings& settings, const Environment& environment) {
    if (!settings.data_dir.empty()) return settings.data_dir;
    if (!environment.data_dir.empty()) return environment.data_dir;
    if (!environment.xdg_data_home.empty()) return environment.xdg_data_home + "/interlock";
    return environment.home + "/.local/share/interlock";
}

Outcome<ServerFile> read_server_file(const std::string& data_dir) {
    std::ifstream file(data_dir + "/server.json");
    if (!file) return fail(no_server(data_dir));
    std::ostringstream text;
    text << file.rdbuf();
    boost::system::error_code unreadable;
    const boost::json::value document = boost::json::parse(text.str(), unreadable);
    ServerFile found{.url = without_slash(text_of(member_of(document, "url")))};
    if (unreadable || found.url.empty()) return fail(no_server(data_dir));
    found.socket = text_of(member_of(document, "socket"));
    if (const auto* pid = member_of(document, "pid").if_int64()) found.pid = *pid;
    return found;
}

Outcome<ServerAddress> find_server(const Settings& settings, const Environment& environment) {
    const std::string data_dir = find_data_dir(settings, environment);
    ServerAddress server{.url = without_slash(first_of(settings.url, environment.url)),
                         .key = first_of(settings.key, environment.key)};
    if (server.key.empty() && !environment.run.empty()) return fail(no_key_of_the_run(environment.run));
    const auto here = read_server_file(data_dir);
    // Another user's server, by its socket: the data directory is closed to this user.
    if (server.url.empty() && !here && !environment.socket.empty()) {
        struct stat socket{};
        if (::stat(environment.socket.c_str(), &socket) != 0) return fail(no_socket(environment.socket));
        server.url = "http://localhost";
        server.socket = environment.socket;
        server.owner = socket.st_uid;
        return server;
    }
    if (server.url.empty()) {
        if (!here) return fail(here.error());
        server.url = here->url;
    }
    const bool of_this_machine = here && here->url == server.url;
    if (!server.url.starts_with("http://") && !server.url.starts_with("https://")) {
        return fail(bad_usage(fmt::format("'{}' is not a server address", server.url),
                              "addresses look like http://127.0.0.1:4100"));
    }
    // With an address and a key that were given for each other, there is nothing to find here.
    const bool given = !first_of(settings.url, environment.url).empty() && !server.key.empty();
    if (!of_this_machine || given) return server;
    server.socket = first_of(environment.socket, first_of(here->socket, data_dir + "/api.sock"));
    struct stat directory{};
    if (::stat(data_dir.c_str(), &directory) == 0) server.owner = directory.st_uid;
    return server;
}

std::string ServerAddress::address() const { return socket.empty() ? url : local_address(socket, owner); }

}  // namespace interlock::cli
