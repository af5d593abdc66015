"""Real runs on a real server, as tests use them, and a look at the machine from outside."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

from interlock_server import eventually, fresh

ENDED = ("succeeded", "failed", "cancelled", "timed_out", "lost")


def processes_of(run):
    """Every process that was started for this run and has not ended, found by its environment alone."""
    mark = f"INTERLOCK_RUN={run}".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                    found.append(int(entry.name))
    return found


def shims_of(data):
    """run: pid, of every shim that works for this data directory."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"interlock-shim") and words[1] == os.fsencode(str(data)):
                found[words[2].decode()] = int(entry.name)
    return found


class Runs:
    """The runs of one server."""

    def __init__(self, server):
        self.server = server
        self.admin = server.admin
        self.data = server.data
        # More than the machine's default, which is small on purpose.
        self.node = self.admin.get("/v1/nodes").ok()["items"][0]["name"]

    def cap(self, count):
        caps = self.admin.get("/v1/caps").ok()["items"]
        node = next(cap["name"] for cap in caps if cap["kind"] == "node")
        self.admin.put(f"/v1/caps/node/{node}", {"max_live": count}).ok()

    def start(self, *command, agent=None, **body):
        agent = agent or self.agent()
        return self.admin.post("/v1/runs", {"agent": agent, "command": list(command), **body}).ok(201)["id"]

    def agent(self, **body):
        return self.admin.agent(**{"max_concurrent_runs": 1000, **body})

    def show(self, run):
        return self.admin.get(f"/v1/runs/{run}").ok()

    def wait(self, run, *states, seconds=30):
        states = states or ENDED
        eventually(lambda: self.show(run)["status"] in states, seconds, lambda: f"{self.show(run)}\n{self.server.log()[-3000:]}")
        return self.show(run)

    def log(self, run, **query):
        return self.admin.get(f"/v1/runs/{run}/log", **query)

    def output(self, run):
        return self.log(run, limit=1 << 20).body.decode()

    def stop(self, run, reason="enough"):
        self.admin.post(f"/v1/runs/{run}/cancel", {"reason": reason}).ok()


    def end_all(self):
        """Stops whatever still goes, and waits until it is gone: a server's end does not end its runs."""
        unfinished = self.admin.items("/v1/runs", status="queued,starting,running,paused")
        for run in unfinished:
            self.admin.post(f"/v1/runs/{run['id']}/cancel", {})
        for run in unfinished:
            self.wait(run["id"])
        eventually(lambda: not shims_of(self.data), 20, lambda: str(shims_of(self.data)))


def wait_for(path, seconds=20):
    eventually(lambda: pathlib.Path(path).exists(), seconds, lambda: f"{path} did not come")
    return pathlib.Path(path)


def alive(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


def end_process(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def git(*words, cwd, **options):
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": "Tester", f"GIT_{who}_EMAIL": "tester@example.invalid"}
    done = subprocess.run(["git", *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def repository(path):
    path.mkdir(parents=True)
    git("init", "-q", "-b", "main", cwd=path)
    (path / "readme").write_text("hello\n")
    git("add", ".", cwd=path)
    git("commit", "-qm", "first", cwd=path)
    return path
