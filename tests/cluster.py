"""Several nodes on one PostgreSQL database, and clients that go to another node when one does not answer.

    with Cluster(binary, directory) as cluster:
        cluster.writer().kill9()
        cluster.anywhere().insist("POST", "/v1/charges", {…, "key": "k"})

Which node writes is read from the database, since a test has to know whom to kill; what is promised is not.
"""

import contextlib
import itertools
import secrets
import pathlib
import signal
import subprocess
import threading
import time

from checks import attempt
from interlock_server import LOST, Client, Server, checked, eventually, fresh, insist, shared_postgres, together

LEASE_SECONDS = 1.5
HEAL_SECONDS = 15
# Shorter than a client would wait in earnest: a node that is held by SIGSTOP takes a connection and says nothing.
ROAMING_SECONDS = 5


class Cluster:
    def __init__(self, binary, directory, count=3, postgres=None, uri=None, lease=LEASE_SECONDS):
        self.postgres, self.lease = postgres or shared_postgres(), lease
        self.database = fresh("cluster")
        self.uri = self.postgres.create_database(self.database)
        self.nodes = [Node(binary, pathlib.Path(directory) / f"node-{i}", uri(self.database, i) if uri else self.uri, lease)
                      for i in range(count)]
        seal_key = secrets.token_hex(32)  # Each node checks what the others wrote.
        for node in self.nodes:
            node.data.mkdir(mode=0o700, exist_ok=True)
            (node.data / "seal.key").write_text(seal_key + "\n")
            (node.data / "seal.key").chmod(0o600)
        together(count, lambda i: self.nodes[i].start())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.kill9()

    @property
    def admin(self):
        """The admin of a node that is there."""
        return next(node.admin for node in self.nodes if node.process and not node.held)

    def anywhere(self, timeout=ROAMING_SECONDS):
        return Roaming([Client(node.address, self.nodes[0].admin.key, timeout) for node in self.nodes])

    def client(self, node, timeout=ROAMING_SECONDS):
        """For one node, with the same key as at all the others."""
        return Client(node.address, self.nodes[0].admin.key, timeout)

    def writer(self):
        """The node that writes the default org, as soon as there is one that lives."""
        def look():
            name = self.postgres.sql("select n.name from lanes l join nodes n using (boot)", self.database)
            return next((node for node in self.nodes if node.name == name and node.process), None)

        return eventually(look)

    def make_writer(self, node):
        for other in self.others(node):
            other.terminate()
        eventually(lambda: self.writer() is node)
        self.heal()
        assert self.writer() is node

    def others(self, node):
        return [each for each in self.nodes if each is not node]

    def heal(self):
        """Everybody is back and answers."""
        for node in self.nodes:
            node.resume()
            node.check_it_lives()
        away = [node for node in self.nodes if not node.process]
        if away:
            together(len(away), lambda i: away[i].start())
        for node in self.nodes:
            eventually(lambda: node.ready() or node.check_it_lives(), HEAL_SECONDS, node.log)

    def verify(self):
        return checked(self.anywhere(60).insist("GET", "/v1/verify").ok(200))

    @contextlib.contextmanager
    def under_load(self, load, clients=12):
        """Inside, clients work. In the end they have stopped, and none has failed."""
        failures = []
        worker = threading.Thread(target=lambda: failures.extend(attempt(
            lambda: together(clients, lambda i: load.work(i, 10**9), seconds=170))), daemon=True)
        worker.start()
        load.failures = failures
        try:
            yield
        finally:
            load.stopped.set()
            worker.join(60)
        assert not worker.is_alive(), "clients still wait for their answers"
        if failures:
            raise failures[0]


class Node(Server):
    """One of several, not yet started: many are to be started at once."""

    def __init__(self, binary, directory, uri, lease):
        directory.mkdir(parents=True)
        self.held = False
        self.name = directory.name
        super().__init__(binary, directory, "--node", self.name, "--node-lease", str(lease), store=uri, started=False)

    def hold(self):
        """As SIGSTOP: it is there, and does nothing."""
        self.signal(signal.SIGSTOP)
        self.held = True

    def resume(self):
        if self.held and self.process:
            self.signal(signal.SIGCONT)
        self.held = False

    def ended(self):
        self.held = False
        return super().ended()

    def check_it_lives(self):
        """Nobody but us may end a node."""
        if self.process and self.process.poll() is not None:
            code = self.ended()
            raise AssertionError(f"{self.name} ended by itself with {code}: {self.log()}")

    def ready(self):
        """What readyz says, or nothing when it does not answer."""
        with contextlib.suppress(*LOST):
            return Client(self.address, timeout=2).get("/readyz").status == 200
        return False

    def accept_history(self):
        """As a person would: this node takes its database as it is."""
        subprocess.run([self.binary, "accept-history", "--data-dir", str(self.data), "--store", self.store, "--yes"],
                       check=True, capture_output=True, timeout=30)


class Roaming:
    """Each request goes to the next node, and on to another one with the same key until it is answered."""

    def __init__(self, clients):
        self.clients, self.turns = clients, itertools.count()

    def insist(self, method, path, body=None, idempotency=None, seconds=60):
        first = next(self.turns) % len(self.clients)
        order = itertools.cycle(self.clients[first:] + self.clients[:first])
        return insist(order, method, path, body, idempotency, seconds)


class Follower:
    """Follows the feed on one node, and goes on at the next where that one broke off."""

    def __init__(self, clients, start):
        self.clients, self.start, self.seen, self.failures = clients, start, [], []
        self.stopped, self.moves = threading.Event(), 0
        self.thread = threading.Thread(target=lambda: self.failures.extend(attempt(self.follow)), daemon=True)
        self.thread.start()

    def follow(self):
        last = self.start
        for client in itertools.cycle(self.clients):
            with contextlib.suppress(*LOST, AssertionError):  # A node on its way up or down may also answer 503.
                with client.events("/v1/events", last_event_id=last) as stream:
                    while not self.stopped.is_set() and (event := stream.next()):
                        self.seen.append(event[2])
                        last = event[0]
            if self.stopped.is_set():
                return
            self.moves += 1
            time.sleep(0.02)

    def has_seen(self, last):
        return bool(self.failures) or (self.seen and self.seen[-1]["seq"] >= last)

    def stop(self):
        self.stopped.set()
