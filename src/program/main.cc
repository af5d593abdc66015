// The `interlock` program: reads the environment and runs the command.
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "cli/command_line.h"
#include "program/commands.h"
#include "server/run_hooks.h"
#include "server/version.h"
#include "shim/shim.h"

namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

std::vector<std::string> variables() {
    std::vector<std::string> all;
    for (char** each = environ; *each != nullptr; ++each) all.emplace_back(*each);
    return all;
}

interlock::cli::Environment environment() {
    return {.url = variable("INTERLOCK_URL"),
            .key = variable("INTERLOCK_KEY"),
            .run = variable("INTERLOCK_RUN"),
            .data_dir = variable("INTERLOCK_DATA"),
            .socket = variable("INTERLOCK_SOCKET"),
            .store = variable("INTERLOCK_STORE"),
            .xdg_data_home = variable("XDG_DATA_HOME"),
            .home = variable("HOME"),
            .columns = variable("COLUMNS"),
            .no_color = variable("NO_COLOR"),
            .term = variable("TERM"),
            .variables = variables()};
}

}  // namespace

int main(int argc, char** argv) {
    // Another program in the same file, which must run before any thread starts.
    if (argc > 1 && std::string_view(argv[1]) == "shim") return interlock::shim::run_shim(argc - 1, argv + 1);
    const interlock::cli::Environment around = environment();
    const interlock::cli::CliOutput output = interlock::cli::standard_output(around);
    interlock::cli::CommandLine commands(interlock::program::local_commands(argc, argv), interlock::server::version);
    if (const auto ended = commands.parse(argc, argv, output)) return *ended;
    interlock::cli::Platform world = interlock::cli::real_world();
    world.start_server = interlock::server::start_server;
    world.become_shim = interlock::server::become_shim;
    world.verify_store = interlock::program::verify_store;
    return commands.run(around, output, std::move(world));
}
