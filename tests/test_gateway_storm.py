"""The gateway in a storm: hundreds of calls on one budget, a server that is killed, a day that ends meanwhile.

Who is right is decided from outside: the provider's books, priced here, against the server's events. Each check also
gets to see a world in which it has to fail. INTERLOCK_LONG=1 makes it longer; INTERLOCK_SEED=N repeats the chance of a run.
"""

import collections
import contextlib
import datetime
import json
import os
import random
import shutil
import subprocess
import threading
import time

import pytest

from gateway_lab import CHAT, MESSAGES, SPEAKING, UPSTREAM_KEY, Lab, bill_of, nanos
from interlock_server import LOST, ON_POSTGRES, eventually, together
from supervised import LONG

SEED = int(os.environ.get("INTERLOCK_SEED", "6"))
pytestmark = pytest.mark.seconds_max(600 if LONG else 120)


# ---- the checks ----------------------------------------------------------------------------------------------------


class Watch:
    """Looks at a budget again and again while something happens."""

    def __init__(self, lab, budget):
        self.lab, self.budget = lab, budget
        self.seen = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(20)
        self.look()

    def watch(self):
        while not self.over.is_set():
            self.look()
            time.sleep(0.005)

    def look(self):
        told = self.lab.admin.get(f"/v1/budgets/{self.budget}").ok()
        self.seen.append((nanos(told["settled"]), nanos(told["held"])))

    def check(self, limit):
        assert len({settled for settled, _ in self.seen}) > 2, "it was there when something happened"
        most = max(settled + held for settled, held in self.seen)
        assert most <= limit, f"{most - limit} nano-dollars over the limit"


def check_books(books, events):
    """Every request that the provider bills is charged once: exactly, or estimated and not too low. Nothing else is
    charged, but what may have been billed and is marked so. Returns how many were exact."""
    billed = {line["headers"]["x-client-request-id"]: bill_of(line["usage"]) for line in books if line["usage"]}
    assert len(billed) == sum(line["usage"] is not None for line in books), "a call is billed once"
    charged = collections.defaultdict(list)
    for event in events:
        charged[event["tags"]["lab"]].append(event)
    twice = [number for number, found in charged.items() if len(found) > 1]
    assert not twice, f"charged more than once: {twice}"
    missing = billed.keys() - charged.keys()
    assert not missing, f"billed and not charged: {sorted(missing)}"
    for number, (event,) in charged.items():
        if event["estimated"]:
            assert nanos(event["cost"]) >= billed.get(number, 1), f"call {number} is estimated too low: {event}"
        else:
            assert nanos(event["cost"]) == billed.get(number), f"call {number} is charged, and not what it is billed"
    return sum(not event["estimated"] for event in events)


def line(number, output=10):
    usage = dict.fromkeys(("input", "cached", "cache_write", "cache_write_1h", "audio_in", "reasoning", "audio_out",
                           "searches"), 0)
    return {"headers": {"x-client-request-id": str(number)}, "usage": usage | {"output": output}}


def event(number, cost, estimated=False):
    return {"tags": {"lab": str(number)}, "cost": f"0.{cost:09}", "estimated": estimated}


def test_the_look_at_the_books_notices_what_is_wrong():
    right = bill_of(line(1)["usage"])
    failed = {"headers": {"x-client-request-id": "3"}, "usage": None}
    check_books([line(1), line(2), failed], [event(1, right), event(2, right + 1, estimated=True)])
    for books, events, why in [
        ([line(1)], [], "not charged"),
        ([line(1)], [event(1, right - 1)], "not what it is billed"),
        ([line(1)], [event(1, right + 1)], "not what it is billed"),
        ([line(1)], [event(1, right), event(1, right)], "more than once"),
        ([line(1)], [event(1, right - 1, estimated=True)], "too low"),
        ([line(1), line(1)], [event(1, right)], "billed once"),
        ([failed], [event(3, right)], "not what it is billed"),
        ([failed], [event(3, 0, estimated=True)], "too low"),
    ]:
        with pytest.raises(AssertionError, match=why):
            check_books(books, events)


# ---- one budget, many calls ----------------------------------------------------------------------------------------


class Storm:
    """Clients of every kind, who go on until nearly everything is spent and they are refused."""

    def __init__(self, lab, key, enough):
        self.lab, self.key, self.enough = lab, key, enough  # Nano-dollars.
        self.statuses = collections.Counter()
        self.lock = threading.Lock()

    def client(self, number):
        chance = random.Random(SEED * 1000 + number)
        while True:
            status = self.one(chance)
            with self.lock:
                self.statuses[status] += 1
            if status == 402 and nanos(self.lab.budget(self.key)["settled"]) >= self.enough:
                return

    def one(self, chance):
        api, stream = chance.choice(SPEAKING), chance.random() < 0.5
        output_max = chance.randint(50, 400)
        said = chance.randint(1, output_max)
        script = [f"output={said}", f"input={chance.randint(1, 60)}"]
        fault = chance.random()
        if fault < 0.05:
            script += ["status=503", "fail_times=1", f"fail_key={chance.random()}"]
        elif fault < 0.08:
            script.append("status=400")
        elif fault < 0.11 and stream:
            script.append(f"cut_after={chance.randint(1, 3)}")
        elif fault < 0.13:
            script.append("no_usage=1")
        elif fault < 0.2:
            script.append(f"delay_ms={chance.randint(1, 100)}")
        elif fault < 0.3 and stream:
            script.append(f"chunk_delay_ms={chance.randint(1, 40)}")
        asking = self.lab.request(api, ";".join(script), self.key, stream=stream, output_max=output_max,
                                  text="x" * chance.randint(1, 300))
        if chance.random() > 0.1:
            return self.lab.ask(*asking).status
        connection, _ = self.lab.send(*asking)  # Leaves without a word, sooner or later.
        with contextlib.closing(connection), contextlib.suppress(*LOST):
            if chance.random() < 0.5:
                return connection.getresponse().status
            time.sleep(chance.uniform(0, 0.05))
        return 0


def test_a_dollar_is_used_up_by_a_crowd_and_not_a_nano_more(binary, tmp_path):
    limit = nanos("1.00")
    with Lab(binary, tmp_path, wait_s=4) as lab:
        key = lab.agent_key("1.00")
        storm = Storm(lab, key, 0.98 * limit)
        with Watch(lab, key.budget) as watch:
            together(300, storm.client, 100)
            # What is too little for the crowd is still enough for small calls.
            while (answer := lab.call(MESSAGES, "output=1;input=1", key, output_max=1)).status == 200:
                pass
        told = lab.settled(key, 30)
        eventually(lambda: lab.admin.items("/v1/holds", agent=key.agent, status="open") == [])
        events = lab.events(key)

        watch.check(limit)
        assert len(watch.seen) > 10  # How often depends on the machine; it looked while they spent.
        assert "may need" in answer.refused(MESSAGES, 402)
        assert 0.95 * limit <= nanos(told["settled"]) <= limit and told["frozen"] is None
        assert nanos(told["settled"]) == sum(nanos(event["cost"]) for event in events)
        exact = check_books(lab.provider.books(), events)
        assert exact > 0.8 * len(events) > 300, (exact, len(events), storm.statuses)
        assert set(storm.statuses) <= {0, 200, 400, 402}, storm.statuses
        lab.server.verify()


def test_charging_after_the_fact_passes_the_limit_and_is_noticed(binary, tmp_path):
    """The same crowd, which looks at the budget before each call and says afterwards what it cost."""
    limit = nanos("0.05")
    with Lab(binary, tmp_path) as lab:
        key = lab.agent_key("0.05")

        def client(number):
            while nanos(lab.budget(key)["free"]) > 0:
                said = random.Random(SEED * 1000 + number).randint(50, 400)
                with contextlib.closing(lab.provider.connection()) as connection:
                    connection.request("POST", CHAT.path, json.dumps(CHAT.body("m", "hi")),
                                       {"x-sim": f"output={said};delay_ms=50", "x-api-key": UPSTREAM_KEY})
                    assert connection.getresponse().status == 200
                cost = bill_of(line(0, said)["usage"])
                lab.admin.post("/v1/charges", {"agent": key.agent, "cost": f"0.{cost:09}", "incurred": True}).ok(201)

        with Watch(lab, key.budget) as watch:
            together(40, client)
        with pytest.raises(AssertionError, match="over the limit"):
            watch.check(limit)


# ---- a server that dies --------------------------------------------------------------------------------------------


def test_what_was_dispatched_when_the_server_died_is_charged(binary, tmp_path):
    chance = random.Random(SEED)
    rounds, streams = (10, 50) if LONG else (3, 20)
    with Lab(binary, tmp_path, hold_lease_s=10) as lab:
        key = lab.agent_key("1000.00")
        outcomes = collections.Counter()

        def client(seed):
            of_client = random.Random(seed)
            time.sleep(of_client.uniform(0, 0.3))
            script = f"output={of_client.randint(1, 400)};chunks=8;chunk_delay_ms={of_client.randint(1, 80)}"
            asking = lab.request(of_client.choice(SPEAKING), script, key, stream=True, output_max=400)
            try:
                answer = lab.ask(*asking)
                outcomes[answer.status] += 1
            except LOST:
                outcomes["lost"] += 1

        for _ in range(rounds):
            seeds = [chance.random() for _ in range(streams)]
            crowd = threading.Thread(target=together, args=(streams, lambda i: client(seeds[i])))
            crowd.start()
            time.sleep(chance.uniform(0.1, 0.8))
            lab.server.kill9()
            crowd.join(60)
            lab.server.start()
        # Each start gives what is open more time, up to a minute.
        eventually(lambda: lab.admin.items("/v1/holds", agent=key.agent, status="open") == [], 80)

        exact = check_books(lab.provider.books(), lab.events(key))
        events = len(lab.events(key))
        assert outcomes["lost"] > rounds and 0 < exact < events, (outcomes, exact, events)
        told = lab.settled(key)
        assert nanos(told["settled"]) == sum(nanos(event["cost"]) for event in lab.events(key))
        lab.server.verify()


def test_a_server_that_ends_in_order_leaves_nothing_open(binary, tmp_path):
    with Lab(binary, tmp_path) as lab:
        key = lab.agent_key("1000.00")

        def client(number):
            with contextlib.suppress(*LOST):
                lab.ask(*lab.request(SPEAKING[number % 4], "output=100;chunks=8;chunk_delay_ms=50", key, stream=True))

        crowd = threading.Thread(target=together, args=(12, client))
        crowd.start()
        eventually(lambda: len(lab.provider.books()) == 12)
        lab.server.terminate()
        crowd.join(30)
        lab.server.start()

        assert lab.admin.items("/v1/holds", agent=key.agent, status="open") == []
        assert check_books(lab.provider.books(), lab.events(key)) > 0
        lab.server.verify()


# ---- a day that ends -----------------------------------------------------------------------------------------------

# The server's own idea of the time, ahead of everybody else's by a fixed amount.
AHEAD = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec* time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += atol(getenv("AHEAD_S"));
    return failed;
}
"""


@pytest.fixture
def ahead(binary, tmp_path):
    """The program, to be started so many seconds before midnight."""
    compiler = shutil.which("clang-19") or "cc"
    subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-o", tmp_path / "ahead.so", "-"], input=AHEAD, text=True,
                   check=True)

    def make(seconds_left):
        seconds = 86_400 - int(time.time()) % 86_400 - seconds_left
        script = tmp_path / f"interlock-{seconds_left}"
        script.write_text(f"#!/bin/sh\nAHEAD_S={seconds} LD_PRELOAD={tmp_path}/ahead.so exec {binary} \"$@\"\n")
        script.chmod(0o755)
        return str(script)

    return make


@contextlib.contextmanager
def lab_before_midnight(ahead, tmp_path, limit):
    """A lab and a key whose budget is of a day that is about to end, also where a start takes its time."""
    for seconds_left in (4, 16, 64):
        directory = tmp_path / str(seconds_left)
        directory.mkdir()
        midnight = time.time() // 86_400 * 86_400 + 86_400
        with Lab(ahead(seconds_left), directory, wait_s=0) as lab:
            key = lab.agent_key(limit, window="day")
            ends = datetime.datetime.fromisoformat(lab.budget(key)["window"]["end"])
            if ends.timestamp() == midnight:
                yield lab, key
                return
    pytest.fail("the server is not up a minute after it was started")


@pytest.mark.skipif(ON_POSTGRES, reason="there the store's clock counts, which is not the server's")
def test_a_day_that_ends_in_the_middle_of_it_gives_its_own_money_and_no_more(ahead, tmp_path):
    limit = nanos("0.10")  # Some forty calls: also a slow machine uses it up before the day ends.
    with lab_before_midnight(ahead, tmp_path, "0.10") as (lab, key):
        begins = lab.budget(key)["window"]["end"]
        slow = [lab.send(*lab.request(CHAT, "output=9;chunks=10;chunk_delay_ms=500", key, stream=True, output_max=50))
                for _ in range(2)]
        eventually(lambda: lab.budget(key)["open_holds"] == 2)
        assert lab.budget(key)["window"]["end"] == begins
        deadline = time.monotonic() + 80
        turned = collections.Counter()

        def client(number):
            chance = random.Random(SEED * 1000 + number)
            while time.monotonic() < deadline:
                before = lab.budget(key)["window"]["start"] == begins
                answer = lab.call(chance.choice(SPEAKING), f"output={chance.randint(200, 300)}", key, output_max=300,
                                  stream=chance.random() < 0.5)
                turned[before, answer.status] += 1
                if answer.status == 402:
                    if before:
                        return
                    time.sleep(0.05)

        with Watch(lab, key.budget) as watch:
            together(16, client)
        for connection, _ in slow:
            connection.getresponse().read()
            connection.close()

        watch.check(limit)
        assert turned[False, 402] and turned[True, 200] and turned[True, 402], turned
        eventually(lambda: lab.admin.items("/v1/holds", agent=key.agent, status="open") == [])
        windows = sorted(lab.admin.get(f"/v1/budgets/{key.budget}/windows").ok()["items"], key=lambda each: each["start"])
        events = lab.events(key)
        assert [each["start"] == begins for each in windows] == [False, True]
        assert sum(nanos(each["settled"]) for each in windows) == sum(nanos(event["cost"]) for event in events)
        assert all(0.8 * limit <= nanos(each["settled"]) <= limit for each in windows), windows
        # What was held yesterday is paid with yesterday's money, whenever it ends.
        late = [event for event in events if event["tags"]["lab"] in {str(number) for _, number in slow}]
        assert [event["at"] > begins for event in late] == [True, True]
        check_books(lab.provider.books(), events)
        lab.server.verify()
