// The `interlock` program: reads the command line and hands over to the command.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "cli/command_line.h"
#include "server/data_dir.h"
#include "server/demo.h"
#include "server/demo_worker.h"
#include "server/history_command.h"
#include "server/migrate_command.h"
#include "server/node.h"
#include "server/run_hooks.h"
#include "server/simulate_command.h"
#include "server/terminal.h"
#include "server/up_command.h"
#include "server/verify_command.h"
#include "server/version.h"
#include "shim/shim.h"

namespace {

constexpr const char* description =
    "Interlock keeps the money, the memory and the workplaces of AI agents that run side by side.";

constexpr const char* verify_help =
    "Re-derive every promise from the stored rows: counters, limits, order, claims, caps, fences, ticks and the feed's "
    "hash chain. Works beside a running server and on what a killed one left behind.";

constexpr const char* verify_footer =
    R"(Examples:
  interlock verify --data-dir /var/lib/interlock
      a table of the promises; every violation names its rows
  interlock verify --data-dir /var/lib/interlock --json | jq .ok
      the same for programs
  interlock verify --data-dir /var/lib/interlock --repair
      rebuilds counters from the ledger and prints each change; the server must be stopped.
      The ledger, messages, claims and the feed are never touched.
  interlock verify --data-dir /var/lib/interlock --head 1523:9af3…
      is what was printed then still in the feed, and everything before it?
  interlock verify --store postgres://interlock@db.internal/interlock
      the same for the store of several nodes, beside them or without them

Exit status: 0 every promise holds, 1 violations, 2 could not verify.)";

constexpr const char* demo_help =
    "A first taste, without keys and without network: simulated agents hammer a budget of ten dollars, one session and "
    "a few directories at once. Halfway the process that keeps them is killed (-9) and started again. At the end every "
    "promise is checked.";

constexpr const char* demo_footer =
    R"(Examples:
  interlock demo
      a hundred agents, eight seconds, in a temporary directory that is removed afterwards
  interlock demo --agents 500 --seconds 20
      more of them, for longer
  interlock demo --gateway
      model calls in every dialect, metered and stopped by a budget, with no provider
  interlock demo --serve
      the page, with a simulated fleet at work: prints a link to open, and ends with Ctrl-C
  interlock demo --keep
      leaves the store for you to look at, and says where it is
  interlock demo > report.txt
      the report goes to the file, the progress stays on the terminal

Exit status: 0 every promise holds, 1 one is broken, 2 could not run, 130 interrupted.)";

constexpr const char* migrate_help =
    "Copy a whole store into another one: from a data directory into a PostgreSQL database, or back. The source is "
    "left "
    "as it is; nobody may serve either of them meanwhile.";

constexpr const char* migrate_footer =
    R"(Examples:
  interlock migrate --from /var/lib/interlock --to postgres://interlock@db.internal/interlock
      into an empty database, for several nodes
  interlock migrate --from postgres://interlock@db.internal/interlock --to /var/lib/interlock-copy
      and back, into a directory without a store
  interlock migrate --from /var/lib/interlock --to postgres://… --dry-run
      what would be copied

The source is verified first. At the end every row is compared and the copy verified; until then it cannot be served.
A copy that broke off goes on where it ended when the same command is given again.

Exit status: 0 copied, 1 refused, 2 bad usage, 3 no such source, 5 the database cannot be reached, 7 a store is in use.)";

constexpr const char* accept_help =
    "Let a server take its store as it is. A server refuses a store that has lost events it has seen committed, such "
    "as "
    "an old backup; this shows what the server remembers, asks, and takes the memory away. Stop the server first.";

constexpr const char* accept_footer =
    R"(Examples:
  interlock accept-history --data-dir /var/lib/interlock
      shows what the server remembers and what its store has, and asks
  interlock accept-history --data-dir /var/lib/interlock --store postgres://interlock@db.internal/interlock
      the same for a node and its database
  interlock accept-history --data-dir /var/lib/interlock --yes
      does not ask

Exit status: 0 forgotten, 1 nothing was changed, 3 there is nothing to forget, 5 the database cannot be reached.)";

constexpr const char* simulate_help =
    "A model provider that costs nothing: speaks OpenAI's, Anthropic's and Gemini's language, says words that mean "
    "nothing, and bills what each request tells it to.";

constexpr const char* simulate_footer =
    R"(Examples:
  interlock simulate-upstream --listen 127.0.0.1:4200
      until Ctrl-C; its address is the one line that it prints
  interlock simulate-upstream --chunks 20 --chunk-delay-ms 50 --log books.jsonl
      streams at the pace of a model, and writes down every request and what it billed
  curl -H 'x-sim: output=5;cached=100' …, or a prompt with [[sim status=529 fail_times=2]] in it
      directives say what becomes of a request; docs/simulated-upstream.md has them all

Exit status: 0 ended in order, 1 could not start, 2 bad usage.)";

constexpr const char* up_help = "Start the server.";

constexpr const char* up_footer =
    R"(Examples:
  interlock up
      on this machine alone, until Ctrl-C; data in $INTERLOCK_DATA, $XDG_DATA_HOME/interlock or ~/.local/share/interlock
  interlock up --detach
      in the background; 'interlock status' asks it, 'interlock down' ends it
  INTERLOCK_STORE=postgres://… interlock up --node alpha --advertise https://alpha.internal:4100
      one of several nodes on a PostgreSQL database; see docs/several-nodes.md
  interlock up --listen 0.0.0.0:4100 --tls-cert cert.pem --tls-key key.pem
      for other machines, over TLS

Exit status: 0 ended in order, 1 could not start, 2 bad usage.)";

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
            .xdg_data_home = variable("XDG_DATA_HOME"),
            .home = variable("HOME"),
            .columns = variable("COLUMNS"),
            .no_color = variable("NO_COLOR"),
            .term = variable("TERM"),
            .variables = variables()};
}

}  // namespace

int main(int argc, char** argv) {
    // Before there is a thread: it is another program, and only shares the file.
    if (argc > 1 && std::string_view(argv[1]) == "shim") return interlock::shim::run_shim(argc - 1, argv + 1);
    const interlock::server::Terminal terminal = interlock::server::standard_terminal();
    const interlock::cli::Environment around = environment();
    const interlock::cli::CliOutput speaks = interlock::cli::standard_terminal(around);
    CLI::App app{description, "interlock"};
    interlock::cli::CommandLine commands(app, interlock::server::version);

    interlock::server::UpOptions up;
    CLI::App* up_command = app.add_subcommand("up", up_help);
    up_command->add_option("--listen", up.listen, "Address and port")->capture_default_str();
    up_command->add_flag("--detach", up.detach, "Run in the background; returns when it is up");
    up_command->add_option("--tls-cert", up.server.tls_cert, "Certificate chain (PEM)");
    up_command->add_option("--tls-key", up.server.tls_key, "Its key (PEM)");
    up_command->add_flag("--insecure", up.server.insecure, "Listen beyond this machine without TLS");
    up_command->add_option("--host", up.server.allowed_hosts,
                           "A name by which clients may call the server; may be repeated");
    up_command->add_option("--socket", up.server.socket,
                           "Unix socket for the commands of this machine; INTERLOCK_SOCKET, or api.sock in the data "
                           "directory");
    up_command->add_option("--store", up.server.store,
                           "postgres://… for several nodes on one database; without it, the embedded store");
    up_command->add_option("--node", up.server.node_name, "With --store: how people call this node; its host's name");
    up_command->add_option("--advertise", up.server.advertise,
                           "With --store: the URL by which other nodes reach this one");
    up_command->add_option("--peer-ca", up.server.peer_ca,
                           "With --store: a file of authorities (PEM) for the other nodes' certificates");
    up_command
        ->add_option("--node-lease", up.server.node_lease_s, "With --store: seconds of silence before others take over")
        ->capture_default_str()
        ->check(CLI::Range(0.5, 60.0));
    up_command
        ->add_option("--memory-pressure", up.server.memory_pressure_max,
                     "Percent of the last ten seconds spent waiting for memory above which no run is started; 0: never")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 100.0));
    up_command
        ->add_option("--sandbox-default", up.server.sandbox_default,
                     "Sandbox level of runs that ask for none: off, guarded, files or sealed (default guarded where "
                     "possible)")
        ->check(CLI::IsMember({"off", "guarded", "files", "sealed"}));
    up_command
        ->add_option("--sandbox-minimum", up.server.sandbox_minimum,
                     "Lowest sandbox level: off, guarded, files or sealed; runs that ask for less are refused (default "
                     "off)")
        ->check(CLI::IsMember({"off", "guarded", "files", "sealed"}));
    up_command->add_flag("--accept-clock", up.server.accept_clock,
                         "Start although the newest event in the store is ahead of this machine's clock");
    up_command->add_flag("--simulate-models", up.server.simulate_models,
                         "Carry a provider of models that cost nothing, sim/small and others, to try the gateway with");
    up_command->add_option("--threads", up.server.threads, "Threads for connections; 0: one per core")
        ->capture_default_str();
    up_command->add_option("--log-format", up.log_format, "text or json")
        ->capture_default_str()
        ->check(CLI::IsMember({"text", "json"}));
    up_command->add_option("--log-level", up.log_level, "debug, info, warn or error")
        ->capture_default_str()
        ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
    up_command->add_option("--ready-fd", up.ready_fd)->group("");
    up_command->footer(up_footer);

    double down_timeout_s = 30;
    CLI::App* down_command =
        app.add_subcommand("down", "End the server of this data directory, and wait until it is gone");
    down_command->add_option("--wait", down_timeout_s, "Seconds to wait")->capture_default_str();

    interlock::server::DemoOptions demo;
    CLI::App* demo_command = app.add_subcommand("demo", demo_help);
    demo_command->add_option("--agents", demo.agents, "How many agents")
        ->capture_default_str()
        ->check(CLI::Range(1, 5000));
    CLI::Option* demo_seconds =
        demo_command
            ->add_option("--seconds", demo.seconds, "How long they work; with --serve, until Ctrl-C if not stated")
            ->capture_default_str()
            ->check(CLI::Range(1.0, 600.0));
    demo_command->add_flag("--no-kill", demo.no_kill, "Do not kill the process halfway");
    demo_command->add_flag("--gateway", demo.gateway,
                           "Let agents call simulated models through the gateway until a dollar is used up");
    CLI::Option* demo_serve =
        demo_command->add_flag("--serve", demo.serve, "Serve the page, with a simulated fleet to look at");
    demo_serve->excludes("--gateway")->excludes("--agents")->excludes("--no-kill");
    demo_command->add_option("--listen", demo.listen, "With --serve: address and port; port 0: one that is free")
        ->capture_default_str()
        ->needs(demo_serve);
    demo_command->add_option("--pace", demo.pace, "With --serve: how much quicker than people, or slower")
        ->capture_default_str()
        ->check(CLI::Range(0.1, 20.0))
        ->needs(demo_serve);
    demo_command->add_flag("--keep", demo.keep, "Do not remove the temporary directory");
    demo_command->footer(demo_footer);

    // Started by the demo for itself, so it has no place in the help.
    CLI::App* demo_worker = app.add_subcommand("demo-worker", "")->group("");

    interlock::server::MigrateOptions migrate;
    CLI::App* migrate_command = app.add_subcommand("migrate", migrate_help);
    migrate_command->add_option("--from", migrate.from.text, "A data directory, or postgres://…")->required();
    migrate_command->add_option("--to", migrate.to.text, "The other one; empty")->required();
    migrate_command->add_flag("--dry-run", migrate.dry_run, "Only say what would be copied");
    migrate_command->footer(migrate_footer);

    interlock::server::AcceptHistoryOptions accept;
    CLI::App* accept_command = app.add_subcommand("accept-history", accept_help);
    accept_command->add_option("--store", accept.store, "postgres://…, to compare with (INTERLOCK_STORE)");
    accept_command->add_flag("--yes", accept.yes, "Do not ask");
    accept_command->footer(accept_footer);

    interlock::server::SimulateOptions simulate;
    CLI::App* simulate_command = app.add_subcommand("simulate-upstream", simulate_help);
    simulate_command->add_option("--listen", simulate.listen, "Address and port; port 0: one that is free")
        ->capture_default_str();
    simulate_command->add_option("--delay-ms", simulate.delay_ms, "Before the first byte of each answer")
        ->capture_default_str()
        ->check(CLI::Range(0, 120'000));
    simulate_command->add_option("--chunk-delay-ms", simulate.chunk_delay_ms, "Before each piece of a stream")
        ->capture_default_str()
        ->check(CLI::Range(0, 120'000));
    simulate_command->add_option("--chunks", simulate.chunks, "How many pieces a stream has")
        ->capture_default_str()
        ->check(CLI::Range(1, 100'000));
    simulate_command->add_option("--key", simulate.key, "Requests must carry this key");
    simulate_command->add_option("--log", simulate.log, "A file: one JSON line per request, keys and bodies included");
    simulate_command->add_option("--tls-cert", simulate.tls_cert, "Certificate chain (PEM)");
    simulate_command->add_option("--tls-key", simulate.tls_key, "Its key (PEM)");
    simulate_command->add_option("--threads", simulate.threads, "Threads for connections; 0: one per core")
        ->capture_default_str();
    simulate_command->footer(simulate_footer);

    // On a store, with or without a server; without --data-dir or --store the running server checks itself (cli/).
    interlock::server::VerifyOptions verify;
    CLI::App* verify_command = app.get_subcommand("verify");
    verify_command->description(verify_help);
    verify_command->add_flag("--repair", verify.repair,
                             "Rebuild counters that are off from the ledger, and say what changed");
    verify_command->add_option("--store", verify.store.text, "postgres://…: the store of several nodes");
    verify_command->add_option("--examples", verify.examples_max, "How many violations of each promise to name")
        ->capture_default_str();
    verify_command->add_option(
        "--head", verify.heads,
        "N:HASH, as verify, backup or status printed it: the store must still have it; may be repeated");
    verify_command->footer(verify_footer);

    if (const auto ended = commands.parse(argc, argv, speaks)) return *ended;
    const interlock::cli::Settings& settings = commands.settings();
    if (up_command->parsed()) {
        up.program = argv[0];
        if (up.server.store.empty()) up.server.store = variable("INTERLOCK_STORE");
        up.server.data_dir = interlock::cli::find_data_dir(settings, around);
        if (up.server.socket.empty()) up.server.socket = around.socket;
        up.run = variable("INTERLOCK_RUN");
        return interlock::server::up_command(std::move(up), argc, argv, terminal);
    }
    if (down_command->parsed()) {
        return interlock::server::down_command(interlock::cli::find_data_dir(settings, around), down_timeout_s,
                                               terminal);
    }
    if (demo_command->parsed()) {
        demo.data_dir = settings.data_dir;
        if (demo.serve && demo_seconds->empty()) demo.seconds = 0;
        return static_cast<int>(interlock::server::demo_command(demo, terminal));
    }
    if (demo_worker->parsed()) return interlock::server::demo::worker(settings.data_dir);
    if (migrate_command->parsed()) {
        migrate.json = settings.json;
        return static_cast<int>(interlock::server::migrate_command(migrate, terminal));
    }
    if (accept_command->parsed()) {
        if (accept.store.empty()) accept.store = variable("INTERLOCK_STORE");
        accept.data_dir = interlock::cli::find_data_dir(settings, around);
        return static_cast<int>(interlock::server::accept_history_command(accept, terminal));
    }
    if (simulate_command->parsed()) return interlock::server::simulate_command(simulate, terminal);
    const bool asks_server = verify_command->count("--last") > 0;
    const bool of_store = !settings.data_dir.empty() || !verify.store.text.empty() || !verify.heads.empty();
    if (verify_command->parsed() && !asks_server && of_store) {
        if (verify.store.text.empty()) verify.store.text = interlock::cli::find_data_dir(settings, around);
        verify.json = settings.json;
        const std::string data_dir = interlock::cli::find_data_dir(settings, around);
        // The keys of a directory that is no node's are about another store.
        const bool is_node = ::access(interlock::server::history_path(data_dir).c_str(), F_OK) == 0;
        if (!verify.store.is_database() || is_node) verify.seal_keys = interlock::server::read_seal_keys(data_dir);
        return static_cast<int>(interlock::server::verify_command(verify, terminal));
    }
    interlock::cli::Platform world = interlock::cli::real_world();
    world.start_server = interlock::server::start_server;
    world.become_shim = interlock::server::become_shim;
    return commands.run(around, speaks, std::move(world));
}
