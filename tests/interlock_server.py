"""The real server as a process of its own, and clients for it: requests, server-sent events, many threads at once.

    with Server(binary, directory) as server:
        server.admin.put("/v1/agents/writer", {}).ok()

A Server ends its process by pid however the test ends, and every wait has an end. Everything stays on loopback.

INTERLOCK_TEST_STORE=postgres makes every Server a node on PostgreSQL. One PostgreSQL is started for the whole process,
and each Server gets a database of its own there and keeps it when it is started again. INTERLOCK_TEST_POSTGRES=18 takes
that version, and brings it from npm.
"""

import atexit
import contextlib
import functools
import hashlib
import http.client
import itertools
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))

from sanitizer import is_sanitized  # noqa: E402
from with_postgres import Postgres, fetch_bin, reserve_port  # noqa: E402

ON_POSTGRES = os.environ.get("INTERLOCK_TEST_STORE", "sqlite") == "postgres"
START_SECONDS = 20
ANSWER_SECONDS = 20
STOP_SECONDS = 30
LOST = (OSError, http.client.HTTPException)  # The answer did not come; whether the request was done is not known.

names = itertools.count(1)
running = {}  # pid: process, of every server that this process has started and not yet seen the end of.


def fresh(what):
    """A name nobody else uses, so that tests can share a server."""
    return f"{what}-{next(names)}"


@atexit.register
def end_all():
    for process in list(running.values()):
        with contextlib.suppress(ProcessLookupError):
            process.kill()


@functools.cache
def shared_postgres():
    """The PostgreSQL of this process, started when it is first needed."""
    major = os.environ.get("INTERLOCK_TEST_POSTGRES")
    server = Postgres(bin_directory=fetch_bin(int(major), fetched_directory()) if major else None)
    atexit.register(server.remove)
    return server.create().start()


def fetched_directory():
    directory = tempfile.mkdtemp(prefix="interlock-pg-bin-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def eventually(holds, seconds=20, why=lambda: ""):
    """What `holds()` returns as soon as it is true; fails when it does not become so, and then says `why()`."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"still not so after {seconds} s{why()}"
        time.sleep(0.02)
    return found


def parse(text):
    """JSON, and nothing that only Python takes for it: NaN, Infinity."""
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


class Reply:
    """An answer. ok() and refused() say what was expected of it and return its JSON."""

    def __init__(self, status, headers, body, sent):
        self.status, self.headers, self.body, self.sent = status, headers, body, sent

    def __repr__(self):
        return f"{self.sent} -> {self.status} {self.body[:1000].decode(errors='replace')}"

    def json(self):
        return parse(self.body)

    def ok(self, *statuses):
        assert self.status in (statuses or (200, 201, 204)), self
        if not self.body:
            return None
        assert self.headers["content-type"] == "application/json", self
        return self.json()

    def refused(self, status, code, pointer=None):
        assert self.status == status, self
        problem = self.problem()
        assert problem["code"] == code, self
        if pointer is not None:
            assert problem.get("pointer") == pointer, self
        return problem

    def problem(self):
        assert self.headers["content-type"] == "application/problem+json", self
        problem = self.json()
        assert problem["status"] == self.status and problem["type"] == "about:blank" and problem["title"], self
        assert len(problem["detail"]) > 5, self
        return problem


class Client:
    """Requests with one key. Each thread gets a connection of its own and keeps it."""

    def __init__(self, address, key=None, timeout=ANSWER_SECONDS):
        self.address, self.key, self.timeout = address, key, timeout
        self.local = threading.local()

    def __reduce__(self):
        return Client, (self.address, self.key, self.timeout)

    def with_key(self, key):
        return Client(self.address, key, self.timeout)

    def at(self, address):
        return Client(address, self.key, self.timeout)

    def request(self, method, path, body=None, idempotency=None, headers=None):
        """One try. An answer that does not come is one of LOST."""
        sent = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            sent["Content-Type"] = "application/json"
        if isinstance(body, str):
            body = body.encode()
        if idempotency:
            sent["Idempotency-Key"] = idempotency
        sent |= headers or {}
        connection = getattr(self.local, "connection", None)
        if connection is None:
            connection = self.local.connection = http.client.HTTPConnection(*self.address, timeout=self.timeout)
        try:
            if connection.sock is None:
                connection.connect()
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            text = response.read()
            # A head that was cut off looks to http.client like one that ended.
            if response.length is None and not response.chunked and response.status not in (204, 304):
                raise http.client.IncompleteRead(text)
        except BaseException:
            self.forget()
            raise
        found = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, found, text, f"{method} {path} {(body or b'')[:500]!r}")

    def forget(self):
        """Closes this thread's connection; the next request makes a new one."""
        connection = getattr(self.local, "connection", None)
        if connection is not None:
            connection.close()
        self.local.connection = None

    def insist(self, method, path, body=None, idempotency=None, seconds=60):
        """Asks again with the same key until there is an answer that is not 503."""
        return insist(itertools.repeat(self), method, path, body, idempotency, seconds)

    def get(self, path, **query):
        query = {name.rstrip("_"): value for name, value in query.items()}
        return self.request("GET", path + ("?" + urllib.parse.urlencode(query) if query else ""))

    def post(self, path, body=None, **options):
        return self.request("POST", path, {} if body is None else body, **options)

    def put(self, path, body=None, **options):
        return self.request("PUT", path, {} if body is None else body, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    def items(self, path, **query):
        """All items of a list, page after page."""
        query.setdefault("limit", 1000)
        found = []
        for _ in range(10_000):
            page = self.get(path, **query).ok(200)
            found += page["items"]
            if page["next"] is None:
                return found
            query["after"] = page["next"]
        raise AssertionError(f"{path} has no end")

    def events(self, path, last_event_id=None, **query):
        return EventStream(self, path, last_event_id, query)

    # What most tests need before they can begin.

    def agent(self, **body):
        name = fresh("agent")
        self.put(f"/v1/agents/{name}", body).ok()
        return name

    def budget(self, limit, **body):
        name = fresh("budget")
        self.put(f"/v1/budgets/{name}", {"limit": limit, "window": "total", **body}).ok()
        return name

    def session(self, **body):
        return self.post("/v1/sessions", body).ok(201)["id"]

    def run(self, agent, **body):
        return self.post("/v1/runs", {"agent": agent, **body}).ok(201)

    def finish(self, run, **body):
        return self.post(f"/v1/runs/{run['id']}/finish", {"fence": run["fence"], **body})

    def make_key(self, *scopes, **body):
        """A client with a new key."""
        made = self.post("/v1/keys", {"scopes": list(scopes), **body}).ok(201)
        client = self.with_key(made["key"])
        client.key_id = made["id"]
        return client


def insist(clients, method, path, body=None, idempotency=None, seconds=60):
    """Asks one client after the other, always with the same key, until there is an answer that is not 503."""
    assert idempotency or (isinstance(body, dict) and "key" in body) or method == "GET"
    deadline = time.monotonic() + seconds
    for client in clients:
        try:
            reply = client.request(method, path, body, idempotency)
            if reply.status != 503:
                return reply
        except LOST as lost:
            reply = lost
        assert time.monotonic() < deadline, f"{method} {path}: no answer in {seconds} s, at last {reply!r}"
        time.sleep(0.01)


class LocalConnection(http.client.HTTPConnection):
    """By the Unix socket of a server. Its own user and root need no key there."""

    def __init__(self, path, timeout=ANSWER_SECONDS):
        super().__init__("localhost", timeout=timeout)
        self.path = pathlib.Path(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        # An address holds 107 bytes of a path.
        directory = os.open(self.path.parent, os.O_PATH)
        try:
            self.sock.connect(f"/proc/self/fd/{directory}/{self.path.name}")
        finally:
            os.close(directory)


def make_admin_key(socket_path):
    """A key of its own for a test, made by the local admin."""
    connection = LocalConnection(socket_path)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/keys", json.dumps({"scopes": ["admin"], "note": "of the tests"}),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = response.read()
    assert response.status == 201, body
    return json.loads(body)["key"]


class EventStream:
    """Server-sent events as they come. One thread reads."""

    def __init__(self, client, path, last_event_id, query, timeout=10):
        self.connection = http.client.HTTPConnection(*client.address, timeout=timeout)
        headers = {"Authorization": f"Bearer {client.key}", "Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = str(last_event_id)
        self.connection.request("GET", path + ("?" + urllib.parse.urlencode(query) if query else ""), headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.headers["Content-Type"] == "text/event-stream"
        line = self.response.readline()  # It begins with a comment: from here on nothing is missed.
        assert line.startswith(b":"), line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.connection.close()
        self.response.close()

    def next(self):
        """The next event as (id, event, data), or nothing when the stream has ended."""
        fields = {}
        while line := self.response.readline():
            text = line.decode().rstrip("\n")
            if not text and "data" in fields:
                return int(fields["id"]), fields["event"], parse(fields["data"])
            if text and not text.startswith(":"):
                name, _, value = text.partition(": ")
                fields[name] = value
        return None

    def take(self, count):
        return [self.next() for _ in range(count)]


class Server:
    """`interlock up` on a free port of loopback, with its data in `directory`, or as a node on the database `store`."""

    def __init__(self, binary, directory, *options, store=None, started=True):
        self.binary, self.directory, self.options = binary, pathlib.Path(directory), options
        self.data = self.directory / "data"
        self.store = store or (shared_postgres().create_database(fresh("server")) if ON_POSTGRES else None)
        self.admin_key = None  # Made when the server is up for the first time, and kept over its restarts.
        self.reserved = reserve_port()
        self.port = self.reserved.getsockname()[1]
        self.process = None
        if started:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            if self.process is not None and is_sanitized(self.binary):
                self.terminate()  # Some reports are made at the end of a process: leaks, for instance.
        finally:
            self.kill9()
        self.reserved.close()
        # What a server that ends in order removes by itself, if its runs left it empty.
        for group in self.control_groups():
            with contextlib.suppress(OSError):
                group.rmdir()

    def control_groups(self):
        """The directory of the control groups for its runs, where there are any."""
        name = "interlock-" + hashlib.sha256(os.fsencode(str(self.data))).hexdigest()[:12]
        mounted = [line.split()[1] for line in open("/proc/self/mounts") if line.split()[2] == "cgroup2"]
        own = [line.strip()[3:] for line in open("/proc/self/cgroup") if line.startswith("0::")]
        # By name, not by looking around: other tests' groups come and go meanwhile.
        return [path for mount in mounted for group in own if (path := pathlib.Path(mount + group) / name).exists()]

    def start(self):
        self.begin()
        self.wait_until_up()

    def begin(self):
        """Starts the process and does not wait for it."""
        assert self.process is None
        on_store = ["--store", self.store] if self.store else []
        with open(self.directory / "server.log", "ab") as log:
            # Python ignores the signal that says a file may not grow, and so does the server then: see fill_disk().
            self.process = subprocess.Popen(
                [self.binary, "up", "--data-dir", str(self.data), "--listen", f"127.0.0.1:{self.port}", *on_store,
                 *self.options], stdin=subprocess.DEVNULL, stdout=log, stderr=log, restore_signals=False)
        running[self.process.pid] = self.process

    def wait_until_up(self):
        try:
            note = self.wait_for_note()
        except BaseException:
            self.kill9()
            raise
        url = urllib.parse.urlsplit(note["url"])
        self.address, self.port = (url.hostname, url.port), url.port
        self.admin_key = self.admin_key or make_admin_key(note["socket"])
        self.admin = Client(self.address, self.admin_key)

    def wait_for_note(self):
        # A server that was killed leaves its note behind, so the pid has to be the new one.
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert self.process.poll() is None, f"the server ended with {self.process.returncode}: {self.log()}"
            assert time.monotonic() < deadline, f"the server is not up after {START_SECONDS} s: {self.log()}"
            with contextlib.suppress(OSError, json.JSONDecodeError):
                note = json.loads((self.data / "server.json").read_text())
                if note["pid"] == self.process.pid:
                    return note
            time.sleep(0.01)

    def log(self):
        return (self.directory / "server.log").read_text(errors="replace")[-4000:]

    def ended(self):
        running.pop(self.process.pid, None)
        code, self.process = self.process.returncode, None
        return code

    def kill9(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_SECONDS)
            self.ended()

    def signal(self, number=signal.SIGTERM):
        os.kill(self.process.pid, number)

    def wait(self, seconds=STOP_SECONDS):
        self.process.wait(seconds)
        return self.ended()

    def terminate(self):
        self.signal()
        return self.wait()

    def restart(self):
        """kill -9 and again, with the same data on the same port."""
        self.kill9()
        self.start()

    @contextlib.contextmanager
    def fill_disk(self):
        """Inside, no file of the server can grow."""
        before = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (1, before[1]))
        try:
            yield
        finally:
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, before)

    def verify(self, data=None):
        """Re-derives every promise from the rows. Works beside the running server. Returns what was checked, by id."""
        where = ["--store", self.store] if self.store and data is None else ["--data-dir", str(data or self.data)]
        done = subprocess.run([self.binary, "verify", *where, "--json"], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return checked(json.loads(done.stdout))


def checked(report):
    """What a report of verify says it has checked, by id. Every promise has to hold."""
    assert report["ok"] is True and report["violations"] == 0, report
    return {promise["id"]: promise["checked"] for promise in report["promises"]}


class Crew:
    """Threads that do the same thing in the same instant, again and again. Each keeps its connections between races."""

    def __init__(self, count, seconds=60):
        self.count, self.seconds = count, seconds
        self.gate = threading.Barrier(count + 1)
        self.work, self.results, self.failures = None, [], []
        self.threads = [threading.Thread(target=self.serve, args=(i,), daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.work = None
        with contextlib.suppress(threading.BrokenBarrierError):
            self.gate.wait(1)
        for thread in self.threads:
            thread.join(1)

    def serve(self, i):
        with contextlib.suppress(threading.BrokenBarrierError):
            while True:
                self.gate.wait()
                if self.work is None:
                    return
                try:
                    self.results[i] = self.work(i)
                except BaseException as failure:
                    self.failures.append(failure)
                self.gate.wait()

    def race(self, work):
        """Runs work(0) … work(count - 1), one on each thread. Returns what they return."""
        self.work, self.results, self.failures = work, [None] * self.count, []
        self.gate.wait(self.seconds)
        try:
            self.gate.wait(self.seconds)
        except threading.BrokenBarrierError:
            raise (self.failures or [AssertionError(f"not done after {self.seconds} s")])[0] from None
        if self.failures:
            raise self.failures[0]
        return self.results


def together(count, work, seconds=60):
    """One race of a crew."""
    with Crew(count, seconds) as crew:
        return crew.race(work)
