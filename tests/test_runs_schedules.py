"""Agents that wake by themselves, with real processes. What really ran, and when, is in journals that they write."""

import itertools
import json
import time

import pytest

from interlock_server import eventually, fresh, together
from supervised import LONG, PYTHON, cli, real_runs

# One line when it begins and one when it ends, each with the time and the run; in between it takes as long as it is told.
WORKER = """
import os, sys, time
journal, seconds = sys.argv[1:]
log = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def say(what):
    os.write(log, f"{what} {time.monotonic()} {os.environ['INTERLOCK_RUN']}\\n".encode())
say("start")
time.sleep(float(seconds))
say("end")
"""
SECONDS = 10 if LONG else 4  # How long a schedule is watched.


@pytest.fixture(scope="module")
def runs(binary, tmp_path_factory):
    with real_runs(binary, tmp_path_factory.mktemp("schedules")) as runs:
        yield runs


class Waking:
    """An agent with a command, its schedule, and the journal of what it really did."""

    def __init__(self, runs, tmp_path, takes=0, agent=None, **schedule):
        self.runs, self.name = runs, fresh("schedule")
        self.journal = tmp_path / self.name
        self.agent = runs.agent(command=[*PYTHON, WORKER, str(self.journal), str(takes)], **(agent or {}))
        self.put(**{"every": "1s", **schedule})

    def put(self, **body):
        self.runs.admin.put(f"/v1/schedules/{self.name}", {"agent": self.agent, **body}).ok(200)

    def show(self):
        return self.runs.admin.get(f"/v1/schedules/{self.name}").ok(200)

    def history(self):
        return self.runs.admin.items(f"/v1/schedules/{self.name}/history")

    def wake(self, **options):
        return self.runs.admin.post(f"/v1/schedules/{self.name}/wake", **options).ok(201)

    def rows(self):
        return self.runs.admin.items("/v1/runs", agent=self.agent)

    def lines(self, what):
        """[(time, run)] of those that said it, in their order."""
        text = self.journal.read_text() if self.journal.exists() else ""
        return [(float(at), run) for said, at, run in map(str.split, text.splitlines()) if said == what]

    def rest(self, seconds=30):
        """No more ticks, and nothing on its way."""
        self.runs.admin.post(f"/v1/schedules/{self.name}/pause").ok(200)
        eventually(lambda: all(row["ended_at"] for row in self.rows()), seconds, lambda: f": {self.rows()}")

    def check(self):
        """Each run is there once in the journal, and as what the server says it is."""
        started = [run for _, run in self.lines("start")]
        assert len(started) == len(set(started))
        ended = {run for _, run in self.lines("end")}
        for row in self.rows():
            assert (row["status"] == "succeeded") == (row["id"] in ended), row
        assert set(started) <= {row["id"] for row in self.rows()}


def most(*wakings):
    """The most that were there at one time."""
    steps = [(at, {"start": 1, "end": -1}[what]) for waking in wakings for what in ("start", "end")
             for at, _ in waking.lines(what)]
    return max(itertools.accumulate(step for _, step in sorted(steps)))


# ---- time ---------------------------------------------------------------------------------------------------------


def test_every_second_is_about_once_a_second(runs, tmp_path):
    waking = Waking(runs, tmp_path)
    eventually(lambda: waking.lines("start"))
    time.sleep(SECONDS)
    waking.rest()
    waking.check()

    times = [at for at, _ in waking.lines("start")]
    assert SECONDS - 1 <= len(times) <= SECONDS + 2
    gaps = [after - before for before, after in zip(times, times[1:])]
    assert all(0.4 < gap < 1.8 for gap in gaps), gaps
    assert waking.show()["fired"] == len(times)
    assert [one["outcome"] for one in waking.history()] == ["fired"] * len(times)


def test_a_schedule_that_rests_starts_nothing_and_goes_on(runs, tmp_path):
    waking = Waking(runs, tmp_path)
    eventually(lambda: waking.lines("start"))
    cli(runs, "schedules", "pause", waking.name)
    time.sleep(0.3)
    count = len(waking.lines("start"))
    assert cli(runs, "schedules", "next", waking.name)[0] == ""
    time.sleep(2)
    assert len(waking.lines("start")) == count
    cli(runs, "schedules", "resume", waking.name)
    assert len(cli(runs, "schedules", "next", waking.name, "--count", "3")[0].splitlines()) == 4
    eventually(lambda: len(waking.lines("start")) > count, 5)
    assert len(waking.lines("start")) <= count + 1, "what was due meanwhile is not made up for"
    waking.rest()
    waking.check()


# ---- the run before is still there --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slow(runs, tmp_path_factory):
    """One schedule for each way, whose runs take longer than it waits; after a while, and at rest."""
    directory = tmp_path_factory.mktemp("slow")
    found = {overlap: Waking(runs, directory, takes=1.7, overlap=overlap) for overlap in ("skip", "queue", "replace", "allow")}
    for waking in found.values():
        eventually(lambda: waking.lines("start"))
    deadline = time.monotonic() + SECONDS + 1
    while time.monotonic() < deadline:
        assert len([row for row in found["queue"].rows() if row["status"] == "queued"]) <= 1, "never piles up"
        time.sleep(0.05)
    for waking in found.values():
        runs.admin.post(f"/v1/schedules/{waking.name}/pause").ok(200)
    for waking in found.values():
        waking.rest()
        waking.check()
    return found


def test_overlap_skip_leaves_out_what_comes_too_early(runs, slow):
    waking = slow["skip"]
    assert most(waking) == 1 and len(waking.lines("start")) >= 2
    told = json.loads(cli(runs, "schedules", "history", waking.name, "--json")[0])["items"]
    assert {one["outcome"] for one in told} == {"fired", "skipped"}
    assert len([one for one in told if one["outcome"] == "fired"]) == len(waking.lines("start"))
    assert waking.show()["skipped"] == len([one for one in told if one["outcome"] == "skipped"]) >= 2
    assert "has not ended" in cli(runs, "schedules", "history", waking.name)[0]


def test_overlap_queue_keeps_one_in_line(slow):
    waking = slow["queue"]
    assert most(waking) == 1
    starts, ends = [[at for at, _ in waking.lines(what)] for what in ("start", "end")]
    assert len(starts) >= 3
    # Usually at once; on a busy machine a process takes a while to start.
    assert all(start - end < 0.9 for end, start in zip(ends, starts[1:])), "the next begins when the last has ended"


def test_overlap_replace_ends_the_one_before(slow):
    waking = slow["replace"]
    statuses = [row["status"] for row in waking.rows()]
    assert set(statuses) <= {"cancelled", "succeeded"} and statuses.count("cancelled") >= 3
    assert len(waking.lines("end")) <= 1, "only the last had time"


def test_overlap_allow_starts_them_side_by_side(slow):
    waking = slow["allow"]
    assert 2 <= most(waking) <= 3
    assert len(waking.lines("start")) >= SECONDS


# ---- wakes --------------------------------------------------------------------------------------------------------


def test_a_wake_that_is_asked_for_twice_is_one(runs, tmp_path):
    waking = Waking(runs, tmp_path, every="1d", overlap="allow")
    first, second = waking.wake(idempotency="once"), waking.wake(idempotency="once")
    assert first["run"] == second["run"]
    for _ in range(2):
        cli(runs, "schedules", "wake", waking.name, "--idempotency-key", "by hand")
    waking.rest()
    waking.check()
    assert len(waking.lines("start")) == 2


def test_wakes_that_come_while_one_waits_are_one(runs, tmp_path):
    waking = Waking(runs, tmp_path, takes=1, every="1d", agent={"max_concurrent_runs": 1})
    first = waking.wake()["run"]
    told = [waking.wake() for _ in range(10)]
    assert len({one["run"] for one in told} - {first}) == 1
    assert [one["status"] for one in told].count("coalesced") >= 9
    waking.rest()
    waking.check()
    assert len(waking.lines("start")) == 2
    assert [one["outcome"] for one in waking.history()].count("coalesced") == 9


# ---- many at once -------------------------------------------------------------------------------------------------


def test_twenty_that_wake_at_once_keep_to_the_cap_and_all_run(binary, tmp_path):
    with real_runs(binary, tmp_path, cap=4) as runs:
        everyone = [Waking(runs, tmp_path, takes=0.4, every="1d") for _ in range(20)]
        together(20, lambda i: everyone[i].wake())
        runs.settle(60)
        for waking in everyone:
            waking.check()
            assert len(waking.lines("end")) == 1
        assert 2 <= most(*everyone) <= 4


def test_twenty_heartbeats_of_one_second_share_the_machine(binary, tmp_path):
    with real_runs(binary, tmp_path, cap=4) as runs:
        everyone = [Waking(runs, tmp_path, takes=0.2, overlap="skip") for _ in range(20)]
        time.sleep(SECONDS)
        for waking in everyone:
            runs.admin.post(f"/v1/schedules/{waking.name}/pause").ok(200)
        runs.settle(60)
        for waking in everyone:
            waking.check()
            assert waking.lines("start"), "nobody is left out"
        assert 2 <= most(*everyone) <= 4
        assert {row["status"] for row in runs.by_id().values()} == {"succeeded"}


def test_the_same_without_a_cap_is_too_much(binary, tmp_path):
    """Or else the two above would see nothing."""
    with real_runs(binary, tmp_path) as runs:
        everyone = [Waking(runs, tmp_path, takes=1, every="1d") for _ in range(20)]
        together(20, lambda i: everyone[i].wake())
        runs.settle(60)
        assert most(*everyone) > 4


# ---- a server that goes -------------------------------------------------------------------------------------------


@pytest.mark.seconds_max(240)
def test_a_server_that_dies_between_ticks_fires_none_of_them_twice(binary, tmp_path):
    with real_runs(binary, tmp_path) as runs:
        allowed, single = (Waking(runs, tmp_path, takes=0.3, overlap=overlap, missed="one") for overlap in ("allow", "skip"))
        begun = time.monotonic()
        for number in range(24 if LONG else 6):
            time.sleep(0.31 + 0.07 * (number % 5))
            runs.restart(gently=number % 3 == 2)
        time.sleep(1.2)
        for waking in (allowed, single):
            waking.rest()
        took = time.monotonic() - begun
        for waking in (allowed, single):
            waking.check()
            fired = [one for one in waking.history() if one["outcome"] == "fired"]
            assert len(fired) == len(waking.rows()) == len(waking.lines("start")) == waking.show()["fired"]
            assert len({one["tick"] for one in fired}) == len(fired), "one run for one tick"
            assert len(fired) <= took + 2
            assert len(fired) >= took / 2, "and it goes on"
        assert most(single) == 1


def test_what_was_missed_is_made_up_for_as_the_schedule_says(binary, tmp_path):
    with real_runs(binary, tmp_path) as runs:
        missed = {name: Waking(runs, tmp_path, overlap="allow", missed=name) for name in ("skip", "one", "all")}
        for waking in missed.values():
            eventually(lambda: waking.lines("start"))
        runs.server.kill9()
        time.sleep(0.3)
        before = {name: len(waking.lines("start")) for name, waking in missed.items()}
        time.sleep(3.2)
        assert {name: len(waking.lines("start")) for name, waking in missed.items()} == before, "no server, no run"
        begun = time.monotonic()
        runs.start_server()
        time.sleep(0.5)
        eventually(lambda: len(missed["all"].lines("start")) - before["all"] >= 3)
        more = {name: len(waking.lines("start")) - before[name] for name, waking in missed.items()}
        # The last one that was due is merely late, and the next one may be due already. So may another per second.
        late = int(time.monotonic() - begun)
        assert more["skip"] <= 2 + late and more["one"] <= 2 + late and 3 <= more["all"] <= 5 + late, more
        for waking in missed.values():
            waking.rest()
            waking.check()
