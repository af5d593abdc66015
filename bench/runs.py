#!/usr/bin/python3
"""Runs that the server starts, beside processes that this program starts itself. Loopback only.

    ./dev bench-runs [--only overhead|rate|idle|live|levels|asleep|entrance]... [--count N] [--seconds S] [--json]
    bench/runs.py [BINARY] --smoke

overhead: one run after the other, from the request to the program's first step, and from its last one to the event that
    says that the run has ended, beside posix_spawn and wait of the same program. Both take turns.
rate: runs of /bin/true, 16 at a time, beside posix_spawn and wait by as many threads.
idle: the memory of the shims of 50 runs that sleep.
live: 500 runs that sleep: memory and processor time of the server and all shims, and how long stopping all of them takes.
levels: from the request to the program's first step at each sandbox level, beyond off, in turns.
asleep: the memory of 200 runs that sleep at level sealed, per run, beyond as many at off.
entrance: a large answer of the API read by a sealed run, beside one at level off: bytes a second, and processor time.

Each part has a server and a store of its own, and fails if anything is left of its runs. A goal that is missed is marked
and does not fail the run. --smoke does a little of everything and looks at no goal, only at whether every number comes out.
"""

import argparse
import concurrent.futures
import contextlib
import math
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from http_server import TICKS, report

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from interlock_server import LOST, EventStream, Server, eventually  # noqa: E402
from supervised import Runs, end_process, shims_of  # noqa: E402

AT_A_TIME = 16
WAIT_SECONDS = 60
SLEEP = ("/bin/sleep", "900")  # Longer than any part takes, and not for ever, should this program be killed.

# Says when it began and when it was about to end, by the clock that time.monotonic() reads.
STAMP = r"""
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000L + at.tv_nsec;
}

int main(void) {
    dprintf(1, "%ld\n", now());
    dprintf(1, "%ld\n", now());
    _exit(0);
}
"""

GOALS = {  # name: (at least, at most)
    "beyond_plain_p50_ms": (None, 15),
    "runs_per_s": (150, None),
    "idle_shim_rss_mb_max": (None, 3),
    "live_rss_mb": (None, 2000),
    "live_cpu_percent": (None, 5),
    "guarded_beyond_off_p50_ms": (None, 3),
    "files_beyond_off_p50_ms": (None, 3),
    "sealed_beyond_off_p50_ms": (None, 15),
    "sealed_beyond_off_rss_mb": (None, 2),
    "entrance_by_off_rate": (0.95, None),
    "entrance_by_off_cpu": (None, 1.05),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default=str(ROOT / "build/release/interlock"), help="the interlock binary")
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--count", type=int, default=200, help="runs for overhead")
    parser.add_argument("--seconds", type=float, default=10, help="for rate, of each kind")
    parser.add_argument("--idle", type=int, default=50, help="runs for idle")
    parser.add_argument("--live", type=int, default=500, help="runs for live")
    # A shim says every five seconds that it lives; once it has done so, it is as large as it gets.
    parser.add_argument("--settle", type=float, default=7, help="seconds for idle and live between start and first look")
    parser.add_argument("--steady", type=float, default=60, help="seconds for live to look at processor time")
    parser.add_argument("--asleep", type=int, default=200, help="runs for asleep, at each of two levels")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        options.count, options.seconds, options.idle, options.live, options.settle, options.steady = 5, 2, 3, 20, 0.5, 2
        options.asleep = 4
    # Asked to end, it takes along what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended by a signal"))

    results = {}
    # Beside the sources and not in /tmp, which may be in memory, where a commit costs nothing.
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=".") as where:
        for name in options.only or PARTS:
            directory = pathlib.Path(where).resolve() / name
            directory.mkdir()
            with Place(options.binary, directory) as place:
                results |= PARTS[name](place, options)
                place.check_nothing_is_left()
    report(results, GOALS, options.json)
    if options.smoke:
        check_numbers(results, options.only)


def check_numbers(results, only):
    missing = [] if only else [name for name in GOALS if name not in results]
    # A difference can come out below 0.
    wrong = [name for name, value in results.items() if not (math.isfinite(value) and (value > 0 or "_beyond_" in name))]
    if missing or wrong:
        sys.exit(f"bench: numbers that did not come out: {', '.join(missing + wrong)}")


# ---- what one run costs -------------------------------------------------------------------------------------------

def overhead(place, options):
    program = compiled(place.directory)
    ours, plain, syncs = [], [], []
    with open(place.directory / "synced", "wb", buffering=0) as file:
        for _ in range(options.count):
            syncs.append(sync_time(file))
            plain.append(spawned_times(program))
            ours.append(run_times(place, program))
    found = {"fdatasync_4k_p50_ms": statistics.median(syncs) * 1000}
    for name, (to_exec, to_end) in (("", zip(*ours)), ("plain_", zip(*plain))):
        both = [before + after for before, after in zip(to_exec, to_end)]
        names = ("spawn_to_exec", "exit_to_waited", "both") if name else ("admission_to_exec", "exit_to_freed", "both")
        for what, values in zip(names, (to_exec, to_end, both)):
            found[f"{name}{what}_p50_ms"] = statistics.median(values) * 1000
            found[f"{name}{what}_p95_ms"] = statistics.quantiles(values, n=20, method="inclusive")[-1] * 1000
    return found | {"beyond_plain_p50_ms": found["both_p50_ms"] - found["plain_both_p50_ms"]}


def compiled(directory):
    """A static program: a dynamic one would spend more time in its loader than anything that is measured here."""
    program = directory / "stamp"
    subprocess.run(["clang-19", "-O2", "-static", "-x", "c", "-", "-o", program], input=STAMP, text=True, check=True)
    return str(program)


def sync_time(file):
    """What the disk alone takes for a commit: a run is three of them, and a plain process none."""
    file.write(b"x" * 4096)
    before = time.monotonic()
    os.fdatasync(file.fileno())
    return time.monotonic() - before


def spawned_times(program):
    """Seconds until it began, and from its end until it was waited for."""
    read, write = os.pipe()
    before = time.monotonic()
    pid = os.posix_spawn(program, [program], {}, file_actions=[(os.POSIX_SPAWN_DUP2, write, 1)])
    _, status = os.waitpid(pid, 0)
    after = time.monotonic()
    os.close(write)
    with open(read) as output:
        began, ended = stamps(output.read())
    assert status == 0, f"{program} ended with {status}"
    return began - before, after - ended


def run_times(place, program):
    """Seconds until it began, and from its end until the run was over for everybody."""
    before = time.monotonic()
    run = place.start(program)
    after = place.ended(run, "succeeded")
    began, ended = stamps(place.runs.output(run))
    return began - before, after - ended


def stamps(text):
    began, ended = (int(line) / 1e9 for line in text.splitlines())
    return began, ended


# ---- how many runs there can be in a second -----------------------------------------------------------------------

def rate(place, options):
    def spawned():
        pid = os.posix_spawn("/bin/true", ["true"], {})
        assert os.waitpid(pid, 0)[1] == 0
        return time.monotonic()

    def ran():
        return place.ended(place.start("/bin/true"), "succeeded")

    plain, _ = per_second(spawned, options.seconds)
    cpu_before = place.cpu_with_children_s()
    ours, count = per_second(ran, options.seconds)
    cpu = place.cpu_with_children_s() - cpu_before
    return {"runs_per_s": ours, "plain_per_s": plain, "runs_by_plain": ours / plain, "cpu_ms_per_run": cpu * 1000 / count}


def per_second(once, seconds):
    """Has `once`, which returns when it was done, done by AT_A_TIME threads; the rate, and how often it was done in all."""
    until = time.monotonic() + seconds
    interrupted = threading.Event()

    def again_and_again(_):
        done = []
        while time.monotonic() < until and not interrupted.is_set():
            done.append(once())
        return done

    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        try:
            done = [at for each in pool.map(again_and_again, range(AT_A_TIME)) for at in each]
        finally:
            interrupted.set()
    return sum(at <= until for at in done) / seconds, len(done)


# ---- what runs cost that do nothing -------------------------------------------------------------------------------

def idle(place, options):
    shims, _ = start_sleepers(place, options.idle, options.settle)
    rss, pss = ([read(pid) for pid in shims] for read in (rss_mb, pss_mb))
    stop_all(place)
    return {"idle_shims": len(shims), "idle_shim_rss_mb_median": statistics.median(rss), "idle_shim_rss_mb_max": max(rss),
            "idle_shim_pss_mb_median": statistics.median(pss), "idle_shim_pss_mb_max": max(pss)}


def live(place, options):
    shims, started = start_sleepers(place, options.live, options.settle)
    server = place.server.process.pid

    before = cpu_s(server), sum(map(cpu_s, shims))
    at = time.monotonic()
    time.sleep(options.steady)
    seconds = time.monotonic() - at
    after = cpu_s(server), sum(map(cpu_s, shims))
    of_server, of_shims = ((then - now) / seconds * 100 for now, then in zip(before, after))
    rss, pss = ((read(server), sum(map(read, shims))) for read in (rss_mb, pss_mb))
    ended, gone = stop_all(place)
    return {"live_runs": len(shims), "live_started_s": started, "live_server_rss_mb": rss[0], "live_shims_rss_mb": rss[1],
            "live_rss_mb": sum(rss), "live_pss_mb": sum(pss), "live_server_cpu_percent": of_server,
            "live_shims_cpu_percent": of_shims, "live_cpu_percent": of_server + of_shims, "live_all_cancelled_s": ended,
            "live_nothing_left_s": gone}


def start_sleepers(place, count, settle_seconds):
    """The pids of their shims, and seconds until all ran."""
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        runs = list(pool.map(lambda _: place.start(*SLEEP), range(count)))
    running = max(place.follower.wait(run, "running")[0] for run in runs)
    time.sleep(settle_seconds)
    shims = shims_of(place.runs.data)
    if set(shims) != set(runs):
        sys.exit(f"bench: {len(shims)} shims for {len(runs)} runs")
    return list(shims.values()), running - begun


def stop_all(place):
    """Seconds until the last run was cancelled, and until nothing was left of them."""
    runs = list(shims_of(place.runs.data))
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(place.runs.stop, runs))
    ended = max(place.ended(run, "cancelled") for run in runs)
    place.wait_until_nothing_is_left()
    return ended - begun, time.monotonic() - begun


# ---- what sandbox levels cost -------------------------------------------------------------------------------------

LEVELS = ("off", "guarded", "files", "sealed")


def levels(place, options):
    program = compiled(place.directory)
    to_exec = {level: [] for level in LEVELS}
    for _ in range(options.count):
        for level in LEVELS:
            before = time.monotonic()
            run = place.start(program, level=level)
            place.ended(run, "succeeded")
            began, _ = stamps(place.runs.output(run))
            to_exec[level].append(began - before)
    medians = {level: statistics.median(values) * 1000 for level, values in to_exec.items()}
    return {"off_to_exec_p50_ms": medians["off"],
            **{f"{level}_beyond_off_p50_ms": medians[level] - medians["off"] for level in LEVELS[1:]}}


def asleep(place, options):
    """All processes of a run but its command: the shim, and the first process of its pid namespace."""
    found = {}
    for level in ("off", "sealed"):
        server_before = rss_mb(place.server.process.pid)
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            runs = list(pool.map(lambda _, at=level: place.start(*SLEEP, level=at), range(options.asleep)))
        for run in runs:
            place.follower.wait(run, "running")
        time.sleep(options.settle)
        pids = [pid for shim in shims_of(place.runs.data).values() for pid in (shim, *helpers_of(shim))]
        server = rss_mb(place.server.process.pid) - server_before
        found[level] = {"rss": (sum(map(rss_mb, pids)) + server) / len(runs), "pss": (sum(map(pss_mb, pids)) + server) / len(runs)}
        stop_all(place)
    return {f"{level}_{what}_mb_per_run": value for level, both in found.items() for what, value in both.items()} | {
        f"sealed_beyond_off_{what}_mb": found["sealed"][what] - found["off"][what] for what in ("rss", "pss")}


def helpers_of(shim):
    """Children that are of the same program."""
    children = pathlib.Path(f"/proc/{shim}/task/{shim}/children").read_text().split()
    return [int(child) for child in children if (pathlib.Path("/proc") / child / "comm").read_text() == "interlock-init\n"]


# Reads what the API has at a path again and again, and says how many bytes a second came, and its own processor time.
READER = """
import http.client, os, sys, time
host, port = os.environ["INTERLOCK_URL"].removeprefix("http://").split(":")
link = http.client.HTTPConnection(host, int(port))
headers = {"authorization": "Bearer " + os.environ["INTERLOCK_KEY"]}
count, until = 0, time.monotonic() + float(sys.argv[1])
began = time.monotonic()
while time.monotonic() < until:
    link.request("POST", "/v1/chat/completions", sys.argv[2], headers | {"content-type": "application/json"})
    answer = link.getresponse()
    assert answer.status == 200, answer.read()
    while part := answer.read(65536):
        count += len(part)
print(count, time.monotonic() - began, sum(os.times()[:2]))
"""


def entrance(place, options):
    """Streams of a simulated model. The server's processor time is per byte."""
    call = '{"model": "sim/small", "stream": true, "messages": [{"role": "user", "content": "[[sim output=200000 chunks=2000]]"}]}'
    rates, costs = {"off": [], "sealed": []}, {"off": [], "sealed": []}
    for _ in range(max(1, int(options.seconds // 2))):
        for level in rates:
            before = cpu_s(place.server.process.pid)
            run = place.start("/usr/bin/python3", "-I", "-c", READER, "1", call, level=level)
            place.ended(run, "succeeded")
            count, took, own = map(float, place.runs.output(run).split())
            rates[level].append(count / took)
            costs[level].append((cpu_s(place.server.process.pid) - before + own) / count)
    middle = {level: (statistics.median(rates[level]), statistics.median(costs[level])) for level in rates}
    return {"off_stream_mb_per_s": middle["off"][0] / 1e6, "sealed_stream_mb_per_s": middle["sealed"][0] / 1e6,
            "entrance_by_off_rate": middle["sealed"][0] / middle["off"][0],
            "entrance_by_off_cpu": middle["sealed"][1] / middle["off"][1]}


PARTS = {"overhead": overhead, "rate": rate, "idle": idle, "live": live, "levels": levels, "asleep": asleep, "entrance": entrance}


# ---- a server, its runs and its events ----------------------------------------------------------------------------

class Place:
    """A server that lets more runs in than any part needs. Whatever happens, no process of it stays."""

    def __init__(self, binary, directory):
        self.directory = directory
        self.server = Server(binary, directory, "--log-level", "warn", "--simulate-models", started=False)

    def __enter__(self):
        try:
            self.server.start()
            self.runs = Runs(self.server)
            # The server sets a small cap of its own a moment after it is up.
            eventually(lambda: self.server.admin.get("/v1/caps").ok()["items"])
            self.runs.cap(10_000)
            self.agent = self.runs.agent(max_concurrent_runs=10_000)
            self.follower = Follower(self.server.admin)
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        # Runs first: a server that sees the end of its runs clears up behind them.
        self.end_what_is_left()
        if self.server.process is not None:
            try:
                self.server.terminate()
            except (OSError, subprocess.TimeoutExpired):
                self.server.kill9()
        self.end_what_is_left()

    def start(self, *command, level=None):
        settings = {"sandbox_level": level} if level else {}
        if level in ("files", "sealed") and command != SLEEP:  # The program may lie in a home or in /tmp, which these levels hide.
            settings["readable"] = [os.path.dirname(command[0])]
        return self.runs.start(*command, agent=self.agent, **settings)

    def ended(self, run, status):
        """When it ended, which must have been in this way."""
        at, found = self.follower.wait(run, "ended")
        if found != status:
            sys.exit(f"bench: a run has {found}, not {status}: {self.runs.show(run)}\n{self.server.log()}")
        return at

    def left(self):
        """Every process of the runs of this server, ended ones that it has not waited for among them."""
        mark = os.fsencode(f"\0TMPDIR={self.server.data}/runs/")
        server = str(self.server.process.pid) if self.server.process is not None else None
        found = set(shims_of(self.server.data).values())
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if mark in b"\0" + (entry / "environ").read_bytes() or stat_of(entry.name)[1] == server:
                    found.add(int(entry.name))
        return found

    def check_nothing_is_left(self):
        self.wait_until_nothing_is_left()
        unfinished = self.server.admin.items("/v1/runs", status="queued,starting,running,paused")
        assert not unfinished, f"runs that have not ended: {unfinished[:3]}"

    def wait_until_nothing_is_left(self):
        eventually(lambda: not self.left(), WAIT_SECONDS, lambda: f": these are left: {list(map(name_of, self.left()))}")

    def end_what_is_left(self):
        deadline = time.monotonic() + 10
        while (pids := self.left()) and time.monotonic() < deadline:
            for pid in pids:
                end_process(pid)
            time.sleep(0.1)

    def cpu_with_children_s(self):
        """Of the server, of every shim it has waited for, and of what those have waited for."""
        self.wait_until_nothing_is_left()
        return sum(map(int, stat_of(self.server.process.pid)[11:15])) / TICKS


class Follower:
    """Hears of all runs in a thread of its own, until the server ends."""

    def __init__(self, client):
        self.stream = EventStream(client, "/v1/events", None, {"type": "run_changed,run_ended"}, timeout=WAIT_SECONDS)
        self.lock = threading.Lock()
        self.heard = {}  # (run, "running" or "ended"): Heard
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        with contextlib.suppress(*LOST):
            while event := self.stream.next():
                at = time.monotonic()
                _, kind, item = event
                state = item["data"]["state"]
                if kind == "run_ended" or state == "running":
                    heard = self.find(item["data"]["run"], "ended" if kind == "run_ended" else "running")
                    heard.at, heard.state = at, state
                    heard.event.set()

    def wait(self, run, what):
        """When it was heard of, and in which state the run was."""
        heard = self.find(run, what)
        assert heard.event.wait(WAIT_SECONDS), f"{run} is not {what} after {WAIT_SECONDS} s"
        return heard.at, heard.state

    def find(self, run, what):
        # The event may be here before the answer that tells the run's id.
        with self.lock:
            return self.heard.setdefault((run, what), Heard())


class Heard:
    def __init__(self):
        self.event, self.at, self.state = threading.Event(), None, None


# ---- what the kernel says of a process ----------------------------------------------------------------------------

def stat_of(pid):
    """The fields from the third one on, the state."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def name_of(pid):
    with contextlib.suppress(OSError):
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return f"{pid} {stat_of(pid)[0]} {words}"
    return f"{pid} gone"


def cpu_s(pid):
    """utime and stime, but in nanoseconds: in 1/100 s, each of many processes that do little would have done nothing."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def rss_mb(pid):
    return kilobytes(pid, "status", "VmRSS") / 1024


def pss_mb(pid):
    return kilobytes(pid, "smaps_rollup", "Pss") / 1024


def kilobytes(pid, file, name):
    return int(re.search(rf"^{name}:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/{file}").read_text(), re.M)[1])


if __name__ == "__main__":
    main()
