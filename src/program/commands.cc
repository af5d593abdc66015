#include "program/commands.h"

#include <unistd.h>

#include <fmt/format.h>

#include "cli/context.h"
#include "demo/demo.h"
#include "demo/worker.h"
#include "server/data_dir.h"
#include "server/history_command.h"
#include "server/migrate_command.h"
#include "server/node.h"
#include "server/simulate_command.h"
#include "server/up_command.h"
#include "server/verify_command.h"

namespace interlock::program {

// These folders carry the commands out.
using namespace demo;
using namespace server;

namespace {

using cli::CliCommand;
using cli::Context;
using cli::ExitCode;
using cli::Flag;
using cli::Invocation;
using cli::Range;
using cli::ValueType;

CliCommand up_table(int argc, char** argv);
CliCommand down_table();
CliCommand demo_table();
CliCommand demo_worker_table();
CliCommand migrate_table();
CliCommand accept_history_table();
CliCommand simulate_upstream_table();

}  // namespace

std::vector<CliCommand> local_commands(int argc, char** argv) {
    return {up_table(argc, argv),      down_table(),       demo_table(), migrate_table(), accept_history_table(),
            simulate_upstream_table(), demo_worker_table()};
}

ExitCode verify_store(const cli::Platform::StoreToVerify& store, const cli::CliOutput& output) {
    VerifyOptions options{.store = {store.store.empty() ? store.data_dir : store.store},
                          .repair = store.repair,
                          .json = store.json,
                          .examples_max = store.examples_max,
                          .heads = store.heads};
    // The keys of a directory that is no node's belong to another store.
    const bool is_node = ::access(history_path(store.data_dir).c_str(), F_OK) == 0;
    if (!options.store.is_database() || is_node) options.seal_keys = read_seal_keys(store.data_dir);
    return static_cast<ExitCode>(verify_command(std::move(options), output));
}

namespace {

const std::vector<std::string> sandbox_levels{"off", "guarded", "files", "sealed"};

std::string first_of(const std::string& a, const std::string& b) { return a.empty() ? b : a; }

std::size_t count_in(const Invocation& invocation, const std::string& flag, std::size_t otherwise) {
    return static_cast<std::size_t>(invocation.number(flag, static_cast<double>(otherwise)));
}

Flag threads_flag() {
    return {.name = "threads",
            .value = "N",
            .help = "Threads for connections (default 0: one per core)",
            .takes = ValueType::number,
            .range = Range{0, 4096}};
}

// ---- up and down --------------------------------------------------------------------------------------------------

std::vector<Flag> up_flags() {
    return {
        {.name = "listen", .value = "ADDRESS", .help = "Address and port (default 127.0.0.1:4100; port 0: a free one)"},
        {.name = "detach", .help = "Run in the background; return when the server is up", .takes = ValueType::on},
        {.name = "tls-cert", .value = "FILE", .help = "TLS certificate chain (PEM)"},
        {.name = "tls-key", .value = "FILE", .help = "Private key of the certificate (PEM)"},
        {.name = "insecure", .help = "Allow other machines to connect without TLS", .takes = ValueType::on},
        {.name = "host",
         .value = "NAME",
         .help = "Host name by which clients may call the server; repeatable",
         .takes = ValueType::repeat},
        {.name = "socket",
         .value = "PATH",
         .help = "Unix socket for commands on this machine (INTERLOCK_SOCKET; default api.sock in the data directory)"},
        {.name = "store",
         .value = "URI",
         .help = "postgres://… shared by several nodes (INTERLOCK_STORE; default the embedded store)"},
        {.name = "node", .value = "NAME", .help = "With --store: name of this node (default the host name)"},
        {.name = "advertise", .value = "URL", .help = "With --store: URL by which other nodes reach this node"},
        {.name = "peer-ca", .value = "FILE", .help = "With --store: certificate authorities of the other nodes (PEM)"},
        {.name = "node-lease",
         .value = "SECONDS",
         .help = "With --store: silence after which other nodes take over (default 3)",
         .takes = ValueType::decimal,
         .range = Range{0.5, 60}},
        {.name = "memory-pressure",
         .value = "PERCENT",
         .help = "Start no run while processes wait for memory more than this (default 40; 0: no limit)",
         .takes = ValueType::decimal,
         .range = Range{0, 100}},
        {.name = "sandbox-default",
         .value = "LEVEL",
         .help = "Sandbox level of runs that set none (default guarded if the machine allows it)",
         .choices = sandbox_levels},
        {.name = "sandbox-minimum",
         .value = "LEVEL",
         .help = "Lowest sandbox level; runs below it are refused (default off)",
         .choices = sandbox_levels},
        {.name = "accept-clock",
         .help = "Start although the newest event in the store is ahead of this machine's clock",
         .takes = ValueType::on},
        {.name = "simulate-models",
         .help = "Provide free simulated models such as sim/small, to try the gateway",
         .takes = ValueType::on},
        threads_flag(),
        {.name = "log-format", .value = "FORMAT", .help = "Log format (default text)", .choices = {"text", "json"}},
        {.name = "log-level",
         .value = "LEVEL",
         .help = "Lowest level that is logged (default info)",
         .choices = {"debug", "info", "warn", "error"}},
        {.name = "ready-fd", .value = "FD", .takes = ValueType::number, .range = Range{0, 1 << 20}, .hidden = true}};
}

UpOptions up_options(const Context& context, const Invocation& invocation) {
    UpOptions options;
    options.listen = first_of(invocation.text("listen"), options.listen);
    options.detach = invocation.has("detach");
    options.log_format = first_of(invocation.text("log-format"), options.log_format);
    options.log_level = first_of(invocation.text("log-level"), options.log_level);
    options.run = context.environment.run;
    options.ready_fd = static_cast<int>(invocation.number("ready-fd", options.ready_fd));
    ServerOptions& server = options.server;
    server.data_dir = cli::find_data_dir(context.settings, context.environment);
    server.tls_cert = invocation.text("tls-cert");
    server.tls_key = invocation.text("tls-key");
    server.insecure = invocation.has("insecure");
    server.allowed_hosts = invocation.texts("host");
    server.socket = first_of(invocation.text("socket"), context.environment.socket);
    server.threads = count_in(invocation, "threads", server.threads);
    server.store = first_of(invocation.text("store"), context.environment.store);
    server.node_name = invocation.text("node");
    server.advertise = invocation.text("advertise");
    server.peer_ca = invocation.text("peer-ca");
    server.node_lease_s = invocation.number("node-lease", server.node_lease_s);
    server.accept_clock = invocation.has("accept-clock");
    server.simulate_models = invocation.has("simulate-models");
    server.sandbox_default = invocation.text("sandbox-default");
    server.sandbox_minimum = invocation.text("sandbox-minimum");
    server.memory_pressure_max = invocation.number("memory-pressure", server.memory_pressure_max);
    return options;
}

CliCommand up_table(int argc, char** argv) {
    return {.words = {"up"},
            .summary = "Start the server",
            .flags = up_flags(),
            .examples = {{"interlock up", "for this machine, until Ctrl-C"},
                         {"interlock up --detach", "in the background; 'interlock down' stops it"},
                         {"interlock up --listen 0.0.0.0:4100 --tls-cert cert.pem --tls-key key.pem",
                          "for other machines, over TLS"},
                         {"interlock up --store postgres://… --node alpha --advertise https://alpha.internal:4100",
                          "one of several nodes; see docs/several-nodes.md"}},
            .run =
                [argc, argv](Context& context, const Invocation& invocation) {
                    UpOptions options = up_options(context, invocation);
                    options.program = argv[0];
                    return static_cast<ExitCode>(up_command(std::move(options), argc, argv, context.output));
                },
            .notes =
                "The data directory is --data-dir, else $INTERLOCK_DATA, else $XDG_DATA_HOME/interlock, else "
                "~/.local/share/interlock.\nExit codes: 0 stopped, 1 could not start, 2 wrong usage."};
}

CliCommand down_table() {
    return {.words = {"down"},
            .summary = "Stop the server of the data directory",
            .flags = {{.name = "wait",
                       .value = "SECONDS",
                       .help = "Longest wait (default 30)",
                       .takes = ValueType::decimal,
                       .range = Range{0, 86400}}},
            .examples = {{"interlock down", "runs continue; the next server resumes them"}},
            .run =
                [](Context& context, const Invocation& invocation) {
                    const std::string data_dir = cli::find_data_dir(context.settings, context.environment);
                    return static_cast<ExitCode>(down_command(data_dir, invocation.number("wait", 30), context.output));
                },
            .notes = "Exit codes: 0 stopped, 1 the process has not ended, 5 no server runs there."};
}

// ---- demo ---------------------------------------------------------------------------------------------------------

// Which flags of the demo cannot go together; empty if these can.
std::string demo_conflict(const Invocation& invocation) {
    const bool serve = invocation.has("serve");
    for (const char* flag : {"gateway", "agents", "no-kill"}) {
        if (serve && invocation.has(flag)) return fmt::format("--serve and --{} exclude each other", flag);
    }
    for (const char* flag : {"listen", "pace"}) {
        if (!serve && invocation.has(flag)) return fmt::format("--{} needs --serve", flag);
    }
    return "";
}

ExitCode run_demo(Context& context, const Invocation& invocation) {
    if (const std::string conflict = demo_conflict(invocation); !conflict.empty()) {
        return context.report(cli::bad_usage(conflict, "interlock demo --help"));
    }
    DemoOptions options;
    options.data_dir = context.settings.data_dir;
    options.agents = static_cast<int>(invocation.number("agents", options.agents));
    options.serve = invocation.has("serve");
    options.seconds = invocation.number("seconds", options.serve ? 0 : options.seconds);
    options.no_kill = invocation.has("no-kill");
    options.keep = invocation.has("keep");
    options.gateway = invocation.has("gateway");
    options.listen = first_of(invocation.text("listen"), options.listen);
    options.pace = invocation.number("pace", options.pace);
    return static_cast<ExitCode>(demo_command(options, context.output));
}

CliCommand demo_table() {
    return {
        .words = {"demo"},
        .summary = "Run simulated agents through a kill -9 and verify",
        .flags = {{.name = "agents",
                   .value = "N",
                   .help = "Number of agents (default 100)",
                   .takes = ValueType::number,
                   .range = Range{1, 5000}},
                  {.name = "seconds",
                   .value = "S",
                   .help = "Duration (default 8; with --serve until Ctrl-C)",
                   .takes = ValueType::decimal,
                   .range = Range{1, 600}},
                  {.name = "no-kill", .help = "Do not kill the process", .takes = ValueType::on},
                  {.name = "gateway",
                   .help = "Call simulated models through the gateway until a dollar is spent",
                   .takes = ValueType::on},
                  {.name = "serve",
                   .help = "Serve the dashboard with simulated agents instead",
                   .takes = ValueType::on},
                  {.name = "listen",
                   .value = "ADDRESS",
                   .help = "With --serve: address and port (default a free port of 127.0.0.1)"},
                  {.name = "pace",
                   .value = "X",
                   .help = "With --serve: speed of the agents, 0.1 to 20 (default 1)",
                   .takes = ValueType::decimal,
                   .range = Range{0.1, 20}},
                  {.name = "keep", .help = "Keep the temporary directory and print its path", .takes = ValueType::on}},
        .examples = {{"interlock demo", "100 agents, 8 seconds, in a temporary directory"},
                     {"interlock demo --agents 500 --seconds 20", ""},
                     {"interlock demo --gateway", "model calls in every API format, stopped by a budget"},
                     {"interlock demo --serve", "prints a link to the dashboard; Ctrl-C ends it"},
                     {"interlock demo > report.txt", "the report in a file, the progress on the terminal"}},
        .run = run_demo,
        .notes =
            "Needs no server, no key and no network. The agents compete for a budget of ten dollars, one session and a "
            "few directories.\nExit codes: 0 every guarantee holds, 1 a guarantee is violated, 2 could not run, 130 "
            "interrupted."};
}

// `demo` starts this one itself.
CliCommand demo_worker_table() {
    return {.words = {"demo-worker"},
            .summary = "Keep the store of a demo",
            .run = [](Context& context,
                      const Invocation&) { return static_cast<ExitCode>(demo::worker(context.settings.data_dir)); },
            .hidden = true};
}

// ---- stores -------------------------------------------------------------------------------------------------------

CliCommand migrate_table() {
    return {.words = {"migrate"},
            .summary = "Copy a store between a data directory and PostgreSQL",
            .flags = {{.name = "from",
                       .value = "STORE",
                       .help = "Source: a data directory or postgres://…",
                       .required = true},
                      {.name = "to",
                       .value = "STORE",
                       .help = "Target, which must be empty: a data directory or postgres://…",
                       .required = true},
                      {.name = "dry-run", .help = "Only report what would be copied", .takes = ValueType::on}},
            .examples = {{"interlock migrate --from /var/lib/interlock --to postgres://interlock@db.internal/interlock",
                          "for several nodes"},
                         {"interlock migrate --from postgres://interlock@db.internal/interlock --to /var/lib/copy",
                          "back into a directory"},
                         {"interlock migrate --from /var/lib/interlock --to postgres://… --dry-run", ""}},
            .run =
                [](Context& context, const Invocation& invocation) {
                    const MigrateOptions options{.from = {invocation.text("from")},
                                                 .to = {invocation.text("to")},
                                                 .dry_run = invocation.has("dry-run"),
                                                 .json = context.settings.json};
                    return migrate_command(options, context.output);
                },
            .notes =
                "Stop the servers of both stores first. The source is verified and stays unchanged. The copy is "
                "verified and compared row by row; until then no server accepts it. Repeat the command to resume an "
                "interrupted copy.\nExit codes: 0 copied, 1 refused, 2 wrong usage, 3 no such source, 5 the database "
                "cannot be reached, 7 a store is in use."};
}

CliCommand accept_history_table() {
    return {.words = {"accept-history"},
            .summary = "Let a server use a store that lost events",
            .flags = {{.name = "store", .value = "URI", .help = "postgres://… to compare with (INTERLOCK_STORE)"},
                      {.name = "yes", .help = "Do not ask for confirmation", .takes = ValueType::on}},
            .examples = {{"interlock accept-history --data-dir /var/lib/interlock", "shows both histories and asks"},
                         {"interlock accept-history --store postgres://interlock@db.internal/interlock",
                          "for a node and its database"},
                         {"interlock accept-history --data-dir /var/lib/interlock --yes", ""}},
            .run =
                [](Context& context, const Invocation& invocation) {
                    const AcceptHistoryOptions options{
                        .data_dir = cli::find_data_dir(context.settings, context.environment),
                        .store = first_of(invocation.text("store"), context.environment.store),
                        .yes = invocation.has("yes")};
                    return accept_history_command(options, context.output);
                },
            .notes =
                "A server refuses a store, such as an old backup, that lacks events which the server has seen "
                "committed. This command removes "
                "the server's record of them. Stop the server first.\nExit codes: 0 removed, 1 nothing changed, 3 "
                "there is no record, 5 the database cannot be reached."};
}

CliCommand simulate_upstream_table() {
    const Range milliseconds{0, 120'000};
    return {
        .words = {"simulate-upstream"},
        .summary = "Serve simulated models in several API formats",
        .flags = {{.name = "listen", .value = "ADDRESS", .help = "Address and port (default a free port of 127.0.0.1)"},
                  {.name = "delay-ms",
                   .value = "N",
                   .help = "Delay before the first byte of a response (default 0)",
                   .takes = ValueType::number,
                   .range = milliseconds},
                  {.name = "chunk-delay-ms",
                   .value = "N",
                   .help = "Delay before each chunk of a stream (default 0)",
                   .takes = ValueType::number,
                   .range = milliseconds},
                  {.name = "chunks",
                   .value = "N",
                   .help = "Chunks per stream (default 4)",
                   .takes = ValueType::number,
                   .range = Range{1, 100'000}},
                  {.name = "key", .value = "KEY", .help = "API key that requests must carry"},
                  {.name = "log",
                   .value = "FILE",
                   .help = "Append one JSON line per request, with keys, bodies and the billed usage"},
                  {.name = "tls-cert", .value = "FILE", .help = "TLS certificate chain (PEM)"},
                  {.name = "tls-key", .value = "FILE", .help = "Private key of the certificate (PEM)"},
                  threads_flag()},
        .examples = {{"interlock simulate-upstream --listen 127.0.0.1:4200", "prints its address; until Ctrl-C"},
                     {"interlock simulate-upstream --chunks 20 --chunk-delay-ms 50 --log books.jsonl", ""}},
        .run =
            [](Context& context, const Invocation& invocation) {
                SimulateOptions options;
                options.listen = first_of(invocation.text("listen"), options.listen);
                const auto number = [&](const char* flag, std::int64_t otherwise) {
                    return static_cast<std::int64_t>(invocation.number(flag, static_cast<double>(otherwise)));
                };
                options.delay_ms = number("delay-ms", options.delay_ms);
                options.chunk_delay_ms = number("chunk-delay-ms", options.chunk_delay_ms);
                options.chunks = number("chunks", options.chunks);
                options.key = invocation.text("key");
                options.log = invocation.text("log");
                options.tls_cert = invocation.text("tls-cert");
                options.tls_key = invocation.text("tls-key");
                options.threads = count_in(invocation, "threads", options.threads);
                return static_cast<ExitCode>(simulate_command(options, context.output));
            },
        .notes =
            "Has the API formats of OpenAI, Anthropic and Gemini. Responses are free and meaningless. Directives in a "
            "request (header x-sim, or [[sim …]] in the prompt) "
            "choose its status, usage and delays; see docs/simulated-upstream.md.\nExit codes: 0 stopped, 1 could not "
            "start, 2 wrong usage."};
}

}  // namespace
}  // namespace interlock::program
