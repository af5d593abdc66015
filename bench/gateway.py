#!/usr/bin/python3
"""The gateway beside nginx and beside Portkey's, in front of one provider that answers at once. Loopback only.

    ./dev bench-gateway [--seconds S] [--rounds N] [--kind json|stream|burst]... [--load full|few|paced]...
                        [--only nginx|agent|budget|portkey|memory|hostile]... [--json]
    bench/gateway.py BINARY --smoke

The provider is an nginx that says the same each time: one JSON, or a stream of 22 events (the last but one is the usage)
that are written one by one (stream) or all at once (burst). In front of it, one after the other, with the same request
of 1.2 kB from the same wrk:

    direct    nothing
    nginx     proxy_pass over connections that are kept, without buffers for streams
    agent     Interlock, for an agent without a budget
    budget    Interlock, for an agent with a hard budget: each call is held, settled and on disk
    portkey   Portkey's gateway, from npm

Rates are taken from 64 and from 8 connections that ask without a pause; latencies also from 64 that ask a thousand times
per second all together. CPU is the processor time of all processes of what stands in front, by request. Everybody takes
turns within each round. Then: the memory of the server with 2,000 slow streams, and how long /healthz takes while four
clients send nothing but bodies of 20 MB that are made to be slow to read.

What is measured is checked: an answer of each kind from each is read whole, and what an agent has spent is, to the
nano-dollar, what the answered requests cost. A goal that is missed is marked and does not fail the run; the latencies'
goals are for a machine with nothing else to do, and how much else it did is one of the numbers.
"""

import argparse
import asyncio
import contextlib
import http.client
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from decimal import Decimal

from http_server import CONNECTIONS, Interlock, Nginx, bearer, cpu_of, free_port, report, wait_for_port, wrk

ROOT = pathlib.Path(__file__).resolve().parent.parent
EVENTS = 22
FEW = 8
PAUSE_MS = 64  # Of 64 connections: a thousand requests per second.
PORTKEY = {"@portkey-ai/gateway": "1.15.2", "@hono/node-server": "1.13.5"}  # With a later one its streams break.
KINDS = {"json": "gpt-4o-mini", "stream": "gpt-4.1-mini", "burst": "gpt-4.1-nano"}  # Interlock finds the kind by the model.
FRONTS = ["nginx", "agent", "budget", "portkey"]
LOADS = {"full": {}, "few": {"connections": FEW}, "paced": {"pause_ms": PAUSE_MS}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the interlock binary")
    parser.add_argument("--seconds", type=float, default=3, help="for each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--load", action="append", choices=LOADS)
    parser.add_argument("--only", action="append", choices=[*FRONTS, "memory", "hostile"])
    parser.add_argument("--streams", type=int, default=2_000, help="for the memory")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="a little of everything but Portkey, which is not on every machine")
    options = parser.parse_args()
    if options.smoke:
        options.seconds, options.rounds, options.streams = 1, 1, 50
        options.only = options.only or [*FRONTS[:-1], "memory", "hostile"]
    options.kind, options.load = options.kind or list(KINDS), options.load or list(LOADS)
    # Asked to end, it takes along what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended by a signal"))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # Two for each stream in the server; children inherit it.

    wanted = options.only or [*FRONTS, "memory", "hostile"]
    results = {}
    # Beside the sources and not in /tmp, which may be in memory, where a commit costs nothing.
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=".") as where:
        where = pathlib.Path(where).resolve()
        if set(wanted) & set(FRONTS):
            with fronts_of(wanted, options, where) as fronts:
                results |= rounds(fronts, options)
        if "memory" in wanted:
            results |= memory(options, where)
        if "hostile" in wanted:
            results |= hostile(options, where)
    report(results, GOALS, options.json)
    wrong = [name for name, value in results.items() if not math.isfinite(value)]
    if wrong:
        sys.exit(f"bench: numbers that did not come out: {', '.join(wrong)}")


GOALS = {  # name: (at least, at most)
    **{f"{kind}_budget_cpu_by_nginx": (None, 3) for kind in KINDS},
    **{f"{kind}_portkey_cpu_by_budget": (15, None) for kind in KINDS},
    **{f"{kind}_budget_paced_added_p50_ms": (None, 0.5) for kind in KINDS},
    **{f"{kind}_budget_paced_added_p99_ms": (None, 3) for kind in KINDS},
    "rss_mb_with_streams": (None, 300),
    "hostile_healthz_p99_ms": (None, 50),
}


@contextlib.contextmanager
def fronts_of(wanted, options, where):
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(Provider(where / "provider"))
        fronts = [Direct(provider)]
        if "nginx" in wanted:
            fronts.append(stack.enter_context(Proxy(where / "proxy", provider)))
        agents = [name for name in ("agent", "budget") if name in wanted]
        if agents:
            server = stack.enter_context(Interlock(options.binary, where / "data"))
            for kind, model in KINDS.items():
                server.put(f"/v1/upstreams/{kind}", {"dialect": "openai", "url": f"{provider.url}/{kind}", "models": [model],
                                                     "provider": "openai"})
            fronts += [Agent(server, name) for name in agents]
        if "portkey" in wanted:
            fronts.append(stack.enter_context(Portkey(provider, where / "portkey.log")))
        yield fronts


# ---- rounds -------------------------------------------------------------------------------------------------------

def rounds(fronts, options):
    for front in fronts:
        for kind in options.kind:
            front.check(kind, [ask_once(front, kind) for _ in range(20)])
            measure(front, kind, "full", 2, fronts[0])  # Caches, pools and compilers get warm.
    found = {}
    for _ in range(options.rounds):
        for kind in options.kind:
            for load in options.load:
                for front in fronts:
                    found.setdefault((kind, load, front.name), []).append(
                        measure(front, kind, load, options.seconds, fronts[0]))
    others = [each["others_percent"] for rows in found.values() for each in rows]
    results = {"others_cpu_percent_median": statistics.median(others), "others_cpu_percent_max": max(others)}
    for kind in options.kind:
        if not options.json:
            print_table(kind, found, [front.name for front in fronts], options)
        results |= summary(kind, found, options)
    return results


def measure(front, kind, load, seconds, direct):
    def ours_s():
        wrks = resource.getrusage(resource.RUSAGE_CHILDREN)
        return wrks.ru_utime + wrks.ru_stime + direct.cpu_s() + (front.cpu_s() if front is not direct else 0)

    busy, total, ours = *machine_s(), ours_s()
    measured = wrk(front, front.target(kind), request_of(kind), front.headers(kind), seconds, **LOADS[load])
    busy_after, total_after, ours_after = *machine_s(), ours_s()
    front.settled(kind, measured)
    others = max(0, (busy_after - busy) - (ours_after - ours))
    return measured | {"others_percent": others / (total_after - total) * 100}


def machine_s():
    """What all processors have done since they began, and how long that is ago, in seconds of one processor."""
    times = [int(ticks) for ticks in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    idle = times[3] + times[4]
    return (sum(times) - idle) / os.sysconf("SC_CLK_TCK"), sum(times) / os.sysconf("SC_CLK_TCK")


def summary(kind, found, options):
    """Of CPU the least of all rounds, because whatever else a machine does adds to it; of latencies the median round."""
    results = {}

    def tell(name, load, one, other, how):
        ones, others = found.get((kind, load, one)), found.get((kind, load, other))
        if ones and others:
            results[f"{kind}_{name}"] = how(ones, others)

    def cpu_ratio(ones, others):
        return min(each["cpu_us"] for each in ones) / min(each["cpu_us"] for each in others)

    def added(of):
        return lambda ones, others: statistics.median(each[of] - its[of] for each, its in zip(ones, others))

    for load in options.load:
        suffix = "" if load == "full" else f"{load}_"
        for one, other in (("agent", "nginx"), ("budget", "nginx"), ("portkey", "nginx"), ("portkey", "budget")):
            tell(f"{one}_{suffix}cpu_by_{other}", load, one, other, cpu_ratio)
    for of, name in itertools.product(("p50", "p99"), FRONTS):
        tell(f"{name}_paced_added_{of}_ms", "paced", name, "direct", added(of))
    return results


def print_table(kind, found, names, options):
    for load in options.load:
        print(f"{kind}, {load}: {'requests/s':>17} {'CPU us/request':>15} {'(from - to)':>18} {'p50 ms':>9} {'p99 ms':>9}")
        for name in names:
            rows = found[kind, load, name]
            middle = {of: statistics.median(row[of] for row in rows) for of in rows[0]}
            between = f"{min(row['cpu_us'] for row in rows):.1f} - {max(row['cpu_us'] for row in rows):.1f}"
            print(f"    {name:<12} {middle['rate']:>14,.0f} {middle['cpu_us']:>15.1f} {between:>18} {middle['p50']:>9.2f} "
                  f"{middle['p99']:>9.2f}")


# ---- one request and its answer -----------------------------------------------------------------------------------

def request_of(kind):
    """As clients send it that do not ask for the usage of a stream: 1.2 kB."""
    ask = {"model": KINDS[kind], "max_tokens": 256, "temperature": 0.2, "messages": [
        {"role": "system", "content": "You answer questions about invoices, in one paragraph, and you never guess. " * 6},
        {"role": "user", "content": "Which of the invoices of last month have not been paid, and who should be asked? " * 6}]}
    return ask | ({} if kind == "json" else {"stream": True})


def whole_answer():
    return {"id": "chatcmpl-Bk2kq3w8y5e9m8t2k4x6v0a1bcdef", "object": "chat.completion", "created": 1763251200,
            "model": "gpt-4o-mini-2024-07-18", "system_fingerprint": "fp_560af6e559", "service_tier": "default",
            "choices": [{"index": 0, "logprobs": None, "finish_reason": "stop", "message": {
                "role": "assistant", "refusal": None, "annotations": [],
                "content": "Three invoices of last month have not been paid; ask those who ordered. " * 4}}],
            "usage": usage()}


def usage():
    return {"prompt_tokens": 231, "completion_tokens": 72, "total_tokens": 303,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0,
                                          "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}}


def events():
    """22: the role, 18 pieces, the end, the usage, and [DONE]."""
    def event(choices, its_usage=None):
        return "data: " + json.dumps({"id": "chatcmpl-Bk2kq3w8y5e9m8t2k4x6v0a1bcdef", "object": "chat.completion.chunk",
                                      "created": 1763251200, "model": "gpt-4.1-mini-2025-04-14", "service_tier": "default",
                                      "system_fingerprint": "fp_560af6e559", "choices": choices, "usage": its_usage},
                                     separators=(",", ":"))

    def choice(delta, finish=None):
        return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]

    pieces = [choice({"content": f" piece {number} of it"}) for number in range(EVENTS - 4)]
    return [event(choice({"role": "assistant", "content": "", "refusal": None})), *map(event, pieces),
            event(choice({}, "stop")), event([], usage()), "data: [DONE]"]


def ask_once(front, kind):
    host, path = re.fullmatch(r"http://([^/]+)(/.*)", front.target(kind)).groups()
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request("POST", path, json.dumps(request_of(kind)), {"Content-Type": "application/json"} | front.headers(kind))
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    if answer.status != 200:
        sys.exit(f"bench: {front.name} answered {answer.status}: {body}")
    return body


class Front:
    """What stands in front of the provider, or nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def target(self, kind):
        return f"{self.url}/{kind}/v1/chat/completions"

    def headers(self, _):
        return {"Authorization": "Bearer sk-of-nobody"}

    def events_shown(self):
        return EVENTS

    def settled(self, kind, measured):
        """Called after each measurement."""

    def check(self, kind, bodies):
        for body in bodies:
            if kind == "json":
                right = json.loads(body)["usage"]["total_tokens"] == usage()["total_tokens"]
            else:
                shown = [event for event in body.split("\n\n") if event]
                right = (len(shown) == self.events_shown() and body.count("data: [DONE]") == 1
                         and all(f" piece {number} of it" in shown[number + 1] for number in range(EVENTS - 4)))
            if not right:
                sys.exit(f"bench: the answer from {self.name} is not whole:\n{body}")


# ---- the provider and those in front of it ------------------------------------------------------------------------

class Provider(Nginx):
    """/KIND/v1/chat/completions. A stream is put together of subrequests, each of which is a chunk and a write."""

    def __init__(self, where):
        super().__init__(where, 1, self.conf)

    def conf(self, port):
        includes = "".join(f'<!--#include virtual="/event/{number}" -->' for number in range(EVENTS))
        single = "".join(f"location = /event/{number} {{ internal; default_type text/event-stream; return 200 '{event}\\n\\n'; }}\n"
                         for number, event in enumerate(events()))
        streams = "".join(f"location /{kind}/ {{ ssi on; ssi_types text/event-stream; postpone_output {postponed};"
                          f" default_type text/event-stream; return 200 '{includes}'; }}\n"
                          for kind, postponed in (("stream", 0), ("burst", "1m")))
        return (f"server {{ listen 127.0.0.1:{port}; {single} {streams}"
                f"location /json/ {{ default_type application/json; return 200 '{json.dumps(whole_answer())}'; }} }}")


class Direct(Front):
    name = "direct"

    def __init__(self, provider):
        self.url, self.cpu_s = provider.url, provider.cpu_s


class Proxy(Nginx, Front):
    name = "nginx"

    def __init__(self, where, provider):
        super().__init__(where, os.cpu_count(), lambda port: f"""
            upstream provider {{ server 127.0.0.1:{provider.port}; keepalive 256; keepalive_requests 100000000; }}
            server {{ listen 127.0.0.1:{port}; proxy_http_version 1.1; proxy_set_header Connection "";
                location / {{ proxy_pass http://provider; proxy_buffering off; }}
                location /json/ {{ proxy_pass http://provider; }} }}""")


class Agent(Front):
    """Interlock, as one agent sees it."""

    def __init__(self, server, name):
        self.server, self.name, self.url, self.cpu_s = server, name, server.url, server.cpu_s
        server.put(f"/v1/agents/{name}", {})
        if name == "budget":
            server.put(f"/v1/budgets/{name}", {"scope": {"agent": name}, "limit": "1000000.00"})
        self.key = server.post("/v1/keys", {"scopes": ["agent"], "agent": name})["key"]
        self.spent, self.costs = Decimal(0), {}

    def target(self, _):
        return f"{self.url}/v1/chat/completions"

    def headers(self, _):
        return bearer(self.key)

    def events_shown(self):
        return EVENTS - 1  # The request did not ask for the usage.

    def check(self, kind, bodies):
        super().check(kind, bodies)
        self.costs[kind] = self.newly_spent() / len(bodies)

    def settled(self, kind, measured):
        """What was paid since the last time is what the answers cost, and those to requests that wrk ended amid."""
        calls = self.newly_spent() / self.costs[kind]
        if calls != int(calls) or not 0 <= calls - measured["requests"] <= CONNECTIONS:
            sys.exit(f"bench: {self.name} has answered {measured['requests']} requests of kind {kind} and paid {calls}")

    def newly_spent(self):
        before, self.spent = self.spent, self.spent_at_rest()
        return self.spent - before

    def spent_at_rest(self):
        """Calls whose client has gone are still under way for a moment."""
        spent, seen = None, None
        while spent is None or spent != seen:
            spent, seen = seen, Decimal(self.server.get(f"/v1/agents/{self.name}")["spent"])
            time.sleep(0.2)
        if self.name == "budget":
            budget = self.server.get(f"/v1/budgets/{self.name}")
            if budget["open_holds"] or Decimal(budget["settled"]) != spent:
                sys.exit(f"bench: {spent} was spent, and the budget says: {budget}")
        return spent


class Portkey(Front):
    name = "portkey"

    def __init__(self, provider, log):
        self.provider, self.log, self.port = provider, log, free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        where = ROOT / "build" / "portkey"
        program = where / "node_modules/@portkey-ai/gateway/build/start-server.js"
        if not program.exists():
            where.mkdir(parents=True, exist_ok=True)
            (where / "package.json").write_text(json.dumps({"private": True, "dependencies": PORTKEY, "overrides": PORTKEY}))
            subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"],
                           cwd=where, check=True)
        # What it says about streams that fail or that wrk ends amid is long, and not for the screen.
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["node", program, f"--port={self.port}", "--headless"], stdout=log, stderr=log,
                                            env=os.environ | {"NODE_ENV": "production"})
        wait_for_port(self.port)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)

    def cpu_s(self):
        return cpu_of(self.process.pid)

    def target(self, _):
        return f"{self.url}/v1/chat/completions"

    def headers(self, kind):
        return super().headers(kind) | {"x-portkey-provider": "openai",
                                        "x-portkey-custom-host": f"{self.provider.url}/{kind}/v1"}


# ---- many slow streams --------------------------------------------------------------------------------------------

def memory(options, where):
    """A stream has a piece each second; all are there at once for most of the time."""
    with Simulated(options.binary) as provider, Interlock(options.binary, where / "memory") as server:
        server.put("/v1/upstreams/simulated", {"dialect": "openai", "url": provider.url, "provider": "openai"})
        agent = Agent(server, "budget")
        ask_once(agent, "json")
        idle = server.rss_mb()
        most, whole = asyncio.run(slow_streams(agent, options.streams))
        if whole != options.streams:
            sys.exit(f"bench: {whole} of {options.streams} slow streams came to their end")
        agent.spent_at_rest()
    return {"slow_streams": options.streams, "rss_mb_without_streams": idle, "rss_mb_with_streams": most}


async def slow_streams(agent, count):
    seconds = max(15, count // 50)
    words = f"Take your time. [[sim output={2 * seconds} chunks={seconds} chunk_delay_ms=1000]]"
    body = json.dumps(request_of("stream") | {"messages": [{"role": "user", "content": words}]})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{agent.server.port}\r\nContent-Type: application/json\r\n"
    request = (head + f"Authorization: Bearer {agent.key}\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()
    under_way = 0

    async def one():
        nonlocal under_way
        reader, writer = await asyncio.open_connection("127.0.0.1", agent.server.port)
        writer.write(request)
        await reader.readuntil(b"\n\n")
        under_way += 1
        rest = await reader.readuntil(b"\r\n0\r\n\r\n")
        under_way -= 1
        writer.close()
        return b"data: [DONE]" in rest

    streams = []
    for number in range(count):
        streams.append(asyncio.create_task(one()))
        if number % 20 == 0:
            await asyncio.sleep(0.02)
    most, together = 0, 0
    while not all(stream.done() for stream in streams):
        most, together = max(most, agent.server.rss_mb()), max(together, under_way)
        await asyncio.sleep(0.5)
    if together != count:
        sys.exit(f"bench: only {together} of {count} slow streams were under way at once")
    return most, sum(stream.result() for stream in streams)


# ---- bodies that are made to be slow --------------------------------------------------------------------------------

def hostile(options, where):
    """What a client waits for /healthz, alone and beside four others that send hostile bodies without a pause."""
    with Simulated(options.binary) as provider, Interlock(options.binary, where / "hostile") as server:
        server.put("/v1/upstreams/simulated", {"dialect": "openai", "url": provider.url, "provider": "openai"})
        agent = Agent(server, "budget")
        before = healthz_ms(server, options.seconds)
        stop = multiprocessing.Event()
        count = multiprocessing.Value("i", 0)
        attackers = [multiprocessing.Process(target=attack, args=(server.port, agent.key, stop, count)) for _ in range(4)]
        for attacker in attackers:
            attacker.start()
        while count.value == 0:
            time.sleep(0.05)
        beside = healthz_ms(server, max(3, 2 * options.seconds))
        stop.set()
        for attacker in attackers:
            attacker.join()
    return {"hostile_bodies": count.value, "healthz_p99_ms": before[-len(before) // 100 - 1],
            "hostile_healthz_p50_ms": statistics.median(beside),
            "hostile_healthz_p99_ms": beside[-len(beside) // 100 - 1], "hostile_healthz_max_ms": beside[-1]}


def healthz_ms(server, seconds):
    connection = http.client.HTTPConnection(server.address, server.port, timeout=60)
    taken, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.monotonic()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        taken.append((time.monotonic() - begun) * 1000)
        time.sleep(0.01)
    return sorted(taken)


def attack(port, key, stop, count):
    """As many members as an object may have, in very many objects."""
    one = '{"role":"user","x":{%s}}' % ",".join(f'"{number}":[{{}}]' for number in range(4000))
    body = '{"model":"gpt-4o-mini","max_tokens":5,"messages":[%s]' % ",".join([one] * 380)  # It does not end.
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    while not stop.is_set():
        connection.request("POST", "/v1/chat/completions", body, {"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        answer.read()
        if answer.status not in (400, 503):
            sys.exit(f"bench: a hostile body got {answer.status}")
        with count.get_lock():
            count.value += 1


class Simulated:
    def __init__(self, binary):
        self.process = subprocess.Popen([binary, "simulate-upstream", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)


if __name__ == "__main__":
    main()
