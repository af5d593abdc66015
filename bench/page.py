#!/usr/bin/python3
"""The page in a real browser, and the reads it is made of. Loopback only.

    ./dev bench-page [--only look|feed|reads]... [--seconds S] [--events N] [--runs N] [--json]

look     a browser that knows nothing yet opens the page: until something is painted, until the screen is there, and how
         much was transferred. The median of nine.
feed     fifty events per second for a minute while Now is open: how busy the page's main thread is, and how many reads
         that made.
reads    each read of the page against a store with a million cost events and a hundred thousand runs: the median and
         the slowest of fifty, as a client sees them, and what /healthz takes from the same client.

A goal that is missed is marked and does not fail the run.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browser import Browser  # noqa: E402
from interlock_server import Server, together  # noqa: E402

LOOKS = 9
ASKED = 50
PER_SECOND = 50
PAINT_MS_MAX, BYTES_MAX, BUSY_MAX, READ_MS_MAX = 300, 100_000, 0.30, 20.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the interlock binary")
    parser.add_argument("--only", action="append", choices=["look", "feed", "reads"])
    parser.add_argument("--seconds", type=int, default=60, help="how long the feed is watched")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    wanted = options.only or ["look", "feed", "reads"]

    found = {}
    with tempfile.TemporaryDirectory() as directory, Server(options.binary, directory, "--simulate-models") as server:
        fill_a_little(server.admin)
        if "look" in wanted or "feed" in wanted:
            with Browser() as browser:
                if "look" in wanted:
                    found["look"] = look(browser, server)
                if "feed" in wanted:
                    found["feed"] = feed(browser, server, options.seconds)
        if "reads" in wanted:
            found["reads"] = reads(server, options.events, options.runs)
        server.verify()
    print(json.dumps(found, indent=2) if options.json else text_of(found))


def fill_a_little(admin):
    for agent in ("reviewer", "writer", "tester"):
        admin.put(f"/v1/agents/{agent}", {"max_concurrent_runs": 5}).ok()
        for _ in range(4):
            admin.post("/v1/runs", {"agent": agent, "lease_s": 600}).ok()
    admin.put("/v1/budgets/day", {"limit": "100000.00", "window": "day"}).ok()


def log_in(page, server):
    page.log_in(server.admin.post("/v1/login").ok()["link"])


def look(browser, server):
    seen = []
    for _ in range(LOOKS):
        with browser.open(f"http://127.0.0.1:{server.port}") as page:
            log_in(page, server)
            seen.append(page.do("""
                const session = await page.context().newCDPSession(page);
                await session.send('Network.enable');
                await session.send('Network.setCacheDisabled', {cacheDisabled: true});
                let bytes = 0;
                session.on('Network.loadingFinished', (event) => { bytes += event.encodedDataLength; });
                await page.goto('about:blank');
                const start = Date.now();
                await page.goto(args.address);
                await page.getByText('Live and queued runs').waitFor();
                await page.locator('main table a').first().waitFor();
                const there = Date.now() - start;
                await wait(1000);
                const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);
                return {bytes, paint, there};
            """, address=page.address))
    return {name: statistics.median(each[name] for each in seen) for name in ("paint", "there", "bytes")}


def feed(browser, server, seconds):
    stop = threading.Event()

    def happen():
        next_at = time.monotonic()
        while not stop.is_set():
            charges = [{"agent": "reviewer", "cost": "0.00001"}] * (PER_SECOND // 10)
            server.admin.post("/v1/charges", charges).ok()
            next_at += 0.1
            time.sleep(max(0, next_at - time.monotonic()))

    with browser.open(f"http://127.0.0.1:{server.port}") as page:
        log_in(page, server)
        page.do("await page.getByText('Live and queued runs').waitFor(); await wait(1000)")
        before = server.admin.get("/v1/events", limit=1).ok()["head"]
        thread = threading.Thread(target=happen)
        thread.start()
        try:
            busy = page.do("""
                const session = await page.context().newCDPSession(page);
                await session.send('Performance.enable');
                const metric = async (name) => (await session.send('Performance.getMetrics')).metrics.find((m) => m.name === name).value;
                let reads = 0;
                page.on('request', () => { reads += 1; });
                const [task, at] = [await metric('TaskDuration'), await metric('Timestamp')];
                await wait(args.ms);
                return {busy: (await metric('TaskDuration') - task) / (await metric('Timestamp') - at), reads};
            """, ms=seconds * 1000)
        finally:
            stop.set()
            thread.join()
        events = server.admin.get("/v1/events", limit=1).ok()["head"] - before
    return {"busy": busy["busy"], "reads_per_second": busy["reads"] / seconds, "events": events}


def reads(server, events, runs):
    admin = server.admin
    session = admin.post("/v1/sessions", {"agent": "reviewer", "title": "long"}).ok()["id"]
    for i in range(events // 1000):
        agent = ("reviewer", "writer", "tester")[i % 3]
        admin.post("/v1/charges", [{"agent": agent, "cost": "0.00001", "model": f"m{i % 7}"}] * 1000).ok()

    def make_runs(_):
        for _ in range(runs // 8):
            run = admin.post("/v1/runs", {"agent": "writer", "on_conflict": "queue"}).ok()
            admin.post(f"/v1/runs/{run['id']}/cancel", {"reason": "made to be counted"}).ok()

    together(8, make_runs, seconds=3600)
    some = admin.get("/v1/runs", limit=1).ok()["items"][0]["id"]
    today = time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime())
    paths = ["/v1/status", "/v1/incidents", "/v1/runs?limit=500", "/v1/runs?status=failed&limit=100",
             "/v1/runs?agent=writer&status=failed&limit=100", "/v1/runs?schedule=nightly&limit=100",
             "/v1/runs?name=release&limit=100", "/v1/holds?status=open",
             "/v1/runs?status=running,starting,paused,queued&limit=50", "/v1/runs?agent=tester&limit=100", f"/v1/runs/{some}",
             f"/v1/runs/{some}/steps", f"/v1/calls?run={some}", "/v1/calls?refused=true&limit=50", "/v1/calls?limit=100",
             "/v1/budgets?limit=500", "/v1/budgets/day/line", "/v1/budgets/day/windows", "/v1/spend/minutes?minutes=60",
             f"/v1/spend?from={today[:10]}", f"/v1/spend?by=agent&from={today[:10]}", "/v1/sessions?limit=100",
             "/v1/sessions?q=long", f"/v1/sessions/{session}/tree", f"/v1/sessions/{session}/messages?limit=100",
             "/v1/agents?limit=500", "/v1/schedules", f"/v1/ticks?from={today}", "/v1/gateway/upstreams",
             "/v1/gateway/models", "/v1/prices/unpriced", "/v1/places", "/v1/worktrees", "/v1/nodes", "/v1/verify/last",
             "/v1/doctor", "/v1/keys", "/v1/caps", "/healthz"]
    took = {}
    for path in paths:
        times = []
        for _ in range(ASKED):
            start = time.perf_counter()
            reply = admin.request("GET", path)
            times.append((time.perf_counter() - start) * 1000)
            assert reply.status == 200, reply
        took[path.replace(some, "RUN").replace(session, "SESSION")] = {"median_ms": statistics.median(times), "max_ms": max(times)}
    return took


def mark(value, limit):
    return "" if value <= limit else f"  MISSED (goal {limit:g})"


def text_of(found):
    lines = []
    if seen := found.get("look"):
        lines += [f"first paint                {seen['paint']:8.0f} ms{mark(seen['paint'], PAINT_MS_MAX)}",
                  f"the screen is there        {seen['there']:8.0f} ms",
                  f"transferred                {seen['bytes'] / 1000:8.1f} kB{mark(seen['bytes'], BYTES_MAX)}"]
    if seen := found.get("feed"):
        lines += [f"main thread, {seen['events']:5d} events  {seen['busy'] * 100:8.1f} %{mark(seen['busy'], BUSY_MAX)}",
                  f"reads per second           {seen['reads_per_second']:8.1f}"]
    for path, times in found.get("reads", {}).items():
        lines.append(f"{path:60} {times['median_ms']:7.2f} ms, at most {times['max_ms']:7.2f}{mark(times['median_ms'], READ_MS_MAX)}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
