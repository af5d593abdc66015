#!/usr/bin/python3
"""Other agents beside one hostile agent: what its open holds, its queued runs and its bodies cost them. Loopback only.

    ./dev bench-border [--short] [--rounds N] [--seconds S] [--holds N] [--runs N] [--only rates|cancels|budget|bodies]...

Rates are ratios of servers that take turns within one run. Every hostile request uses an agent's key. Exits with 1 if a
goal is missed.
"""

import argparse
import collections
import contextlib
import json
import math
import multiprocessing
import pathlib
import select
import signal
import socket
import statistics
import sys
import tempfile
import time

from http_server import Interlock

CONNECTIONS = 8
MAKING_CONNECTIONS = 64  # Many commands share a commit then.
HOSTILE_CONNECTIONS = 4
RATE_GOAL = 0.8
CPU_NOISE = 1.1  # A lower rate at this CPU time per operation, or less, is other work on the machine.
CANCEL_GOAL = 5  # × the median time of a charge beside no cancels.
HEALTH_GOAL_MS = 50
# A queue stops growing when it takes this long to make, or when one run of another agent takes this long beside it. Then
# the table has the smaller number, and the bench ends also where the cost grows with the square of the queue.
BUILD_SECONDS = 120
RUN_SECONDS = 0.25

Row = collections.namedtuple("Row", "what measured goal missed", defaults=("", False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the interlock binary")
    parser.add_argument("--short", action="store_true", help="fewer holds, runs, rounds and bodies: one to two minutes")
    parser.add_argument("--rounds", type=int, help="of each rate (default 5; short 3)")
    parser.add_argument("--seconds", type=float, help="of each rate in a round, and beside each kind of body (default 2; short 0.5)")
    parser.add_argument("--holds", type=int, help="open holds of the hostile agent (default 200,000; short 10,000)")
    parser.add_argument("--runs", type=int, help="queued runs of the hostile agent (default 20,000; short 2,000)")
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    defaults = {"rounds": (5, 3), "seconds": (2, 0.5), "holds": (200_000, 10_000), "runs": (20_000, 2_000)}
    for name, values in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, values[options.short])
    options.runs = min(options.runs, 19_999)  # The agent has one live run beside them, and 20,000 is the limit.
    if min(options.rounds, options.holds, options.runs) < 1 or options.holds > 200_000:
        parser.error("--rounds, --holds and --runs must be at least 1, --holds at most 200,000")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended by a signal"))

    rows = []
    # In the working directory, because /tmp may be in memory, where a commit costs nothing.
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=".") as where:
        for part in dict.fromkeys(PARTS[name] for name in options.only or PARTS):
            directory = pathlib.Path(where).resolve() / part.__name__
            directory.mkdir()
            found = part(directory, options)
            if not options.json:
                report(found)  # At once: the parts take minutes.
            rows += found
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=1))
    sys.exit(any(row.missed for row in rows))


def report(rows):
    width = max(len(row.what) for row in rows)
    for row in rows:
        goal = f"  (goal: {row.goal})" if row.goal else ""
        print(f"{'MISS' if row.missed else '    '} {row.what:<{width}}  {row.measured}{goal}", flush=True)


def progress(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


# ---- requests -----------------------------------------------------------------------------------------------------

def request(key, method, path, body, content_type="application/json", more=""):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: {content_type}\r\n{more}"
            f"Content-Length: {len(text)}\r\n\r\n").encode() + text


class Connection:
    """One keep-alive connection. send() and receive() are apart, so that one loop can drive many of them."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = b""

    def receive(self):
        """Status and body, or None while a part is missing."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self.got += data
        end = self.got.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = self.got[:end].lower()
        length = int(head.partition(b"\r\ncontent-length:")[2].split(b"\r\n", 1)[0] or 0)
        if len(self.got) < end + 4 + length:
            return None
        body = self.got[end + 4:end + 4 + length]
        self.got = self.got[end + 4 + length:]
        return int(head[9:12]), body

    def ask(self, message):
        self.socket.sendall(message)
        while (answer := self.receive()) is None:
            pass
        return answer


# Each of these yields a request and whether it completes an operation, and gets the body of the response.

def charges(key, agent, **more):
    message = request(key, "POST", "/v1/charges", {"agent": agent, "cost": "0.000000001", **more})
    while True:
        yield message, True


def holds(key, agent):
    """Opens holds and ends them, in turn by a settlement and by a release."""
    message = request(key, "POST", "/v1/holds", {"agent": agent, "amount": "0.000000002", "ttl_s": 3600})
    while True:
        for end, body in (("settle", b'{"cost":"0.000000001"}'), ("release", b"{}")):
            answer = yield message, False
            yield request(key, "POST", f"/v1/holds/{id_in(answer)}/{end}", body), True


def runs(key, agent):
    message = request(key, "POST", "/v1/runs", {"agent": agent, "lease_s": 3600})
    while True:
        answer = json.loads((yield message, False))
        body = {"fence": answer["fence"], "outcome": "succeeded"}
        yield request(key, "POST", f"/v1/runs/{answer['id']}/finish", body), True


def repeated(message):
    while True:
        yield message, True


def cancels(key, ids):
    for each in ids:
        yield request(key, "POST", f"/v1/runs/{each}/cancel", b"{}"), True


def id_in(answer):
    begin = answer.index(b'"id":"') + 6
    return answer[begin:answer.index(b'"', begin)].decode()


def drive(address, flows, seconds=math.inf, count=math.inf, kept=None):
    """Has each flow ask on a connection of its own, until time, count or all flows end. `kept` gets every response."""
    poll = select.epoll()
    active, operations, times = {}, 0, []
    begun = time.monotonic()

    def next_of(flow, answer):
        nonlocal operations
        connection, generator, ended, _ = flow
        operations += ended
        if answer is not None and kept is not None:
            kept.append(answer)
        between = ended or answer is None
        if between and (time.monotonic() - begun >= seconds or operations + len(active) > count):
            return False
        try:
            message, ends = generator.send(answer)
        except StopIteration:
            return False
        connection.socket.sendall(message)
        flow[2:] = ends, time.monotonic()
        return True

    for generator in flows:
        flow = [Connection(address), generator, False, 0.0]
        number = flow[0].socket.fileno()
        active[number] = flow
        poll.register(number, select.EPOLLIN)
        if not next_of(flow, None):
            del active[number]
    while active:
        for number, _ in poll.poll():
            flow = active[number]
            if (answer := flow[0].receive()) is None:
                continue
            status, body = answer
            if status >= 300:
                raise RuntimeError(f"status {status}: {body.decode(errors='replace')}")
            times.append(time.monotonic() - flow[3])
            if not next_of(flow, body):
                poll.unregister(number)
                del active[number]
    return {"operations": operations, "seconds": time.monotonic() - begun, "times": sorted(times)}


class Aside:
    """Calls a function in a process of its own."""

    def __init__(self, function, *arguments, **named):
        fork = multiprocessing.get_context("fork")
        self.here, there = fork.Pipe()

        def call():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                there.send((function(*arguments, **named), None))
            except Exception as error:  # The parent reports it.
                there.send((None, f"{type(error).__name__}: {error}"))

        self.process = fork.Process(target=call, daemon=True)
        self.process.start()
        there.close()

    def result(self):
        found, error = self.here.recv()
        self.process.join()
        if error:
            sys.exit(f"bench: {error}")
        return found

    def end(self):
        self.process.kill()
        self.process.join()


def percentile(times, share):
    return times[min(len(times) - 1, int(len(times) * share))] * 1000 if times else math.nan


def spread(times):
    return f"p50 {percentile(times, 0.5):.2f}, p99 {percentile(times, 0.99):.2f}, max {percentile(times, 1):.1f} ms"


# ---- a server with a hostile agent --------------------------------------------------------------------------------

class Server(Interlock):
    """With two agents and a key for each: `hostile`, whose cap is one live run, and `other`."""

    def __init__(self, binary, data):
        super().__init__(binary, data, "--simulate-models")
        self.at = (self.address, self.port)

    def __enter__(self):
        try:
            super().__enter__()
            self.keys = {}
            for name, live in (("hostile", 1), ("other", 1000)):
                self.put(f"/v1/agents/{name}", {"max_concurrent_runs": live})
                self.keys[name] = self.post("/v1/keys", {"scopes": ["agent"], "agent": name})["key"]
            return self
        except BaseException:
            self.__exit__()
            raise

    def stop(self, how):
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(30)
        except Exception:
            self.process.kill()
            self.process.wait()

    def as_hostile(self, method, path, body):
        connection = Connection(self.at)
        status, answer = connection.ask(request(self.keys["hostile"], method, path, body))
        connection.socket.close()
        if status >= 300:
            sys.exit(f"bench: {method} {path}: {answer.decode()}")
        return json.loads(answer)

    def make(self, what, path, body, count):
        """The ids of what was made: `count`, or as many as BUILD_SECONDS allow."""
        progress(f"making {count:,} {what}")
        answers = []
        message = request(self.keys["hostile"], "POST", path, body)
        drive(self.at, [repeated(message) for _ in range(MAKING_CONNECTIONS)], BUILD_SECONDS, count, kept=answers)
        return [id_in(answer) for answer in answers]

    def open_holds(self, count, **more):
        body = {"agent": "hostile", "amount": "0.000000001", "ttl_s": 86400, **more}
        return self.make("open holds", "/v1/holds", body, count)

    def live_run(self, **more):
        return self.as_hostile("POST", "/v1/runs", {"agent": "hostile", "lease_s": 3600, **more})

    def queue_runs(self, count, **more):
        made, begun, step = [], time.monotonic(), 250
        while len(made) < count:
            body = {"agent": "hostile", "on_conflict": "queue", **more}
            made += self.make("queued runs", "/v1/runs", body, min(step, count - len(made)))
            if time.monotonic() - begun > BUILD_SECONDS or self.time_of_one_run() > RUN_SECONDS:
                break
            step = len(made)
        return made

    def time_of_one_run(self):
        begun = time.monotonic()
        drive(self.at, [runs(self.keys["other"], "other")], count=1)
        return time.monotonic() - begun


# The kinds of queue that an agent's key can make: its runs wait for different things.

def behind_the_cap(server, options):
    server.live_run()
    return server.queue_runs(options.runs)


def behind_a_claim(server, options):
    server.live_run(resources=["hostile"])
    return server.queue_runs(options.runs, resources=["hostile"])


def behind_a_budget(server, options):
    """The agent's live run spends the agent's budget and ends; the rest waits for money."""
    server.put("/v1/budgets/hostile", {"limit": "1.00", "scope": {"agent": "hostile"}})
    run = server.live_run()
    queued = server.queue_runs(options.runs)
    server.as_hostile("POST", "/v1/charges", {"agent": "hostile", "cost": "1.00"})
    server.as_hostile("POST", f"/v1/runs/{run['id']}/finish", {"fence": run["fence"], "outcome": "succeeded"})
    return queued


def behind_the_cap_for_a_free_place(server, options):
    """The cap keeps the runs waiting; the resource that all of them want is free."""
    server.live_run()
    return server.queue_runs(options.runs, resources=["hostile"])


def with_holds(server, options):
    made = len(server.open_holds(options.holds))
    queued = behind_the_cap(server, options)
    status = server.get("/v1/status")
    if status["open_holds"] < made or status["queued_runs"] < len(queued):
        sys.exit(f"bench: the server counts {status['open_holds']} holds and {status['queued_runs']} queued runs")
    return queued


QUEUES = {"open holds, runs at the agent's cap": with_holds, "runs that wait for a claimed resource": behind_a_claim,
          "runs that wait for a budget": behind_a_budget,
          "runs at the cap that want a free resource": behind_the_cap_for_a_free_place}
OPERATIONS = {"charges": charges, "hold + settle or release": holds, "run admission + finish": runs}


# ---- 1: rates beside what one agent has open ----------------------------------------------------------------------

def rates(directory, options):
    found = collections.defaultdict(list)  # (queue, operation): [(rate, CPU µs per operation)]
    made = {}
    with contextlib.ExitStack() as stack:
        servers = {"idle": stack.enter_context(Server(options.binary, directory / "idle"))}
        for number, (name, fill) in enumerate(QUEUES.items()):
            servers[name] = stack.enter_context(Server(options.binary, directory / str(number)))
            made[name] = len(fill(servers[name], options))
        for turn in range(options.rounds):
            progress(f"rates, round {turn + 1} of {options.rounds}")
            for operation, flow in OPERATIONS.items():
                for name, server in servers.items():
                    found[name, operation].append(rate(server, flow, options.seconds))
    rows = []
    for name in QUEUES:
        size = f"{options.holds:,} " if name.startswith("open holds") else f"{made[name]:,} "
        label = size + (name.replace("runs", f"{made[name]:,} runs") if name.startswith("open holds") else name)
        for operation in OPERATIONS:
            ratios = [[beside / alone for beside, alone in zip(*pair)]
                      for pair in zip(found[name, operation], found["idle", operation])]
            by_rate, by_cpu = (statistics.median(values) for values in zip(*ratios))
            alone = statistics.median(each[0] for each in found["idle", operation])
            rows.append(Row(f"{operation}, beside {label}", f"{by_rate:.2f} × of {alone:,.0f}/s, {by_cpu:.2f} × the CPU time",
                            f"{RATE_GOAL} × the rate", by_rate < RATE_GOAL and by_cpu > CPU_NOISE))
    return rows


def rate(server, flow, seconds):
    before = server.cpu_s()
    done = Aside(drive, server.at, [flow(server.keys["other"], "other") for _ in range(CONNECTIONS)], seconds).result()
    operations = max(1, done["operations"])
    return operations / done["seconds"], max(1e-9, server.cpu_s() - before) / operations


# ---- charges of another agent while the hostile one works ---------------------------------------------------------

def cancelling(server, options):
    queued = behind_the_cap(server, options)
    return lambda part, parts: cancels(server.keys["hostile"], queued[part::parts]), f"{len(queued):,} queued"


def cancelling_claims(server, options):
    queued = behind_a_claim(server, options)
    return lambda part, parts: cancels(server.keys["hostile"], queued[part::parts]), f"{len(queued):,} queued"


def queueing(server, options):
    """Behind a queue that stays, so that each new run is the last of a long one."""
    queued = behind_the_cap(server, options)
    key = server.keys["hostile"]
    message = request(key, "POST", "/v1/runs", {"agent": "hostile", "on_conflict": "queue"})

    def flow(part, parts):
        for each in queued[part::parts]:
            yield request(key, "POST", f"/v1/runs/{each}/cancel", b"{}"), True
            yield message, True
    return flow, f"{len(queued):,} queued"


def charging_a_ceiling(server, options):
    """Charges to a run that has a budget of its own and many open holds."""
    run = server.live_run(budget="1000.00")["id"]
    made = server.open_holds(options.holds, run=run)
    return lambda part, parts: charges(server.keys["hostile"], "hostile", run=run), f"{len(made):,} holds"


def charging(server, options):
    return lambda part, parts: charges(server.keys["hostile"], "hostile"), "nothing open"


WORKS = {"charges": charging, "cancels its queued runs": cancelling,
         "cancels runs that wait for a claimed resource": cancelling_claims, "cancels and queues runs": queueing,
         "charges a run with a budget and many holds": charging_a_ceiling}


def cancels_part(directory, options):
    """Beside each kind of work on eight connections; the first, plain charges, is what the others are compared with."""
    rows, plain = [], None
    for number, (name, prepare) in enumerate(WORKS.items()):
        with Server(options.binary, directory / str(number)) as server:
            flow, size = prepare(server, options)
            mine = [charges(server.keys["other"], "other")]
            alone = Aside(drive, server.at, mine, options.seconds).result()["times"]
            hostile = Aside(drive, server.at, [flow(part, CONNECTIONS) for part in range(CONNECTIONS)], 4 * options.seconds)
            # Charges until the hostile agent ends: a server that is stuck is measured to its end.
            beside = Aside(charges_until, server.at, server.keys["other"], hostile.here)
            times = beside.result()
            done = hostile.result()
            p50 = percentile(times, 0.5)
            plain = plain or p50
            rows.append(Row(f"a charge while another agent {name} ({size}; {done['operations'] / done['seconds']:,.0f}/s)",
                            f"{spread(times)}; p50 alone {percentile(alone, 0.5):.2f} ms",
                            "" if number == 0 else f"p50 {CANCEL_GOAL} × the first row's", p50 > CANCEL_GOAL * plain))
    return rows


def charges_until(address, key, ended):
    connection, times = Connection(address), []
    message = next(charges(key, "other"))[0]
    while not times or not ended.poll():
        begun = time.monotonic()
        status, body = connection.ask(message)
        if status >= 300:
            raise RuntimeError(body.decode())
        times.append(time.monotonic() - begun)
    return sorted(times)


# ---- commands that touch every hold -------------------------------------------------------------------------------

def budget_part(directory, options):
    """How long one command keeps the engine: the longest charge of another agent meanwhile."""
    rows = []
    with Server(options.binary, directory / "data") as server:
        run = server.live_run()
        made = len(server.open_holds(options.holds, run=run["id"]))
        for name, whose in (("hostile", "their agent"), ("other", "another agent")):
            body = {"limit": "1000.00", "scope": {"agent": name}}
            rows.append(busy(server, f"new budget over {whose}", made, lambda: server.put(f"/v1/budgets/{name}", body)))
            rows.append(busy(server, f"deletion of the budget over {whose}", made,
                             lambda: server.request("DELETE", f"/v1/budgets/{name}")))
        rows.append(busy(server, "end of their run, by its agent's key", made, lambda: server.as_hostile(
            "POST", f"/v1/runs/{run['id']}/finish", {"fence": run["fence"], "outcome": "succeeded"})))
    return rows


def busy(server, name, holds_open, command):
    progress(name)
    stop, there = multiprocessing.Pipe()
    aside = Aside(charges_until, server.at, server.keys["other"], there)
    time.sleep(0.3)
    begun = time.monotonic()
    command()
    took = time.monotonic() - begun
    stop.send(None)
    times = aside.result()
    return Row(f"{name}, {holds_open:,} open holds", f"{took:.2f} s; a charge beside it: {spread(times)}")


# ---- 2: /healthz beside hostile bodies ----------------------------------------------------------------------------

MEGABYTE = 1_000_000
CHAT, CHARGES, IMPORT = "/v1/chat/completions", "/v1/charges", "/v1/sessions/import"


def colliding_names(count):
    """Names of 16 bytes that have one value in libstdc++'s std::hash, which is a Murmur hash with a known seed. Eight bytes
    are free; the other eight bring the hash back to the same value, and must be ASCII."""
    mask = (1 << 64) - 1
    factor = 0xc6a4a7935bd1e995
    undo = pow(factor, -1, 1 << 64)
    state = 0xc70f6907 ^ (16 * factor & mask)
    names, number = [], 10_000_000
    while len(names) < count:
        number += 1
        head = str(number).encode()
        block = int.from_bytes(head, "little") * factor & mask
        block = (block ^ block >> 47) * factor & mask
        # The value after both blocks shall be 0, so the second, mixed, must equal the state after the first.
        mixed = ((state ^ block) * factor & mask) * undo & mask
        tail = (mixed ^ mixed >> 47) * undo & mask
        if not tail & 0x8080808080808080:
            names.append((head + tail.to_bytes(8, "little")).decode())
    return names


def in_objects(names, size):
    """As many objects with these members as fit into `size` bytes."""
    one = json.dumps(dict.fromkeys(names, 0), separators=(",", ":"))
    return "[" + ",".join([one] * max(1, size // (len(one) + 1))) + "]"


def hostile_values(options):
    """Name, and the JSON value that each body has in it. One at a time, because they are large."""
    large = (5 if options.short else 30) * MEGABYTE
    names = colliding_names(4_000 if options.short else 20_000)
    yield f"{len(names):,} colliding names", json.dumps(dict.fromkeys(names, 0))
    yield f"{large // MEGABYTE} MB, objects of 900 colliding names", in_objects(names[:900], large)
    yield f"{large // MEGABYTE} MB of short names", "{" + ",".join(f'"{number:x}":0' for number in range(large // 12)) + "}"
    yield f"{large // MEGABYTE} MB, objects of 900 short names", in_objects([f"{number:x}" for number in range(900)], large)
    yield f"{large // MEGABYTE} MB of '['", "[" * large
    yield f"{large // MEGABYTE} MB of arrays, 20 deep", "[" + ",".join(["[" * 20 + "]" * 20] * (large // 41)) + "]"
    yield f"{large // MEGABYTE} MB of one name again and again", "{" + ",".join(['"a":0'] * (large // 6)) + "}"
    yield f"{large * 5 // 6 // MEGABYTE} MB of text", '"' + "x " * (large * 5 // 12) + '"'
    yield f"{large // MEGABYTE} MB of escapes", '"' + r"\u0041" * (large // 6) + '"'
    yield f"{large // MEGABYTE} MB of text with a byte that is no UTF-8 at its end", '"' + "x" * large + '\udcff"'


def bodies_for(value, session):
    """The same value where each route takes something of the client's: known members first, so that nothing else is wrong."""
    text = value.startswith('"')
    said, more = (value, "") if text else ('"x"', ',"metadata":%s' % value)
    chat = '{"model":"sim/small","max_tokens":5,"messages":[{"role":"user","content":%s}]%s}' % (said, more)
    message = '{"role":"user","content":%s,"metadata":%s}' % (said, "{}" if text else value)
    contents = '{"contents":[{"role":"user","parts":[{"text":%s}]}]%s}' % (said, more.replace("metadata", "labels"))
    return [
        (CHAT, chat),
        ("/v1/responses", '{"model":"sim/small","max_output_tokens":16,"input":%s%s}' % (said, more)),
        ("/v1/messages", chat),
        ("/v1/messages/count_tokens", chat),
        ("/v1beta/models/sim/small:generateContent", contents),
        ("/v1/embeddings", '{"model":"sim/embed","input":%s%s}' % (said, more)),
        (CHARGES, '{"agent":"hostile","cost":"0.000000001","%s":%s}' % ("model" if text else "tags", value)),
        (f"/v1/sessions/{session}/messages", message),
        (IMPORT, '{"interlock_session":1,"agent":"hostile","title":"t","metadata":{}}\n%s\n' % message)]


def heads(key):
    """Requests whose head is as large as the server takes, and larger."""
    for name, size in (("15 kB", 15_000), ("64 kB", 64_000)):
        yield f"headers of {name}", request(key, "POST", CHARGES, b"{}", more=f"X-Long: {'x' * size}\r\n")
        yield f"{size // 200} headers", request(key, "POST", CHARGES, b"{}", more="".join(
            f"X-Interlock-{number}: {'y' * 170}\r\n" for number in range(size // 200)))
    yield "a query of 2,000 parameters", request(key, "GET", "/v1/charges?" + "&".join(
        f"{number:x}" for number in range(2000)), b"")
    yield "a query of 2,500 escapes", request(key, "GET", "/v1/charges?agent=" + "%41" * 2500, b"")
    yield "a path of 4,000 segments", request(key, "GET", "/v1" + "/a" * 4000, b"")


def bodies(directory, options):
    rows = []
    seconds = options.seconds
    with Server(options.binary, directory / "data") as server, Echo() as echo:
        key = server.keys["hostile"]
        session = server.as_hostile("POST", "/v1/sessions", {"agent": "hostile"})["id"]
        small = request(key, "POST", CHARGES, {"agent": "hostile", "cost": "0.000000001"})
        rows.append(health(server, echo, "no bodies", None, seconds))
        rows.append(health(server, echo, "small charges", small, seconds))
        for name, value in hostile_values(options):
            for path, body in bodies_for(value, session):
                shown = path.replace(session, "{id}")
                message = request(key, "POST", path, body.encode(errors="surrogateescape"),
                                  "application/x-ndjson" if path == IMPORT else "application/json")
                rows.append(health(server, echo, f"{name}, {shown}", message, seconds))
        for name, message in heads(key):
            rows.append(health(server, echo, name, message, seconds))
        rows.append(Row("memory of the server after all bodies", f"{server.rss_mb():.0f} MB"))
    return rows


def health(server, echo, name, message, seconds):
    progress(name)
    senders = [Aside(send_bodies, server.at, message, seconds) for _ in range(HOSTILE_CONNECTIONS if message else 0)]
    probe = Aside(look, server.at, echo.at, seconds)
    times, echoed = probe.result()
    statuses = collections.Counter()
    for sender in senders:
        statuses.update(sender.result())
    worst, beside = times[-1] * 1000, echoed[-1] * 1000
    said = ", ".join(f"{count} × {status}" for status, count in sorted(statuses.items(), key=str))
    return Row(f"/healthz beside {name}", f"{spread(times)}; an echo: max {beside:.1f} ms" + (f"; {said}" if said else ""),
               f"max {HEALTH_GOAL_MS} ms, or 2 × the echo's", worst > HEALTH_GOAL_MS and worst > 2 * beside)


def send_bodies(address, message, seconds):
    """Sends it again and again. A server that refuses early may close before it has read all."""
    until = time.monotonic() + seconds
    statuses = collections.Counter()
    connection = Connection(address)
    while time.monotonic() < until:
        try:
            status, _ = connection.ask(message)
            statuses[status] += 1
        except OSError:
            statuses[read_status(connection)] += 1
            connection.socket.close()
            connection = Connection(address)
    return statuses


def read_status(connection):
    with contextlib.suppress(OSError):
        while (answer := connection.receive()) is None:
            pass
        return answer[0]
    return "closed"


def look(address, echo, seconds):
    """/healthz on four connections in turn, which are on different threads of the server, and the echo as often."""
    connections = [Connection(address) for _ in range(4)]
    other = socket.create_connection(echo)
    message = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    times, echoed = [], []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for connection in connections:
            begun = time.monotonic()
            status, _ = connection.ask(message)
            times.append(time.monotonic() - begun)
            if status != 200:
                raise RuntimeError(f"/healthz: status {status}")
            begun = time.monotonic()
            other.sendall(b"x")
            other.recv(1)
            echoed.append(time.monotonic() - begun)
            time.sleep(0.002)
    return sorted(times), sorted(echoed)


class Echo:
    """A process that does nothing else: it shows how long this machine makes any process wait."""

    def __enter__(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.at = listener.getsockname()
        self.aside = Aside(self.serve, listener)
        listener.close()
        return self

    def __exit__(self, *_):
        self.aside.end()

    @staticmethod
    def serve(listener):
        while True:
            each, _ = listener.accept()
            while data := each.recv(1):
                each.sendall(data)
            each.close()


PARTS = {"rates": rates, "cancels": cancels_part, "budget": budget_part, "bodies": bodies}


if __name__ == "__main__":
    main()
