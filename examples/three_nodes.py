#!/usr/bin/python3
"""Three nodes on one PostgreSQL with a synchronous standby; a node and the primary are killed while clients spend.

    examples/three_nodes.py [--seconds S] [--clients N] [--binary PATH]

Needs Debian's python3 and postgresql, and a built `interlock`. Everything runs on loopback, in temporary directories
that are removed at the end. Exits with 0 only if no confirmed charge is lost and none was counted twice.
"""

import argparse
import contextlib
import decimal
import http.client
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from with_postgres import Postgres  # noqa: E402

NAMES = ("alpha", "beta", "gamma")
COST, LIMIT = decimal.Decimal("0.001"), "1000.00"
PATIENCE_SECONDS = 60  # How long a client repeats one charge before it counts the charge as unanswered.
ANSWER_SECONDS = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=300)
    parser.add_argument("--binary", default=os.environ.get("INTERLOCK_BINARY", ROOT / "build/release/interlock"))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that what was started is ended.

    with contextlib.ExitStack() as started:
        scratch = pathlib.Path(started.enter_context(tempfile.TemporaryDirectory(prefix="interlock-three-")))
        primary = started.enter_context(Postgres())
        primary.create_database("interlock")
        standby = primary.standby()
        started.callback(standby.remove)
        say(f"PostgreSQL: primary on port {primary.port}, synchronous standby on port {standby.port}")
        # Both servers, and the wish for the one that takes writes: this is all that nodes need for a failover.
        store = (f"postgres://{primary.user}@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/interlock"
                 "?target_session_attrs=read-write")
        seal_key = secrets.token_hex(32)  # The same for all: each of them can check what the others have written.
        nodes = [started.enter_context(Node(name, options.binary, scratch, store, seal_key)) for name in NAMES]
        say("nodes: " + ", ".join(f"{node.name} on port {node.address[1]}" for node in nodes))

        key = nodes[0].admin_key()
        ask(nodes[0].address, key, "PUT", "/v1/agents/writer", {})
        ask(nodes[0].address, key, "PUT", "/v1/budgets/all", {"limit": LIMIT, "window": "total"})
        load = Load([node.address for node in nodes], key, options.clients)
        try:
            act(load, nodes, primary, standby, options.seconds)
        finally:
            load.stop()
        sys.exit(report(load, nodes, key))


def act(load, nodes, primary, standby, seconds):
    say(f"{len(load.threads)} clients charge ${COST} at a time through all three nodes")
    load.run_for(seconds * 0.25)
    writer = next(node for node in nodes if node.name == primary.sql(
        "select name from lanes join nodes using (boot)", "interlock"))
    writer.kill()
    say(f"kill -9 {writer.name}, the node that writes")
    load.run_for(seconds * 0.25)
    writer.start()
    say(f"{writer.name} is started again")
    load.run_for(seconds * 0.15)
    primary.kill()
    say("kill -9 the PostgreSQL primary")
    standby.promote()
    say("the standby is promoted")
    load.run_for(seconds * 0.35)


class Node:
    """`interlock up` on a free port of loopback, and on the same one when it is started again."""

    def __init__(self, name, binary, scratch, store, seal_key):
        self.name, self.binary, self.store = name, binary, store
        self.data, self.log = scratch / name, scratch / f"{name}.log"
        self.data.mkdir(mode=0o700)
        (self.data / "seal.key").write_text(seal_key + "\n")
        (self.data / "seal.key").chmod(0o600)
        self.address, self.process = ("127.0.0.1", 0), None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        # The address of the database may hold a password, and the environment is not shown by ps.
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", self.binary, "up", "--node", self.name, "--data-dir", self.data,
                 "--listen", "%s:%d" % self.address, "--node-lease", "1"],
                env={**os.environ, "INTERLOCK_STORE": self.store}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while (note := self.note()).get("pid") != self.process.pid:
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{self.name} does not start:\n{self.log.read_text()}")
            time.sleep(0.02)
        self.address = ("127.0.0.1", int(note["url"].rpartition(":")[2]))

    def note(self):
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.data / "server.json").read_text())
        return {}

    def admin_key(self):
        made = subprocess.run([self.binary, "keys", "create", "--scope", "admin", "--data-dir", self.data, "--quiet"],
                              check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return made.stdout.strip()

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


class Load:
    """Clients that charge one after another. What is not answered is asked again, of the next node, with its key."""

    def __init__(self, addresses, key, clients):
        self.addresses, self.key = addresses, key
        self.lock, self.stopping = threading.Lock(), threading.Event()
        self.acknowledged = {}  # The number of the event that a charge became, by the charge's key.
        self.retries, self.unanswered, self.failures = 0, 0, []
        self.last, self.longest_pause = time.monotonic(), 0.0
        self.threads = [threading.Thread(target=self.work, args=(i,), daemon=True) for i in range(clients)]
        for thread in self.threads:
            thread.start()

    def work(self, client):
        turn, connection = client, None
        for number in range(10**9):
            if self.stopping.is_set():
                return
            charge = charge_with(f"client-{client}-charge-{number}")
            deadline = time.monotonic() + PATIENCE_SECONDS
            while True:
                try:
                    connection = connection or connect(self.addresses[turn % len(self.addresses)])
                    status, answer = request(connection, self.key, "POST", "/v1/charges", charge)
                except (OSError, http.client.HTTPException):
                    status, connection = 503, None  # Nobody knows whether it was done. The key makes it safe to ask.
                if status != 503:
                    break
                if time.monotonic() > deadline:
                    self.unanswered += 1
                    return
                self.retries += 1
                turn, connection = turn + 1, None
                time.sleep(0.05)
            if status != 201:
                self.failures.append(answer)
                return
            self.acknowledge(charge["key"], answer["seq"])

    def acknowledge(self, key, seq):
        with self.lock:
            now = time.monotonic()
            self.longest_pause = max(self.longest_pause, now - self.last)
            self.last = now
            self.acknowledged[key] = seq

    def run_for(self, seconds):
        """Lets them work, and tells every second how they do."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            before, begun = len(self.acknowledged), time.monotonic()
            time.sleep(min(left, 1))
            rate = (len(self.acknowledged) - before) / (time.monotonic() - begun)
            say(f"  {len(self.acknowledged):>7,} acknowledged {rate:>7,.0f}/s {self.retries:>6,} asked again")

    def stop(self):
        """Everybody waits for the answer to what they have asked, and asks no more."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(PATIENCE_SECONDS + ANSWER_SECONDS)


def report(load, nodes, key):
    where = nodes[0].address
    stored, after = 0, ""
    while after is not None:
        page = ask(where, key, "GET", f"/v1/charges?limit=1000{after and '&after=' + str(after)}")
        stored, after = stored + len(page["items"]), page["next"]
    budget = ask(where, key, "GET", "/v1/budgets/all")
    verified = ask(where, key, "GET", "/v1/verify")["ok"]
    # All of them once more, with their keys: what is known is repeated, and what is not known was lost.
    keys, results = list(load.acknowledged), []
    for first in range(0, len(keys), 1000):
        again = [charge_with(each) for each in keys[first:first + 1000]]
        results += ask(where, key, "POST", "/v1/charges", again)["results"]
    lost, doubled = compare(load.acknowledged, stored, results)
    exact = decimal.Decimal(budget["settled"]) == COST * len(load.acknowledged)
    rows = [("acknowledged", f"{len(load.acknowledged):,}"), ("stored", f"{stored:,}"), ("lost", lost),
            ("doubled", doubled), ("unanswered", load.unanswered), ("asked again", f"{load.retries:,}"),
            ("spent", f"${budget['settled']} of ${budget['limit']}" + ("" if exact else ", not what was acknowledged")),
            ("longest pause", f"{load.longest_pause:.2f} s"),
            ("verify", "every promise holds" if verified else "a promise is broken")]
    if load.failures:
        rows.append(("unexpected", load.failures[0]))
    print("\n" + "\n".join(f"{name:<14} {value}" for name, value in rows))
    return 1 if lost or doubled or load.unanswered or load.failures or not (exact and verified) else 0


def compare(acknowledged, stored, results):
    """How many charges were acknowledged and are not known any more, and how many are stored beyond those that are."""
    lost = sum(not each["repeated"] or each["seq"] != acknowledged[each["key"]] for each in results)
    return lost, stored - (len(acknowledged) - lost)


def charge_with(key):
    return {"agent": "writer", "cost": str(COST), "key": key}


def connect(address):
    return http.client.HTTPConnection(*address, timeout=ANSWER_SECONDS)


def request(connection, key, method, path, body=None):
    connection.request(method, path, body if body is None else json.dumps(body),
                       {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def ask(address, key, method, path, body=None):
    """A request outside the load: it must succeed."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    status, answer = request(connection, key, method, path, body)
    connection.close()
    if status not in (200, 201):
        sys.exit(f"{method} {path}: {answer}")
    return answer


begun = time.monotonic()


def say(text):
    print(f"{time.monotonic() - begun:6.1f} s  {text}", flush=True)


if __name__ == "__main__":
    main()
