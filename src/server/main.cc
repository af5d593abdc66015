// The `interlock` program: reads the command line and hands over to the command.
#include <CLI/CLI.hpp>

#include "server/demo.h"
#include "server/demo_worker.h"
#include "server/terminal.h"
#include "server/verify_command.h"
#include "server/version.h"

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
  interlock demo --keep
      leaves the store for you to look at, and says where it is
  interlock demo > report.txt
      the report goes to the file, the progress stays on the terminal

Exit status: 0 every promise holds, 1 one is broken, 2 could not run, 130 interrupted.)";

}  // namespace

int main(int argc, char** argv) {
    const interlock::server::Terminal terminal = interlock::server::standard_terminal();
    CLI::App app{description, "interlock"};
    app.set_version_flag("--version", std::string("interlock ") + interlock::server::version);
    app.require_subcommand(1);
    app.footer(
        "Examples:\n  interlock demo\n  interlock verify --data-dir /var/lib/interlock\n\n"
        "'interlock COMMAND --help' says more.");

    interlock::server::DemoOptions demo;
    CLI::App* demo_command = app.add_subcommand("demo", demo_help);
    demo_command->add_option("--data-dir", demo.data_dir,
                             "Where to keep the store: a directory that is empty or not there yet");
    demo_command->add_option("--agents", demo.agents, "How many agents")
        ->capture_default_str()
        ->check(CLI::Range(1, 5000));
    demo_command->add_option("--seconds", demo.seconds, "How long they work")
        ->capture_default_str()
        ->check(CLI::Range(1.0, 600.0));
    demo_command->add_flag("--no-kill", demo.no_kill, "Do not kill the process halfway");
    demo_command->add_flag("--keep", demo.keep, "Do not remove the temporary directory");
    demo_command->footer(demo_footer);

    // Started by the demo for itself, so it has no place in the help.
    std::string demo_worker_directory;
    CLI::App* demo_worker = app.add_subcommand("demo-worker", "")->group("");
    demo_worker->add_option("--data-dir", demo_worker_directory)->required();

    interlock::server::VerifyOptions verify;
    CLI::App* verify_command = app.add_subcommand("verify", verify_help);
    verify_command->add_option("--data-dir", verify.data_dir, "The directory that holds the store")->required();
    verify_command->add_flag("--repair", verify.repair,
                             "Rebuild counters that are off from the ledger, and say what changed");
    verify_command->add_flag("--json", verify.json, "Print one JSON object instead of the table");
    verify_command->add_option("--examples", verify.examples_max, "How many violations of each promise to name")
        ->capture_default_str();
    verify_command->footer(verify_footer);

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        // CLI11's own codes for bad usage lie above 100; 2 is what a caller of ours is told to expect.
        return app.exit(error) == 0 ? 0 : 2;
    }
    if (demo_command->parsed()) return static_cast<int>(interlock::server::demo_command(demo, terminal));
    if (demo_worker->parsed()) return interlock::server::demo::worker(demo_worker_directory);
    if (verify_command->parsed()) return static_cast<int>(interlock::server::verify_command(verify, terminal));
    return 0;
}
