"""Many runs at once, floods and bombs. Who was where, when and how often is known from what the processes leave behind."""

import collections
import os
import random
import threading
import time

import pytest

from interlock_server import eventually, fresh
from supervised import LONG, PYTHON, end_process, processes_of, real_runs, shims_of, wait_for

# Takes the place from outside, by a lock that the server knows nothing of, and says so in the journal: each line is
# one write, and the times are of the one clock that all processes share.
WORKER = """
import fcntl, os, sys, time
journal, agent, place, hold, number = sys.argv[1:]
def say(what):
    line = f"{what} {time.monotonic_ns()} {number} {agent} {place}\\n"
    os.write(log, line.encode())
log = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
lock = os.open(place + ".lock", os.O_RDWR | os.O_CREAT)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    say("taken")
    sys.exit(9)
say("start")
time.sleep(float(hold))
say("end")
"""
AGENT_CAP, NODE_CAP = 3, 8


class Journal:
    """What the workers wrote."""

    def __init__(self, path):
        self.lines = [line.split() for line in path.read_text().splitlines()]
        assert all(len(line) == 5 for line in self.lines)

    def count(self, what):
        """How often each run said it."""
        return collections.Counter(number for said, _, number, _, _ in self.lines if said == what)

    def most(self, of=lambda agent, place: None):
        """The most that were between start and end at one time, of those that are alike."""
        live, most = collections.Counter(), collections.Counter()
        for said, _, _, agent, place in sorted(self.lines, key=lambda line: int(line[1])):
            kind = of(agent, place)
            live[kind] += {"start": 1, "end": -1, "taken": 0}[said]
            most[kind] = max(most[kind], live[kind])
        return max(most.values())


@pytest.fixture
def runs(binary, tmp_path):
    with real_runs(binary, tmp_path) as runs:
        yield runs


def start_crowd(runs, tmp_path, count, places, claim):
    agents = [runs.agent(max_concurrent_runs=AGENT_CAP) for _ in range(4)]
    directories = [tmp_path / f"place-{i}" for i in range(places)]
    for directory in directories:
        directory.mkdir()
    chance = random.Random(count)
    for number in range(count):
        agent, place = chance.choice(agents), str(chance.choice(directories))
        words = [tmp_path / "journal", agent, place, chance.uniform(0.02, 0.05), number]
        runs.start(*PYTHON, WORKER, *map(str, words), agent=agent, on_conflict="queue",
                   **({"workspace": place} if claim else {}))
    runs.settle(120)
    return Journal(tmp_path / "journal")


def test_a_crowd_on_few_places_never_meets(runs, tmp_path):
    count = 200
    runs.cap(NODE_CAP)

    journal = start_crowd(runs, tmp_path, count, 10, claim=True)

    once = {str(number): 1 for number in range(count)}
    assert not journal.count("taken")
    assert journal.count("start") == once and journal.count("end") == once
    assert journal.most(lambda agent, place: place) == 1
    assert journal.most(lambda agent, place: agent) <= AGENT_CAP
    assert 2 <= journal.most() <= NODE_CAP, "it was a crowd, and kept to the cap"
    assert [row["status"] for row in runs.by_id().values()] == ["succeeded"] * count


def test_the_same_crowd_without_claims_does_meet(runs, tmp_path):
    """Or else the test above would see nothing."""
    runs.cap(NODE_CAP)
    journal = start_crowd(runs, tmp_path, 40, 2, claim=False)
    assert journal.count("taken")
    assert {row["status"] for row in runs.by_id().values()} == {"succeeded", "failed"}


def test_caps_are_what_holds_the_crowd_back(runs, tmp_path):
    """The look at overlaps sees more than the caps where there are none."""
    runs.cap(1000)
    script = f"exec {' '.join(PYTHON[:-1])} -c \"$0\" \"$@\""
    for number in range(24):
        words = [tmp_path / "journal", "any", tmp_path / f"own-{number}", 1.5, number]
        runs.start("/bin/sh", "-c", script, WORKER, *map(str, words))
    runs.settle()
    assert Journal(tmp_path / "journal").most() > NODE_CAP


# ---- a server that dies again and again ---------------------------------------------------------------------------


# Says that it was there, then ends as it was told to; a long one when somebody says so.
WITNESS = """
import os, sys, time
own, go, code = sys.argv[1:]
os.write(os.open(own, os.O_WRONLY | os.O_APPEND | os.O_CREAT), f"{os.getpid()} {os.environ['INTERLOCK_RUN']}\\n".encode())
while go and not os.path.exists(go):
    time.sleep(0.05)
sys.exit(int(code))
"""


class Witnesses:
    """Runs that are asked for by whoever does not give up, and what is to become of them."""

    def __init__(self, runs, directory):
        self.runs, self.directory = runs, directory
        self.codes = {}  # run: how its process ends, by design.
        self.agent = runs.agent()

    def start(self, go="", **body):
        name = fresh("witness")
        code = len(self.codes) % 7
        command = [*PYTHON, WITNESS, str(self.directory / name), str(go), str(code)]
        body = {"agent": self.agent, "command": command, "name": name, "on_conflict": "queue", **body}
        run = self.runs.admin.insist("POST", "/v1/runs", body, idempotency=name).ok(201)["id"]
        self.codes[run] = code
        return run

    def check(self):
        rows = self.runs.by_id()
        assert set(rows) == set(self.codes), "no more and no fewer than were asked for"
        wrong = [self.story(row) for run, row in rows.items() if self.story(row)[2:] != self.story_of(run)]
        assert not wrong, "what is told of them is not what their processes did:\n" + "\n".join(map(str, wrong))

    def story(self, row):
        own = self.directory / row["name"]
        started = own.read_text().splitlines() if own.exists() else []
        return row["id"], row["reason"], len(started), row["status"], row["exit_code"]

    def story_of(self, run):
        return 1, "succeeded" if self.codes[run] == 0 else "failed", self.codes[run]


@pytest.mark.seconds_max(600)
def test_servers_that_die_lose_no_run_and_start_none_twice(runs, tmp_path):
    kills, gentle = (50, 10) if LONG else (8, 2)
    witnesses = Witnesses(runs, tmp_path)
    for number in range(20 if LONG else 12):
        (tmp_path / f"long-{number}").mkdir()
        witnesses.start(go=tmp_path / "go", workspace=str(tmp_path / f"long-{number}"))
    long_ones = list(witnesses.codes)
    over, failures = threading.Event(), []
    (tmp_path / "busy").mkdir()

    def stream():
        try:
            while not over.is_set():
                witnesses.start()
                witnesses.start(workspace=str(tmp_path / "busy"))
                time.sleep(0.05)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=stream, daemon=True)
    thread.start()
    try:
        chance = random.Random(5)
        endings = [False] * kills + [True] * gentle
        chance.shuffle(endings)
        for gently in endings:
            time.sleep(chance.uniform(0, 0.4))
            runs.restart(gently)
    finally:
        over.set()
        thread.join(60)
    assert not failures, failures

    assert {runs.wait(run, "running")["status"] for run in long_ones} == {"running"}
    (tmp_path / "go").touch()
    runs.settle(60)
    witnesses.check()
    assert len(witnesses.codes) > len(long_ones) + kills, "something was going on all the time"


def test_runs_that_end_while_no_server_is_there_are_told_as_they_ended(runs, tmp_path):
    witnesses = Witnesses(runs, tmp_path)
    ids = [witnesses.start(go=tmp_path / "go") for _ in range(14)]
    for run in ids:
        runs.wait(run, "running")
        wait_for(tmp_path / runs.show(run)["name"])
    runs.server.kill9()
    (tmp_path / "go").touch()
    eventually(lambda: not any(processes_of(run) for run in ids))
    runs.start_server()
    runs.settle()
    witnesses.check()


# ---- floods -------------------------------------------------------------------------------------------------------


def disk_bytes(path):
    return os.stat(path).st_blocks * 512


@pytest.mark.seconds_max(300)
def test_a_flood_of_output_is_kept_in_bounds_and_disturbs_nobody(runs, tmp_path):
    size = 1 << 30 if LONG else 400 << 20
    line = "0123456789abcdef" * 64
    script = f"echo first; yes {line} | head -c {size}; echo; echo last"
    begun = time.monotonic()
    flood = runs.start("/bin/sh", "-c", script)
    beside, slowest = 0, 0
    while runs.show(flood)["status"] not in ("succeeded", "failed", "lost"):
        before = time.monotonic()
        run = runs.start("/bin/echo", "beside it")
        assert runs.wait(run)["status"] == "succeeded"
        assert runs.output(run) == "beside it\n"
        beside, slowest = beside + 1, max(slowest, time.monotonic() - before)
        assert time.monotonic() - begun < 120
    assert runs.show(flood)["status"] == "succeeded"
    assert beside >= 1 and slowest < 5

    total = size + len("first\n\nlast\n")
    output = runs.data / "runs" / flood / "output"
    assert disk_bytes(output) < 300 << 20
    head, tail = runs.log(flood, offset=0, limit=1 << 16), runs.log(flood, offset=-(1 << 16), limit=1 << 16)
    flooded = f"{line}\n".encode() * 1100
    assert head.body == (b"first\n" + flooded)[:1 << 16]
    assert int(head.headers["x-interlock-log-end"]) == total
    whole = size // len(f"{line}\n") * len(f"{line}\n")
    end = flooded + flooded[:size - whole] + b"\nlast\n"
    assert tail.body == end[-(1 << 16):]
    begin, end = map(int, tail.headers["x-interlock-log-hole"].split("-"))
    assert 0 < begin < end < total and end - begin > total - (300 << 20)
    inside = runs.log(flood, offset=(begin + end) // 2, limit=100)
    assert int(inside.headers["x-interlock-log-offset"]) == end, "whoever asks for the hole gets what is behind it"
    assert inside.body == expected_at(end, line, 100)


def expected_at(offset, line, count):
    text = f"{line}\n".encode()
    at = (offset - len("first\n")) % len(text)
    return (text * 2)[at:at + count]


def test_a_small_output_has_no_hole(runs):
    run = runs.start("/bin/sh", "-c", f"head -c {1 << 20} /dev/zero")
    runs.wait(run)
    reply = runs.log(run, limit=1 << 20)
    assert reply.body == bytes(1 << 20) and "x-interlock-log-hole" not in reply.headers


# ---- bombs --------------------------------------------------------------------------------------------------------


# Every process makes two of itself, eight times over, and all of them stay and listen to nobody.
BOMB = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
for depth in range(8):
    if os.fork() == 0 and depth % 3 == 0:
        os.setsid()
open("up", "a").close()
while True:
    time.sleep(1)
"""
# For ever one more child of the child; each begins the next and goes. Bounded by its lifetime only.
RUNNER = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
until = time.monotonic() + 60
open("up", "a").close()
while time.monotonic() < until:
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    time.sleep(0.002)
"""


def test_a_bomb_is_stopped_and_nothing_of_it_is_left(runs, tmp_path):
    run = runs.start(*PYTHON, BOMB, workspace=str(tmp_path), grace_s=1)
    eventually(lambda: len(processes_of(run)) == 256, 20, lambda: f": {len(processes_of(run))} processes")
    runs.stop(run)
    assert runs.wait(run)["status"] == "cancelled"
    assert processes_of(run) == []
    runs.wait(runs.start("/bin/true", workspace=str(tmp_path)), "succeeded")


def test_a_bomb_whose_shim_is_killed_is_ended_by_the_server(runs, tmp_path):
    run = runs.start(*PYTHON, BOMB, workspace=str(tmp_path), grace_s=1)
    eventually(lambda: len(processes_of(run)) == 256, 20, lambda: f": {len(processes_of(run))} processes")
    end_process(shims_of(runs.data)[run])
    assert runs.wait(run, seconds=10)["status"] == "lost", "at once, not after its lease"
    assert processes_of(run) == []


def test_who_runs_away_from_parent_to_child_is_caught(runs, tmp_path):
    run = runs.start("/bin/sh", "-c", "\"$@\" & touch beside; sleep 100", "sh", *PYTHON, RUNNER, workspace=str(tmp_path),
                     grace_s=1)
    wait_for(tmp_path / "up")
    before = set(processes_of(run))
    eventually(lambda: set(processes_of(run)) - before, why=lambda: ": it does not run")
    runs.stop(run)
    assert runs.wait(run)["status"] == "cancelled"
    assert processes_of(run) == []
    time.sleep(0.2)
    assert processes_of(run) == []
