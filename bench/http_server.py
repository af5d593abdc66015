#!/usr/bin/python3
"""The server over HTTP, beside nginx and beside the transaction a user would write on PostgreSQL. Loopback only.

    ./dev bench-http [--seconds S] [--rounds N] [--only charges|batches|start|followers|postgres] [--json]

Rates are taken in turns within one run, so read the ratios. A goal that is missed is marked and does not fail the run.
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from nodes import STATEMENTS, TABLES, Postgres

TICKS = os.sysconf("SC_CLK_TCK")
CONNECTIONS = 64
FOLLOWERS = 10_000
EVENTS = 1_000_000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the interlock binary")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=["charges", "batches", "start", "followers", "postgres"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    wanted = options.only or ["charges", "batches", "start", "followers", "postgres"]

    results = {}
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=".") as where:
        where = pathlib.Path(where).resolve()
        with Interlock(options.binary, where / "data") as server:
            server.put("/v1/agents/bench", {})
            if "charges" in wanted:
                with Nginx(where / "nginx", os.cpu_count(), answering) as nginx:
                    results |= charges(server, nginx, options)
            if "batches" in wanted:
                results |= batches(server, options)
            if "followers" in wanted:
                results |= followers(server)
            if "start" in wanted:
                results |= start(server)
        if "postgres" in wanted:
            results |= postgres(options)
    if "charges_per_s" in results and "postgres_16_per_s" in results:
        results["charges_by_postgres_16"] = results["charges_per_s"] / results["postgres_16_per_s"]
    report(results, GOALS, options.json)


GOALS = {  # name: (at least, at most)
    "charges_by_nginx": (0.4, None),
    "charge_p99_ms": (None, 5),
    "charge_cpu_us": (None, 40),
    "batched_by_in_process": (0.3, None),
    "rss_mb_after_1m_charges": (None, 100),
    "followers_all_heard_s": (None, 1),
    "ready_ms_1m_events": (None, 300),
    "ready_ms_after_kill_9": (None, 1000),
}


def report(results, goals, as_json):
    if as_json:
        print(json.dumps(results, indent=1))
        return
    for name, value in results.items():
        low, high = goals.get(name, (None, None))
        missed = (low is not None and value < low) or (high is not None and value > high)
        goal = f"  (goal: at least {low})" if low is not None else f"  (goal: at most {high})" if high is not None else ""
        print(f"{'MISS' if missed else '    '} {name:<28} {value:>14,.2f}{goal}")


# ---- one charge per request, and a hundred ------------------------------------------------------------------------

CHARGE = {"agent": "bench", "provider": "anthropic", "model": "claude-sonnet-4-5",
          "usage": {"input_tokens": 100, "output_tokens": 30}, "cost": "0.000000001"}


def charges(server, nginx, options):
    ours, theirs = [], []
    for _ in range(options.rounds):
        theirs.append(wrk(nginx, nginx.url + "/answer", CHARGE, {}, options.seconds))
        ours.append(wrk(server, server.url + "/v1/charges", CHARGE, bearer(server.key), options.seconds))
    best, peer = max(ours, key=rate_of), max(theirs, key=rate_of)
    return {"nginx_per_s": peer["rate"], "nginx_cpu_us": peer["cpu_us"], "charges_per_s": best["rate"],
            "charges_by_nginx": best["rate"] / peer["rate"], "charge_p50_ms": best["p50"], "charge_p99_ms": best["p99"],
            "charge_cpu_us": min(each["cpu_us"] for each in ours)}


def batches(server, options):
    best = max((wrk(server, server.url + "/v1/charges", [CHARGE] * 100, bearer(server.key), options.seconds)
                for _ in range(options.rounds)), key=rate_of)
    rate = best["rate"] * 100
    bench = pathlib.Path(server.binary).parent / "bench_main"
    out = subprocess.run([bench, "--only", "charge", "--clients", "256", "--seconds", str(options.seconds), "--rounds", "1",
                          "--alone", "--json"], capture_output=True, text=True, check=True).stdout
    in_process = max(row["rate"] for row in json.loads(out)["rows"] if not row["peer"])
    charge_until(server, EVENTS)
    return {"batched_charges_per_s": rate, "in_process_per_s": in_process, "batched_by_in_process": rate / in_process,
            "rss_mb_after_1m_charges": server.rss_mb()}


def charge_until(server, events):
    body = [CHARGE] * 10_000
    while server.get("/v1/agents/bench")["events"] < events:
        server.post("/v1/charges", body)


def rate_of(measured):
    return measured["rate"]


def answering(port):
    """Every request with a JSON of the size of a charge's answer."""
    answer = json.dumps({"status": "charged", "key": "key_01jcq3w8y5e9m8t2k4x6v0a1bc", "seq": 1234567,
                         "cost": "0.000000001", "overage": "0.00", "repeated": False}, separators=(",", ":"))
    return f"server {{ listen 127.0.0.1:{port}; location /answer {{ default_type application/json; return 200 '{answer}'; }} }}"


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def wrk(server, url, body, headers, seconds, connections=CONNECTIONS, pause_ms=None):
    """Each connection asks again as soon as it has an answer, or after a pause of 0 to 2 × pause_ms."""
    script = pathlib.Path(tempfile.mkstemp(suffix=".lua")[1])
    script.write_text(f"wrk.method = 'POST'\nwrk.body = [==[{json.dumps(body)}]==]\n"
                      + "".join(f"wrk.headers['{name}'] = '{value}'\n"
                                for name, value in ({"Content-Type": "application/json"} | headers).items())
                      + (f"function delay() return math.random(0, {2 * pause_ms}) end\n" if pause_ms else ""))
    before = server.cpu_s()
    out = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "10s", "--latency",
                          "-s", script, url], capture_output=True, text=True, check=True).stdout
    cpu = server.cpu_s() - before
    script.unlink()
    if "Non-2xx" in out or "Socket errors" in out:
        sys.exit(f"bench: {url} refused requests or broke off:\n{out}")
    requests = int(re.search(r"(\d+) requests in", out)[1])
    if requests == 0:  # Something else had the processors all the time.
        return wrk(server, url, body, headers, 2 * seconds, connections, pause_ms)
    return {"rate": float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]), "cpu_us": cpu * 1e6 / requests,
            "p50": milliseconds(re.search(r"\n\s+50%\s+(\S+)", out)[1]), "p99": milliseconds(re.search(r"\n\s+99%\s+(\S+)", out)[1]),
            "requests": requests}


def milliseconds(text):
    number, unit = re.match(r"([\d.]+)(\w+)", text).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


# ---- many who follow ----------------------------------------------------------------------------------------------

def followers(server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, FOLLOWERS + 200), hard))
    request = (f"GET /v1/events HTTP/1.1\r\nHost: {server.host}\r\nAuthorization: Bearer {server.key}\r\n"
               "Accept: text/event-stream\r\n\r\n").encode()
    poll = select.epoll()
    sockets = {}
    for _ in range(FOLLOWERS):
        each = socket.create_connection((server.address, server.port))
        each.sendall(request)
        sockets[each.fileno()] = each
        poll.register(each, select.EPOLLIN)
    began = listen(poll, sockets, b": following")
    if len(began) < FOLLOWERS:
        sys.exit(f"bench: only {len(began)} of {FOLLOWERS} followers were let in")
    at = time.monotonic()
    server.post("/v1/charges", CHARGE)
    heard = listen(poll, sockets, b"event: charged")
    took = time.monotonic() - at
    rss = server.rss_mb()
    for each in sockets.values():
        each.close()
    if len(heard) < FOLLOWERS:
        sys.exit(f"bench: only {len(heard)} of {FOLLOWERS} followers heard of the charge")
    return {"followers": FOLLOWERS, "followers_all_heard_s": took, "rss_mb_with_followers": rss}


def listen(poll, sockets, wanted, seconds=30):
    heard, got = set(), {}
    until = time.monotonic() + seconds
    while len(heard) < len(sockets) and time.monotonic() < until:
        for number, _ in poll.poll(1):
            data = sockets[number].recv(65536)
            if not data:
                sys.exit("bench: a follower was cut off")
            got[number] = got.get(number, b"") + data
            if wanted in got[number]:
                heard.add(number)
    return heard


# ---- starting -----------------------------------------------------------------------------------------------------

def make_admin_key(binary, data):
    of_older_version = pathlib.Path(data, "admin.key")
    if of_older_version.exists():
        return of_older_version.read_text().strip()
    return subprocess.run([binary, "keys", "create", "--scope", "admin", "--data-dir", data, "--quiet"], check=True,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout.strip()


def start(server):
    charge_until(server, EVENTS)
    server.stop(signal.SIGTERM)
    orderly = server.start()
    server.stop(signal.SIGKILL)
    killed = server.start()
    return {"ready_ms_1m_events": orderly * 1000, "ready_ms_after_kill_9": killed * 1000}


# ---- the peers ----------------------------------------------------------------------------------------------------

class Interlock:
    def __init__(self, binary, data, *arguments, prefix=()):
        self.binary, self.data, self.arguments, self.prefix, self.process = binary, data, arguments, prefix, None
        self.address, self.port = "127.0.0.1", free_port()
        self.host = f"{self.address}:{self.port}"
        self.url = f"http://{self.host}"

    def __enter__(self):
        self.start()
        self.key = make_admin_key(self.binary, self.data)
        return self

    def __exit__(self, *_):
        self.stop(signal.SIGTERM)

    def start(self):
        begun = time.monotonic()
        self.process = subprocess.Popen([*self.prefix, self.binary, "up", "--data-dir", self.data, "--listen",
                                         self.host, "--log-level", "warn", *self.arguments], stdout=subprocess.DEVNULL)
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection(self.address, self.port, timeout=5)
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return time.monotonic() - begun
            if self.process.poll() is not None or time.monotonic() - begun > 60:
                sys.exit("bench: the server did not start")
            time.sleep(0.002)

    def stop(self, how):
        self.process.send_signal(how)
        self.process.wait(60)

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.address, self.port, timeout=60)
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            sys.exit(f"bench: {method} {path}: {text.decode()}")
        return json.loads(text or "null")

    def get(self, path):
        return self.request("GET", path)

    def put(self, path, body):
        return self.request("PUT", path, body)

    def post(self, path, body):
        return self.request("POST", path, body)

    def cpu_s(self):
        return cpu_of(self.process.pid)

    def rss_mb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


class Nginx:
    """`servers` says, for a free port, what there is inside of http { }."""

    def __init__(self, where, workers, servers):
        self.where, self.workers, self.servers, self.port = where, workers, servers, free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self.where.mkdir()
        (self.where / "nginx.conf").write_text(f"""
            worker_processes {self.workers}; daemon off; pid {self.where}/pid; error_log {self.where}/error.log;
            events {{ worker_connections 4096; }}
            http {{ access_log off; keepalive_requests 100000000;
                client_body_temp_path {self.where}/body; proxy_temp_path {self.where}/proxy;
                fastcgi_temp_path {self.where}/fastcgi; uwsgi_temp_path {self.where}/uwsgi; scgi_temp_path {self.where}/scgi;
                {self.servers(self.port)} }}""")
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        self.process = subprocess.Popen([program, "-p", self.where, "-c", self.where / "nginx.conf", "-e", self.where / "error.log"])
        wait_for_port(self.port)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)

    def cpu_s(self):
        workers = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout.split()
        return sum(cpu_of(int(worker)) for worker in workers)


def postgres(options):
    """Three statements in one transaction per charge, on one hot row: what one would write without Interlock."""
    rates = {}
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as scratch, Postgres() as server:
        script = pathlib.Path(scratch) / "charge.sql"
        script.parent.chmod(0o755)
        script.write_text(STATEMENTS)
        server.sql(TABLES)
        for clients in (16, 64):
            out = server.run("pgbench", "-h", "127.0.0.1", "-p", server.port, "-n", "-f", script, "-c", clients, "-j", 2, "-T",
                             max(1, round(options.seconds)), "postgres")
            rates[f"postgres_{clients}_per_s"] = float(re.search(r"tps = ([\d.]+)", out)[1])
    return rates


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port):
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.02)
    sys.exit(f"bench: nothing listens on port {port}")


if __name__ == "__main__":
    main()
