#!/usr/bin/python3
"""Instructions of a charge, of a hold or its settling, and of a model call, counted by callgrind. Loopback only.

    ./dev bench-instructions [BASE] [--only charge|holds|call]... [--clients N]... [--calls N] [--keep DIR] [--json]
    bench/instructions.py BUILD [BASE] [...]

BUILD and BASE are build directories with interlock and bench_main. With BASE the table has ratios of BUILD to BASE.

Each number is the difference of two runs that differ in the number of commands, so starting and stopping do not count.
The clients wait for each other (--in-step), so every batch of both programs has one command of each client: a command
of a smaller batch costs more. The engine's thread limits the rate of charges and holds, so it has the goal there; model
calls have it over all threads. The provider is a process of its own and is not counted. Counts do not depend on what
else the machine does. Valgrind has no SHA instructions, so libcrypto counts for far more than it takes: the columns on
the right are without it.
"""

import argparse
import contextlib
import http.client
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from http_server import Interlock, bearer

GOAL = 1.05
CONNECTIONS = 16
STEPS = (4, 24)       # Commands of each client in the two runs.
CALL_STEPS = (20, 70)
PARTS = ("charge", "holds", "call")
MODEL = "gpt-4o-mini"
BODY = json.dumps({"model": MODEL, "max_tokens": 50,
                   "messages": [{"role": "system", "content": "Answer in one sentence. " * 20},
                                {"role": "user", "content": "Say something about budgets. " * 20 + "[[sim output=50]]"}]})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build directory that is measured")
    parser.add_argument("base", type=pathlib.Path, nargs="?", help="the build directory that it is compared with")
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--clients", action="append", type=int, help="of charges and holds (default 64 and 1024)")
    parser.add_argument("--calls", type=int, default=CALL_STEPS[1], help="of each of the 16 connections (default 70)")
    parser.add_argument("--keep", type=pathlib.Path, help="keep callgrind's files in this directory")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.calls <= CALL_STEPS[0]:
        parser.error(f"--calls must be more than {CALL_STEPS[0]}")
    builds = [build.resolve() for build in (options.build, options.base) if build is not None]
    for build in builds:
        for program in ("interlock", "bench_main"):
            if not (build / program).exists():
                parser.error(f"{build} has no {program}; build it there: tools/build.py release interlock bench_main")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended by a signal"))

    rows = []
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=".") as where:
        where = pathlib.Path(where).resolve()
        for part in options.only or PARTS:
            for clients in [CONNECTIONS] if part == "call" else options.clients or [64, 1024]:
                counted = []
                for number, build in enumerate(builds):
                    keep = options.keep / f"{number}-{part}-{clients}" if options.keep else None
                    counted.append(count_calls(build, builds[0] / "interlock", where, options.calls, keep) if part == "call"
                                   else count_commands(build, where, part, clients, keep))
                rows.append((part, clients, counted))
                if not options.json:
                    show(*rows[-1], first=len(rows) == 1)
    if options.json:
        print(json.dumps([{"part": part, "clients": clients, "counted": counted} for part, clients, counted in rows]))


def show(part, clients, counted, first):
    if first:
        print(f"{'thousands of instructions':26} {'clients':>7} {'per batch':>13} {'all':>21} {'without libcrypto':>21}")
    threads = "all threads" if part == "call" else "engine's thread"
    batches = " ".join(f"{values['per_batch']:.1f}" for values in counted)
    line = f"{part + ', ' + threads:26} {clients:>7} {batches:>13}"
    for column in ("all", "without_libcrypto"):
        values = [values[column] for values in counted]
        ratio = f" {values[0] / values[1]:.3f}" if len(values) > 1 else ""
        missed = "!" if ratio and values[0] > GOAL * values[1] else ""
        line += f"{' '.join(f'{value / 1000:.2f}' for value in values) + ratio + missed:>22}"
    print(line + (f"   (!: the goal is {GOAL})" if "!" in line else ""), flush=True)


# ---- two runs and their difference --------------------------------------------------------------------------------

def count_commands(build, where, part, clients, keep):
    def run(steps):
        with callgrind(where, keep, steps) as profile:
            report = subprocess.run(
                [*profile.prefix, build / "bench_main", "--alone", "--only", part, "--in-step", "--clients", str(clients),
                 "--rounds", "1", "--seconds", "100000", "--commands", str(steps * clients), "--dir", where, "--json"],
                check=True, capture_output=True, text=True).stdout
        [row] = json.loads(report)["rows"]
        return profile.totals("engine::Engine::step(") | {"commands": steps * clients,
                                                          "batches": steps * clients / row["batch_mean"]}
    return difference(*map(run, STEPS))


def count_calls(build, provider_binary, where, steps_max, keep):
    def run(steps):
        with contextlib.ExitStack() as stack:
            profile = stack.enter_context(callgrind(where, keep, steps))
            data = stack.enter_context(tempfile.TemporaryDirectory(dir=where))
            provider = stack.enter_context(simulated_provider(provider_binary))
            with Interlock(build / "interlock", pathlib.Path(data), prefix=profile.prefix) as server:
                server.put("/v1/upstreams/bench", {"dialect": "openai", "url": provider, "models": [MODEL],
                                                   "provider": "openai"})
                server.put("/v1/agents/bench", {})
                server.put("/v1/budgets/bench", {"scope": {"agent": "bench"}, "limit": "1000000.00"})
                key = server.post("/v1/keys", {"scopes": ["agent"], "agent": "bench"})["key"]
                call_in_step(server, key, 1)
                before = batches_of(server)
                call_in_step(server, key, steps)
                batches = batches_of(server) - before
            return profile.totals() | {"commands": steps * CONNECTIONS, "batches": batches}
    return difference(*map(run, (CALL_STEPS[0], steps_max)))


@contextlib.contextmanager
def simulated_provider(binary):
    process = subprocess.Popen([binary, "simulate-upstream", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(60)


def difference(less, more):
    commands = more["commands"] - less["commands"]
    per_command = {column: (more[column] - less[column]) / commands for column in ("all", "without_libcrypto")}
    return per_command | {"per_batch": commands / (more["batches"] - less["batches"])}


def call_in_step(server, key, steps):
    """All connections ask at once, and ask again when the last one has its answer."""
    connections = [http.client.HTTPConnection(server.address, server.port, timeout=600) for _ in range(CONNECTIONS)]
    headers = {**bearer(key), "Content-Type": "application/json"}
    for _ in range(steps):
        for connection in connections:
            connection.request("POST", "/v1/chat/completions", BODY, headers)
        for connection in connections:
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                sys.exit(f"bench: a model call was answered with {answer.status}: {text.decode()}")
    for connection in connections:
        connection.close()


def batches_of(server):
    connection = http.client.HTTPConnection(server.address, server.port, timeout=600)
    connection.request("GET", "/metrics", headers=bearer(server.key))
    return int(re.search(r"^interlock_engine_batches_total (\d+)", connection.getresponse().read().decode(), re.M)[1])


# ---- callgrind ----------------------------------------------------------------------------------------------------

class Profile:
    """The files of one run, one for each thread."""

    def __init__(self, directory):
        self.directory = directory
        self.prefix = ["valgrind", "--quiet", "--tool=callgrind", "--separate-threads=yes",
                       f"--callgrind-out-file={directory}/callgrind.out"]

    def totals(self, of=""):
        """The instructions of the threads that ran a function of this name."""
        everything = hashing = 0
        for path in self.directory.glob("callgrind.out-*"):
            text = path.read_text(errors="replace")
            if of not in text:
                continue
            everything += int(re.search(r"^totals: (\d+)", text, re.M)[1])
            hashing += self_cost_of_object(text, "/libcrypto.")
        if everything == 0:
            sys.exit(f"bench: callgrind left no counts in {self.directory}")
        return {"all": everything, "without_libcrypto": everything - hashing}


def self_cost_of_object(text, name):
    """Callgrind numbers its objects; a line after `calls=` is the callee's cost, which counts there."""
    numbers = {number for number, path in re.findall(r"^c?ob=(\(\d+\)) (.*)$", text, re.M) if name in path}
    total, counts, in_call = 0, False, False
    for line in text.splitlines():
        if line.startswith("ob="):
            counts = line[3:].split()[0] in numbers
        elif line.startswith("calls="):
            in_call = True
        elif line[:1] and line[0] in "0123456789+-*":
            if counts and not in_call:
                total += int(line.split()[1])
            in_call = False
    return total


@contextlib.contextmanager
def callgrind(where, keep, steps):
    with contextlib.ExitStack() as stack:
        if keep is None:
            directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=where)))
        else:
            directory = keep.resolve() / str(steps)
            directory.mkdir(parents=True)
        yield Profile(directory)


if __name__ == "__main__":
    main()
